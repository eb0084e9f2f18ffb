from pathlib import Path

import pytest

from trunkline.app import diagnosis
from trunkline.app.config import load
from trunkline.app.database import open_store
from trunkline.app.diagnosis import Finding, diagnose
from trunkline.store.condition import Condition


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    return folder


def found(config: Path | None, data: Path) -> dict[str, Finding]:
    return {finding.subject: finding for finding in diagnose(config, data)}


def written(folder: Path, text: str) -> Path:
    path = folder / "trunkline.toml"
    path.write_text(text)
    return path


def test_a_fresh_installation_is_well_and_nothing_is_made(data: Path) -> None:
    findings = found(None, data)
    assert not [finding for finding in findings.values() if finding.problem]
    assert findings["configuration"].detail == "none, so the defaults: 1 providers"
    assert "not there yet" in findings["database"].detail
    assert list(data.iterdir()) == []


def test_a_folder_that_is_not_there_yet_is_well_where_it_can_be_made(data: Path) -> None:
    assert not found(None, data / "deep" / "down")["data folder"].problem
    assert list(data.iterdir()) == []


def test_a_used_database_says_its_schema(data: Path) -> None:
    open_store(data).dispose()
    assert found(None, data)["database"].detail.startswith("schema 0")


def test_a_database_is_looked_at_before_an_upgrade(data: Path) -> None:
    open_store(data).dispose()
    findings = found(None, data)
    assert not [finding for finding in findings.values() if finding.problem]
    assert {name for name in findings if name.startswith("database ")} == {"database disk", "database clock", "database permissions"}


def test_what_is_in_the_way_of_an_upgrade_is_told_with_what_to_do(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store(data).dispose()
    state = Condition(server="SQLite 3", size=1 << 62, seconds_ahead=7.0, obstacles=("is a standby", "is read-only"))
    monkeypatch.setattr(diagnosis, "condition", lambda *_: state)
    findings = found(None, data)
    assert "MB are free" in findings["database disk"].problem
    assert findings["database clock"].problem == "the database is 7 seconds ahead of this machine's clock"
    assert findings["database permissions"].problem == "the database is a standby and is read-only"
    assert all(findings[name].hint for name in ("database disk", "database clock", "database permissions"))


def test_a_database_elsewhere_is_looked_at_there(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", f"sqlite:///{tmp_path}/elsewhere/x.sqlite")
    config = written(tmp_path, '[store]\nurl = "env:PLACE"\n[providers.echo]\nkind = "echo"\n')
    assert "not there yet" in found(config, data)["database"].detail
    open_store(data, load(config).sections.store).dispose()
    assert found(config, data)["database"].detail.startswith("schema 0")
    assert list(data.iterdir()) == []
    monkeypatch.delenv("PLACE")
    assert "`PLACE` is not set" in found(config, data)["database"].problem


def test_a_database_that_nobody_can_name_is_a_problem(data: Path, tmp_path: Path) -> None:
    assert found(written(tmp_path, "[store"), data)["database"].problem


def test_what_is_wrong_is_told_with_what_to_do(data: Path, tmp_path: Path) -> None:
    config = written(tmp_path, '[server]\ntrusted_proxies = ["nobody"]\n')
    data.chmod(0o755)
    (data / "trunkline.sqlite").write_text("this is no database, and long enough to be read as one")
    findings = found(config, data)
    assert "trusted_proxies" in findings["configuration"].problem
    assert "others can look into" in findings["data folder"].problem
    assert findings["data folder"].hint == f"`chmod 700 {data}`"
    assert "is damaged, or is no SQLite database" in findings["database"].problem


def test_a_provider_without_its_credential_is_a_note_and_no_problem(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    findings = found(written(tmp_path, '[providers.openai]\nkind = "openai"\n'), data)
    assert findings["configuration"].detail.endswith("1 providers, with stored credentials or none: openai")
    assert not findings["configuration"].problem


def test_a_local_model_whose_weights_are_not_here_is_a_problem_with_the_command_that_helps(data: Path, tmp_path: Path) -> None:
    findings = found(written(tmp_path, f'[providers.small]\nkind = "local"\nweights = "{tmp_path}/none.gguf"\n'), data)
    assert findings["providers.small"].problem
    assert findings["providers.small"].hint


def test_an_extension_without_its_code_is_a_problem_with_the_whole_path(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "main.py").touch()
    (tmp_path / "empty").mkdir()
    tables = [f'[extensions.{name}]\npath = "{name}"\n' for name in ("here", "empty", "gone")]
    lost = ['[extensions.lost]\npath = "~nobody-of-that-name/x"\n']
    findings = found(written(tmp_path, "".join([*tables, '[extensions.off]\npath = "gone"\nenabled = false\n', *lost])), data)
    assert findings["extensions.here"].detail == f"{tmp_path}/here/main.py"
    for name in ("empty", "gone"):
        assert findings[f"extensions.{name}"].problem == f"there is no `{tmp_path}/{name}/main.py`"
        assert findings[f"extensions.{name}"].hint
    assert "extensions.off" not in findings
    assert findings["extensions.lost"].problem.startswith("`~nobody-of-that-name/x` cannot be found: ")


def test_a_full_disk_is_a_problem(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "LEAST_DISK", 1 << 62)
    assert "MB are free" in found(None, data)["data folder"].problem


def test_what_the_operating_system_refuses_is_a_finding_and_not_a_crash(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied", str(data))

    monkeypatch.setattr(diagnosis, "_data_folder", refuse)
    assert found(None, data)["data folder"].problem == f"`{data}` cannot be looked at: Permission denied"
