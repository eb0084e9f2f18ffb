"""`trunkline backup` and `trunkline restore`, run in this process."""

import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from trunkline.app.folder import sole_user
from trunkline.base.secret import Secret
from trunkline.cli import passphrase as module
from trunkline.cli import run
from trunkline.cli.output import progress_bar
from trunkline.store.sealed import Seal, unsealed

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "backup.md"
PASSPHRASE = "correct horse battery staple"


class Result(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, str]:
        assert self.out == ""
        return json.loads(self.err)["error"]


Trunkline = Callable[..., Result]


@pytest.fixture
def trunkline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Trunkline:
    """Runs a command in an empty home; a passphrase costs nothing to try."""
    for name in ("TRUNKLINE_CONFIG", "TRUNKLINE_DATA", "XDG_CONFIG_HOME", "XDG_DATA_HOME", module.VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(Seal.__init__.__kwdefaults__, "cost", 2)

    def command(*arguments: str) -> Result:
        capsys.readouterr()
        return Result(run(arguments), *capsys.readouterr())

    return command


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "passphrase"
    path.write_text(f"{PASSPHRASE}\n")
    return path


@pytest.fixture
def keys(trunkline: Trunkline) -> list[Any]:
    """The keys of an installation in the folder `here`."""
    for name in ("ann", "bob-canary"):
        trunkline("keys", "create", name, "--data", "here")
    return trunkline("keys", "list", "--data", "here", "--json").json


@pytest.mark.proves("backup.whole")
def test_an_installation_is_backed_up_while_it_runs_and_put_back_elsewhere(
    trunkline: Trunkline, keys: list[Any], secret: Path, tmp_path: Path
) -> None:
    with sole_user(tmp_path / "here"):
        result = trunkline("backup", "all.backup", "--data", "here", "--passphrase-file", str(secret))
    assert result.status == 0
    assert "3 rows" in result.out
    assert "vault's key" in result.err
    assert PASSPHRASE not in result.out + result.err
    file = tmp_path / "all.backup"
    assert file.stat().st_mode & 0o777 == 0o600
    assert b"canary" not in file.read_bytes()
    result = trunkline("restore", "all.backup", "--data", "there", "--passphrase-file", str(secret))
    assert result.status == 0, result.err
    assert "3 rows" in result.out
    assert "vault's key" in result.err
    assert trunkline("keys", "list", "--data", "there", "--json").json == keys


def test_both_say_in_json_what_they_did(trunkline: Trunkline, keys: list[Any], secret: Path, tmp_path: Path) -> None:
    made = trunkline("backup", "b", "--data", "here", "--passphrase-file", str(secret), "--json")
    assert made.err == ""
    assert made.json["rows"]["keys"] == 2
    assert made.json["bytes"] == (tmp_path / "b").stat().st_size
    assert "the vault's key" in made.json["not_included"]
    put = trunkline("restore", "b", "--data", "there", "--passphrase-file", str(secret), "--json")
    assert put.err == ""
    assert {name: put.json[name] for name in ("path", "schema", "rows")} == {name: made.json[name] for name in ("path", "schema", "rows")}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", put.json["made_at"])


def test_a_passphrase_may_come_from_the_environment(trunkline: Trunkline, keys: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(module.VARIABLE, PASSPHRASE)
    assert trunkline("backup", "b", "--data", "here").status == 0
    assert trunkline("restore", "b", "--data", "there").status == 0
    monkeypatch.setenv(module.VARIABLE, PASSPHRASE.upper())
    assert trunkline("restore", "b", "--data", "elsewhere", "--json").error["code"] == "backup_unusable"


def test_a_person_types_a_new_passphrase_twice_and_an_old_one_once(
    trunkline: Trunkline, keys: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed: list[str] = []
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(module, "getpass", lambda _prompt, _stream: typed.pop(0))
    typed[:] = [PASSPHRASE, PASSPHRASE + "x"]
    assert "two passphrases" in trunkline("backup", "b", "--data", "here").err
    typed[:] = [PASSPHRASE, PASSPHRASE]
    assert trunkline("backup", "b", "--data", "here").status == 0
    typed[:] = [PASSPHRASE]
    assert trunkline("restore", "b", "--data", "there").status == 0
    assert typed == []


@pytest.mark.parametrize(
    ("content", "words"), [("short\n", "5 characters"), ("\n", "empty"), (None, "cannot be read"), (b"\xff\xfe", "UTF-8")], ids=str
)
def test_a_passphrase_that_protects_nothing_is_refused(
    trunkline: Trunkline, keys: list[Any], tmp_path: Path, content: str | bytes | None, words: str
) -> None:
    path = tmp_path / "passphrase"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    result = trunkline("backup", "b", "--data", "here", "--passphrase-file", str(path), "--json")
    assert result.status == 1
    assert words in result.error["message"]
    assert not (tmp_path / "b").exists()


def test_without_a_terminal_a_passphrase_is_asked_for_in_words(
    trunkline: Trunkline, keys: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    for command in ("backup", "restore"):
        error = trunkline(command, "b", "--data", "here", "--json").error
        assert error["code"] == "bad_request"
        assert "--passphrase-file" in error["hint"]
        assert module.VARIABLE in error["hint"]


def test_a_backup_replaces_no_file_and_leaves_none_behind(trunkline: Trunkline, keys: list[Any], secret: Path, tmp_path: Path) -> None:
    (tmp_path / "b").write_text("mine")
    before = set(tmp_path.iterdir())
    assert trunkline("backup", "b", "--data", "here", "--passphrase-file", str(secret), "--json").error["code"] == "conflict"
    assert (tmp_path / "b").read_text() == "mine"
    assert set(tmp_path.iterdir()) == before


def test_a_backup_of_nothing_is_an_error_and_makes_nothing(trunkline: Trunkline, secret: Path, tmp_path: Path) -> None:
    assert trunkline("backup", "b", "--data", "nowhere", "--passphrase-file", str(secret), "--json").error["code"] == "not_found"
    assert not (tmp_path / "nowhere").exists()
    assert not (tmp_path / "b").exists()


def test_a_restore_waits_for_no_server_and_replaces_nothing_unasked(
    trunkline: Trunkline, keys: list[Any], secret: Path, tmp_path: Path
) -> None:
    given = ("--data", "here", "--passphrase-file", str(secret))
    assert trunkline("backup", "b", *given).status == 0
    trunkline("keys", "create", "later", "--data", "here")
    with sole_user(tmp_path / "here"):
        error = trunkline("restore", "b", *given, "--replace", "--json").error
    assert error["code"] == "conflict"
    assert "another Trunkline" in error["message"]
    error = trunkline("restore", "b", *given, "--json").error
    assert error["code"] == "conflict"
    assert "--replace" in error["hint"]
    assert len(trunkline("keys", "list", "--data", "here", "--json").json) == 3
    assert trunkline("restore", "b", *given, "--replace").status == 0
    assert trunkline("keys", "list", "--data", "here", "--json").json == keys


@pytest.mark.parametrize("path", ["nowhere", "here"])
def test_a_restore_of_what_is_not_there_or_no_file_is_an_error(trunkline: Trunkline, keys: list[Any], secret: Path, path: str) -> None:
    error = trunkline("restore", path, "--data", "there", "--passphrase-file", str(secret), "--json").error
    assert error["code"] == "not_found"
    assert f"`{path}`" in error["message"]


def test_what_is_no_backup_is_refused(trunkline: Trunkline, secret: Path) -> None:
    assert (
        trunkline("restore", "passphrase", "--data", "there", "--passphrase-file", str(secret), "--json").error["code"] == "backup_unusable"
    )


@pytest.mark.needs("postgres")
def test_a_file_s_rows_go_to_a_server_and_back(
    trunkline: Trunkline, keys: list[Any], secret: Path, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ("--passphrase-file", str(secret))
    assert trunkline("backup", "one", "--data", "here", *given).status == 0
    monkeypatch.setenv("TRUNKLINE_STORE__URL", "env:THE_DATABASE")
    monkeypatch.setenv("THE_DATABASE", postgres)
    assert trunkline("restore", "one", "--data", "data", *given).status == 0
    assert trunkline("keys", "list", "--data", "data", "--json").json == keys
    assert trunkline("backup", "two", "--data", "data", *given).status == 0
    monkeypatch.delenv("TRUNKLINE_STORE__URL")
    assert trunkline("restore", "two", "--data", "there", *given).status == 0
    assert trunkline("keys", "list", "--data", "there", "--json").json == keys


def test_a_terminal_sees_a_bar_and_nobody_else(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for hidden in (False, True):
        with progress_bar("backing up", hidden=hidden) as progress:
            progress(1, 2)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with progress_bar("backing up", hidden=False) as progress:
        progress(1, 2)
        progress(2, 2)
    out, err = capsys.readouterr()
    assert out == ""
    assert "backing up" in err


def test_the_guide_s_commands_do_what_it_says(
    trunkline: Trunkline, keys: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRUNKLINE_DATA", "here")
    lines = [
        line.partition(" #")[0] for block in re.findall(r"```sh\n(.*?)```", GUIDE.read_text(), re.DOTALL) for line in block.splitlines()
    ]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("trunkline ")]
    assert {command[0] for command in commands} == {"backup", "restore"}
    (tmp_path / "passphrase.txt").write_text(f"{PASSPHRASE}\n")
    for command in commands:
        result = trunkline(*command)
        assert result.status == 0, (command, result.err)
    [made] = tmp_path.glob("*.backup")
    with made.open("rb") as file:
        assert b"".join(unsealed(file, Secret(PASSPHRASE))).startswith(b'{"format":1')
