"""`trunkline credentials` and `trunkline vault`, in this process."""

import io
import json
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from trunkline.access.vault_key import new_key, read_keys, write_keys
from trunkline.cli import credentials as command_module
from trunkline.cli import run

SECRET = "sk-canary/0123456789+abcdef="


class Result(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, str]:
        return json.loads(self.err)["error"]


Run = Callable[..., Result]


class Stdin(io.StringIO):
    """What a command reads."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TRUNKLINE_CONFIG", "TRUNKLINE_DATA", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "OPENAI_API_KEY", "TRUNKLINE_VAULT__KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trunkline.toml").write_text('[providers.openai]\nkind = "openai"\n[providers.anthropic]\nkind = "anthropic"\n')
    return tmp_path


@pytest.fixture
def trunkline(home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Runs a command, with something on its stdin. None of them ever prints the secret, or a key of the vault."""
    said: list[str] = []

    def command(*arguments: str, stdin: str = SECRET) -> Result:
        monkeypatch.setattr(sys, "stdin", Stdin(stdin))
        try:
            status = run(arguments)
        except SystemExit as end:
            status = end.code
        out, err = capsys.readouterr()
        said.extend((out, err))
        return Result(status, out, err)

    yield command
    keys = key_file(home).read_text().splitlines()[1:] if key_file(home).exists() else []
    assert [canary for canary in ("canary", "0123456789", *keys) if canary in "".join(said)] == []


def key_file(home: Path) -> Path:
    return home / ".local/share/trunkline/vault.key"


@pytest.mark.proves("vault.unread")
def test_a_credential_is_read_from_stdin_and_told_without_its_secret(trunkline: Run, home: Path) -> None:
    result = trunkline("credentials", "add", "openai", "--name", "team", "--weight", "3", "--json", stdin=f"{SECRET}\n")
    assert result.status == 0, result.err
    row = result.json
    assert {name: row[name] for name in ("provider", "name", "weight", "account", "user", "enabled", "hint", "revision")} == {
        "provider": "openai",
        "name": "team",
        "weight": 3,
        "account": None,
        "user": None,
        "enabled": True,
        "hint": "def=",
        "revision": 1,
    }
    assert trunkline("credentials", "list", "--json").json == [row]
    table = trunkline("credentials", "list").out
    assert row["id"] in table
    assert "def=" in table
    assert stat.S_IMODE(key_file(home).stat().st_mode) == 0o600


def test_a_credential_may_be_in_a_file(trunkline: Run, home: Path) -> None:
    (home / "key").write_text(f"{SECRET}\n")
    assert trunkline("credentials", "add", "openai", "--file", "key", "--json", stdin="").json["hint"] == "def="
    result = trunkline("credentials", "add", "openai", "--name", "x", "--file", "nowhere", "--json")
    assert (result.status, result.error["code"]) == (1, "bad_request")
    assert "`nowhere`" in result.error["message"]


def test_a_terminal_is_asked_and_shows_nothing(trunkline: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(Stdin, "isatty", lambda _: True)
    monkeypatch.setattr(command_module, "getpass", lambda prompt: asked.append(prompt) or SECRET)
    assert trunkline("credentials", "add", "openai", stdin="").status == 0
    assert asked == ["Credential (not shown): "]


@pytest.mark.proves("vault.unread")
def test_a_secret_is_never_an_argument(trunkline: Run) -> None:
    for arguments in (["openai", "x-secret"], ["openai", "--secret", "x-secret"], ["openai", "--key", "x-secret"]):
        assert trunkline("credentials", "add", *arguments).status == 2


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "says"),
    [
        (["opneai"], SECRET, "not_found", "`opneai`"),
        (["openai"], "", "bad_request", "`secret`"),
        (["openai"], "two\nlines-of-it", "bad_request", "`secret`"),
        (["openai", "--weight", "0"], SECRET, "bad_request", "`weight` is 0"),
        (["openai", "--user", "usr_a"], SECRET, "bad_request", "`account`"),
    ],
)
def test_what_cannot_be_added_is_refused_by_its_field(trunkline: Run, arguments: list[str], stdin: str, code: str, says: str) -> None:
    result = trunkline("credentials", "add", *arguments, "--json", stdin=stdin)
    assert (result.status, result.error["code"]) == (1, code)
    assert says in result.error["message"]
    assert trunkline("credentials", "list", "--json").json == []


def test_a_credential_is_disabled_enabled_replaced_and_removed(trunkline: Run) -> None:
    wanted = trunkline("credentials", "add", "openai", "--account", "acc_default", "--json").json["id"]
    assert trunkline("credentials", "disable", wanted, "--json").json["enabled"] is False
    assert f"enabled {wanted}" in trunkline("credentials", "enable", wanted).out
    assert trunkline("credentials", "replace", wanted, "--json", stdin="another-secret-of-24-char").json["hint"] == "char"
    assert trunkline("credentials", "remove", wanted, "--json").json["revision"] == 4
    for act in ("disable", "enable", "replace", "remove"):
        result = trunkline("credentials", act, wanted, "--json")
        assert (result.status, result.error["code"]) == (1, "not_found")


# ------------------------------------------------------------------------------------------------------------------ vault
def test_the_vault_says_where_its_keys_are_and_what_needs_them(trunkline: Run, home: Path) -> None:
    empty = trunkline("vault", "status", "--json").json
    assert (empty["keys"], empty["secrets"], empty["locked"]) == ([], 0, [])
    assert str(key_file(home)) in empty["where"]
    trunkline("credentials", "add", "openai")
    state = trunkline("vault", "status", "--json").json
    [key] = read_keys(key_file(home).read_text(), "x")
    assert state["keys"] == [{"id": key.id, "current": True, "present": True, "seals": 1, "secrets": 1}]
    assert key.id in trunkline("vault", "status").out


@pytest.mark.proves("vault.rotation")
def test_the_vault_is_rotated(trunkline: Run, home: Path) -> None:
    trunkline("credentials", "add", "openai")
    [old] = read_keys(key_file(home).read_text(), "x")
    done = trunkline("vault", "rotate", "--json").json
    [new] = read_keys(key_file(home).read_text(), "x")
    assert done == {"key": new.id, "resumed": False, "sealed": 1, "removed": [old.id], "removable": [], "locked": []}
    told = trunkline("vault", "rotate").out
    assert new.id in told
    assert "Backups" in told


def test_a_rotation_that_leaves_something_behind_is_status_1(trunkline: Run, home: Path) -> None:
    wanted = trunkline("credentials", "add", "openai", "--json").json["id"]
    key_file(home).write_text(write_keys([new_key()]))
    result = trunkline("vault", "rotate")
    assert result.status == 1
    assert wanted in result.err
    assert f"locked: {wanted}" in trunkline("vault", "status").out


def test_a_key_in_the_environment_is_told_how_to_be_rotated(trunkline: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (home / "trunkline.toml").open("a") as file:
        file.write('[vault]\nkey = "env:MY_VAULT_KEY"\n')
    result = trunkline("credentials", "add", "openai", "--json")
    assert (result.status, result.error["code"]) == (1, "vault_unavailable")
    monkeypatch.setenv("MY_VAULT_KEY", write_keys([new_key()]))
    assert trunkline("credentials", "add", "openai").status == 0
    result = trunkline("vault", "rotate", "--json")
    assert result.status == 1
    assert "before the present one" in result.error["hint"]
    assert not key_file(home).exists()


def test_a_key_that_others_can_read_is_refused(trunkline: Run, home: Path) -> None:
    trunkline("credentials", "add", "openai")
    key_file(home).chmod(0o640)
    result = trunkline("credentials", "add", "anthropic", "--json")
    assert (result.status, result.error["code"]) == (1, "vault_unavailable")
    assert "chmod 600" in result.error["hint"]


def test_the_doctor_looks_at_the_vault(trunkline: Run, home: Path) -> None:
    trunkline("credentials", "add", "openai")
    found = {each["subject"]: each for each in trunkline("doctor", "--json").json["findings"]}
    assert "1 secret" in found["vault"]["detail"]
    key_file(home).chmod(0o644)
    found = {each["subject"]: each for each in trunkline("doctor", "--json").json["findings"]}
    assert "others can read" in found["vault"]["problem"]
    key_file(home).unlink()
    found = {each["subject"]: each for each in trunkline("doctor", "--json").json["findings"]}
    assert "1 of 1 secrets do not open" in found["vault"]["problem"]
