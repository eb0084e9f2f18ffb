"""The commands that end by themselves, run in this process."""

import io
import json
import logging
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from trunkline.access.keys import KEY
from trunkline.access.scopes import ROLES, most
from trunkline.app.config import connect, load, read
from trunkline.app.database import open_store
from trunkline.app.folder import sole_user
from trunkline.base.clock import SystemClock
from trunkline.catalog.discovery import Evidence
from trunkline.catalog.evidence import NEVER, EvidenceStore
from trunkline.catalog.listing import Found
from trunkline.catalog.overrides import Overrides
from trunkline.cli import COMMANDS, run
from trunkline.gateway.discovery import key_of
from trunkline.model.card import Card


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


Run = Callable[..., Result]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home and working folder."""
    for name in ("TRUNKLINE_CONFIG", "TRUNKLINE_DATA", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def trunkline(home: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    handlers = logging.getLogger().handlers[:]

    def command(*arguments: str) -> Result:
        try:
            status = run(arguments)
        except SystemExit as end:
            status = end.code
        return Result(status, *capsys.readouterr())

    yield command
    logging.getLogger().handlers[:] = handlers  # the server takes them over


# ------------------------------------------------------------------------------------------------------- the whole of it
def test_help_names_every_command(trunkline: Run) -> None:
    result = trunkline("--help")
    assert result.status == 0
    for name in COMMANDS:
        assert re.search(rf"\b{name}\b", result.out)


def test_the_version_is_a_number_and_in_json_too(trunkline: Run) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", trunkline("--version").out)
    assert trunkline("--version", "--json").json == {"version": trunkline("--version").out.strip()}


@pytest.mark.parametrize(
    "arguments", [["bogus"], ["serve", "--prot", "1"], ["serve", "--port", "many"], ["keys", "create"], ["keys", "list", "x"]], ids=" ".join
)
def test_what_is_not_understood_is_status_2_with_a_hint_on_stderr(trunkline: Run, arguments: list[str]) -> None:
    result = trunkline(*arguments)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith("error: ")
    assert "--help" in result.err
    result = trunkline(*arguments, "--json")
    assert result.status == 2
    assert result.error["hint"]


def test_ctrl_c_is_status_130(trunkline: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("trunkline.cli.make_app", interrupt)
    assert trunkline("doctor").status == 130


# ------------------------------------------------------------------------------------------------------------------ keys
def test_a_new_key_alone_is_on_stdout(trunkline: Run) -> None:
    result = trunkline("keys", "create", "ann")
    assert result.status == 0
    assert KEY.fullmatch(result.out.strip())
    assert "may: inference" in result.err
    assert result.out.strip() not in result.err


def test_a_new_key_in_json_has_all_that_is_known_of_it(trunkline: Run) -> None:
    made = trunkline("keys", "create", "ann", "--scope", "metrics", "--scope", "inference", "--expires-in", "30d", "--json").json
    assert KEY.fullmatch(made["key"])
    assert made["scopes"] == ["inference", "metrics"]
    assert made["expires_at"] > made["created_at"]
    [listed] = trunkline("keys", "list", "--json").json
    assert listed == {name: value for name, value in made.items() if name != "key"}


def test_a_list_in_a_pipe_has_whole_ids_and_takes_names_as_they_are(trunkline: Run) -> None:
    names = ["ann", "[bold]bob[/bold]", "[/]", ":smile:", "x" * 100]
    ids = [trunkline("keys", "create", name, "--json").json["id"] for name in names]
    out = trunkline("keys", "list").out
    for each in [*ids, *names]:
        assert each in out


def test_a_key_is_revoked_by_its_id_its_name_or_its_first_letters(trunkline: Run) -> None:
    for by in ("id", "name", "prefix", "key"):
        made = trunkline("keys", "create", f"by-{by}", "--json").json
        assert trunkline("keys", "revoke", made[by], "--json").json["revoked_at"]
    assert trunkline("keys", "revoke", "by-name").status == 1, "it is revoked already"
    made = trunkline("keys", "create", "again", "--json").json
    assert trunkline("keys", "revoke", "again").out == f"revoked {made['id']} `again`\n"


def test_an_admin_key_is_replaced_and_goes_where_nobody_else_looks(trunkline: Run, home: Path) -> None:
    first = trunkline("keys", "reset-admin", "--json").json
    assert first["scopes"] == ["admin"]
    result = trunkline("keys", "reset-admin")
    path = home / ".local" / "share" / "trunkline" / "admin.key"
    assert result.out == f"The admin key is written to {path}.\n"
    assert KEY.fullmatch(path.read_text().strip())
    assert path.stat().st_mode & 0o777 == 0o600
    listed = trunkline("keys", "list", "--json").json
    assert [row["revoked_at"] is None for row in listed] == [False, True]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["create", "ann", "--scope", "infrence"], "bad_request", "inference"),
        (["create", "ann", "--expires-in", "soon"], "bad_request", "30d"),
        (["create", "ann", "--expires-in", "0d"], "bad_request", "passed"),
        (["create", "ann", "--expires-in", "99999999999w"], "bad_request", "9999"),
        (["create", ""], "bad_request", "name"),
        (["create", "admin"], "conflict", "reset-admin"),
        (["revoke", "nobody"], "not_found", "keys list"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_keys_refuses_is_status_1_with_a_hint(trunkline: Run, arguments: list[str], code: str, words: str) -> None:
    result = trunkline("keys", *arguments)
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith("error: ")
    error = trunkline("keys", *arguments, "--json").error
    assert error["code"] == code
    assert words in error["message"] + error["hint"]
    assert trunkline("keys", "list", "--json").json == []


def test_a_key_is_changed_and_takes_the_place_of_another(trunkline: Run) -> None:
    made = trunkline("keys", "create", "ann", "--model", "openai/*", "--model", "fast", "--end-users", "request", "--json").json
    assert (made["models"], made["end_users"], made["account"]) == (["openai/*", "fast"], "request", "acc_default")
    changed = trunkline("keys", "change", "ann", "--name", "bob", "--all-models", "--expires-in", "1h", "--scope", "metrics", "--json").json
    assert (changed["name"], changed["models"], changed["scopes"], changed["end_users"]) == ("bob", None, ["metrics"], "request")
    assert changed["expires_at"]
    assert trunkline("keys", "change", "bob", "--expires-in", "never", "--model", "x").out == f"changed {made['id']} `bob`\n"
    rotated = trunkline("keys", "rotate", "bob", "--grace", "30m", "--json").json
    assert KEY.fullmatch(rotated["key"])
    assert (rotated["before"]["id"], rotated["models"], rotated["expires_at"]) == (made["id"], ["x"], None)
    result = trunkline("keys", "rotate", rotated["id"], "--grace", "0")
    assert KEY.fullmatch(result.out.strip())
    assert "works no more" in result.err
    assert result.out.strip() not in result.err
    result = trunkline("keys", "rotate", trunkline("keys", "list", "--json").json[-1]["id"])
    assert "works until 20" in result.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["create", "ann", "--scope", "account"], "bad_request", "owners"),
        (["create", "ann", "--account", "acme"], "not_found", "accounts list"),
        (["create", "ann", "--user", "ada"], "not_found", "users list"),
        (["create", "ann", "--model", ""], "bad_request", "models"),
        (["change", "nobody", "--name", "x"], "not_found", "keys list"),
        (["change", "nobody", "--model", "x", "--all-models"], "bad_request", "--all-models"),
        (["rotate", "nobody"], "not_found", "keys list"),
        (["rotate", "nobody", "--grace", "soon"], "bad_request", "30m"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_keys_of_accounts_may_not_be_is_refused_with_a_hint(trunkline: Run, arguments: list[str], code: str, words: str) -> None:
    error = trunkline("keys", *arguments, "--json").error
    assert error["code"] == code
    assert words in error["message"] + error["hint"]


# ------------------------------------------------------------------------------------------------------- accounts, users
def test_accounts_are_made_listed_renamed_disabled_and_deleted(trunkline: Run) -> None:
    made = trunkline("accounts", "create", "acme", "--json").json
    assert {row["name"] for row in trunkline("accounts", "list", "--json").json} == {"default", "acme"}
    assert trunkline("accounts", "rename", "acme", "ajax").out == f"renamed {made['id']} `ajax`\n"
    assert trunkline("accounts", "disable", "ajax", "--json").json["disabled_at"]
    assert trunkline("accounts", "enable", made["id"], "--json").json["disabled_at"] is None
    assert made["id"] in trunkline("accounts", "list").out
    assert trunkline("accounts", "delete", "ajax").out == f"deleted {made['id']} `ajax`\n"
    assert [row["name"] for row in trunkline("accounts", "list", "--json").json] == ["default"]
    assert "ajax" in trunkline("accounts", "rename", "ajax", "x", "--json").error["message"]
    assert trunkline("accounts", "delete", "default", "--json").error["code"] == "conflict"


def test_users_hold_the_keys_of_their_account(trunkline: Run) -> None:
    trunkline("accounts", "create", "acme")
    ada = trunkline("users", "create", "ada", "--account", "acme", "--role", "owner", "--external-id", "u1", "--json").json
    assert (ada["role"], ada["external_id"]) == ("owner", "u1")
    for wanted in ("ada", "u1"):
        key = trunkline("keys", "create", "laptop", "--account", "acme", "--user", wanted, "--scope", "account", "--json").json
        assert (key["account"], key["user"]) == (ada["account"], ada["id"])
    assert trunkline("keys", "create", "phone", "--user", ada["id"], "--json").json["account"] == ada["account"]
    assert [row["id"] for row in trunkline("users", "list", "--account", "acme", "--json").json] == [ada["id"]]
    assert len(trunkline("keys", "list", "--account", "acme", "--json").json) == 3
    assert trunkline("keys", "list", "--account", "default", "--json").json == []
    assert trunkline("users", "change", "ada", "--role", "member", "--account", "acme", "--json").error["code"] == "conflict"
    assert trunkline("users", "delete", "ada", "--account", "acme", "--json").error["code"] == "conflict"
    trunkline("users", "create", "bob", "--account", "acme", "--role", "owner")
    changed = trunkline("users", "change", "u1", "--account", "acme", "--role", "member", "--external-id", "", "--json").json
    assert (changed["role"], changed["external_id"], changed["name"]) == ("member", None, "ada")
    assert trunkline("users", "disable", ada["id"]).out == f"disabled {ada['id']} `ada`\n"
    assert trunkline("users", "enable", "ada", "--account", "acme", "--json").json["disabled_at"] is None
    assert "bob" in trunkline("users", "list").out
    assert trunkline("users", "delete", ada["id"], "--json").json["id"] == ada["id"]
    assert all(row["revoked_at"] for row in trunkline("keys", "list", "--account", "acme", "--json").json)
    assert trunkline("users", "create", "x", "--role", "ownr", "--json").error["hint"] == "Did you mean `owner`?"


GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "accounts.md").read_text(encoding="utf-8")


def test_the_guide_s_commands_run_one_after_the_other(trunkline: Run) -> None:
    lines = [line for block in re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL) for line in block.strip().splitlines()]
    assert len(lines) > 10
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "trunkline"
        result = trunkline(*arguments)
        assert result.status == 0, (line, result.err)
    kept = {row["name"] for row in trunkline("keys", "list", "--json").json if row["revoked_at"] is None}
    assert kept == {"bob-laptop", "nightly-job", "shop-backend"}


def test_what_the_guide_says_of_roles_and_settings_is_so() -> None:
    rows = dict(re.findall(r"^\| `(owner|admin|member|service)` \| (.*?) \|", GUIDE, re.MULTILINE))
    assert {role: set(re.findall(r"\w+", scopes)) for role, scopes in rows.items()} == {role: most(role, "acc_x") for role in ROLES}
    [settings] = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
    assert read(tomllib.loads(settings)).sections.accounts.unknown_end_users == "create"


# ---------------------------------------------------------------------------------------------------------------- config
def test_the_example_passes_the_check(trunkline: Run, home: Path) -> None:
    result = trunkline("config", "example")
    (home / "trunkline.toml").write_text(result.out)
    assert trunkline("config", "example", "--json").json == tomllib.loads(result.out)
    result = trunkline("config", "check")
    assert result.status == 0
    assert "trunkline.toml: fine" in result.out
    assert "note: `openai` has no credential here: set OPENAI_API_KEY, or keep one by `trunkline credentials add openai`" in result.out
    assert "extensions" not in result.out
    checked = trunkline("config", "check", "--json").json
    assert checked["path"] == "trunkline.toml"
    assert checked["providers"] == ["openai", "anthropic", "home", "local", "echo"]
    assert "fast" in checked["models"]
    assert checked["without_credential"] == ["openai", "anthropic"]
    (home / "trunkline.toml").write_text('[extensions.weather]\npath = "weather"\n')
    assert "extensions: weather\n" in trunkline("config", "check").out
    assert trunkline("config", "check", "--json").json["extensions"] == ["weather"]


def test_without_a_file_the_defaults_are_checked(trunkline: Run) -> None:
    assert trunkline("config", "check").out.startswith("no file, defaults: fine")


def test_a_configuration_is_looked_for_here_and_then_in_the_xdg_folder(trunkline: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = home / "xdg" / "trunkline"
    folder.mkdir(parents=True)
    (folder / "trunkline.toml").write_text('[providers.a]\nkind = "echo"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "xdg"))
    assert trunkline("config", "check", "--json").json["providers"] == ["a"]
    (home / "trunkline.toml").write_text('[providers.b]\nkind = "echo"\n')
    assert trunkline("config", "check", "--json").json["providers"] == ["b"]
    (home / "c.toml").write_text('[providers.c]\nkind = "echo"\n')
    monkeypatch.setenv("TRUNKLINE_CONFIG", str(home / "c.toml"))
    assert trunkline("config", "check", "--json").json["providers"] == ["c"]
    assert trunkline("config", "check", "--config", str(home / "trunkline.toml"), "--json").json["providers"] == ["b"]


def test_the_check_refuses_whatever_serving_would_refuse(trunkline: Run, home: Path) -> None:
    (home / "trunkline.toml").write_text('[server]\ntrusted_proxies = ["nobody"]\n')
    result = trunkline("config", "check")
    assert result.status == 1
    assert "server.trusted_proxies" in result.err
    assert trunkline("config", "check", "--json").error["code"] == "config_invalid"


def test_a_configuration_that_is_not_there_is_an_error_with_what_to_do(trunkline: Run) -> None:
    error = trunkline("config", "check", "--config", "none.toml", "--json").error
    assert error["code"] == "not_found"
    assert "config example" in error["hint"]


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_the_schema_is_json_in_any_case(trunkline: Run, arguments: list[str]) -> None:
    assert trunkline("config", "schema", *arguments).json["title"] == "Trunkline"


# ------------------------------------------------------------------------------------------------------- doctor and reload
def test_doctor_says_what_is_well_and_what_there_is(trunkline: Run, home: Path) -> None:
    result = trunkline("doctor")
    assert result.status == 0
    assert "✓ database" in result.out
    assert "dialects: anthropic, openai_chat" in result.out
    told = trunkline("doctor", "--json").json
    assert told["healthy"] is True
    assert "echo" in told["providers"]
    assert not (home / ".local").exists(), "it only looks"


def test_doctor_is_status_1_where_something_is_wrong(trunkline: Run, home: Path) -> None:
    (home / "trunkline.toml").write_text("[sever]\n")
    result = trunkline("doctor")
    assert result.status == 1
    assert "✗ configuration: `[sever]` is not a section\n    Did you mean `[server]`?" in result.out
    assert trunkline("doctor", "--json").json["healthy"] is False


def test_a_reload_without_a_server_is_an_error(trunkline: Run) -> None:
    error = trunkline("reload", "--json").error
    assert error["code"] == "not_found"
    assert "trunkline serve" in error["hint"]


def test_a_reload_is_a_signal_to_the_process_that_has_the_data_folder(trunkline: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr("os.kill", lambda process, number: sent.append((process, number)))
    with sole_user(home / "data"):
        told = trunkline("reload", "--data", str(home / "data"), "--json").json
    assert [(told["process"], 1)] == sent


# ----------------------------------------------------------------------------------------------------------------- serve
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "0.0.0.0"], "--insecure-http"),
        (["--host", "192.0.2.1", "--port", "1"], "--tls-cert"),
        (["--tls-cert", "none.pem"], "server.tls_key"),
        (["--tls-cert", "none.pem", "--tls-key", "none.key"], "server.tls_cert"),
        (["--config", "none.toml"], "config example"),
        (["--port", "99999"], "server.port"),
        (["--port", "-1"], "server.port"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_served_is_status_1_with_a_hint_and_nothing_is_made(
    trunkline: Run, home: Path, arguments: list[str], words: str
) -> None:
    result = trunkline("serve", *arguments)
    assert (result.status, result.out) == (1, "")
    assert words in result.err
    assert not (home / ".local").exists()


# ----------------------------------------------------------------------------------------------------------- translation
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "seed": 7, "max_tokens": 5, "stream": True}


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], None]:
    """Put something on stdin."""

    def put(value: object) -> None:
        text = value if isinstance(value, bytes) else json.dumps(value).encode()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))

    return put


def test_translate_shows_the_body_on_stdout_and_what_is_lost_on_stderr(trunkline: Run, piped: Callable[[object], None]) -> None:
    piped(CHAT)
    result = trunkline("translate", "openai_chat", "anthropic")
    assert result.status == 0
    assert json.loads(result.out) == {
        "model": "m",
        "max_tokens": 5,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "stream": True,
    }
    assert result.out.count("\n") > 5, "for people"
    assert result.err == "material seed dropped: this format has no such parameter\n"


def test_translate_in_json_has_both_and_takes_the_models_name_and_limit(trunkline: Run, piped: Callable[[object], None]) -> None:
    piped({"model": "m", "messages": []})
    told = trunkline("translate", "openai_chat", "anthropic", "--model", "opus", "--max-output", "99", "--json").json
    assert told["body"] == {"model": "opus", "max_tokens": 99, "messages": []}
    assert [(loss["path"], loss["class"], loss["severity"]) for loss in told["losses"]] == [("max_tokens", "approximated", "advisory")]


@pytest.mark.parametrize("target", ["openai_chat", "openai_responses", "anthropic"])
def test_every_format_translates_into_every_other_and_into_itself_without_loss(
    trunkline: Run, piped: Callable[[object], None], target: str
) -> None:
    for source, body in (
        ("openai_chat", {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "hi"}]}),
        ("openai_responses", {"model": "m", "max_output_tokens": 99, "input": "hi"}),
        ("anthropic", {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "hi"}]}),
    ):
        piped(body)
        told = trunkline("translate", source, target, "--json").json
        assert told["losses"] == []
        assert "hi" in json.dumps(told["body"])


@pytest.mark.parametrize(
    ("arguments", "body", "code", "words"),
    [
        (["openai_cha", "anthropic"], CHAT, "not_found", "Did you mean `openai_chat`?"),
        (["openai_chat", "zzz"], CHAT, "not_found", "Known: "),
        (["openai_chat", "anthropic"], b"nope", "bad_request", "not a JSON object"),
        (["openai_chat", "anthropic"], {"model": "m", "messages": 7}, "bad_request", "`messages` is `7`"),
        (["openai_responses", "anthropic"], {"model": "m", "previous_response_id": "resp_1"}, "bad_request", "`previous_response_id`"),
        (["openai_chat", "openai_embeddings"], CHAT, "bad_request", "`openai_embeddings`"),
    ],
)
def test_what_cannot_be_translated_is_status_1_with_the_reason(
    trunkline: Run, piped: Callable[[object], None], arguments: list[str], body: object, code: str, words: str
) -> None:
    piped(body)
    result = trunkline("translate", *arguments, "--json")
    assert result.status == 1
    assert result.error["code"] == code
    assert words in f"{result.error['message']} {result.error['hint']}"


ROUTES = """
[providers.openai]
kind = "openai"
[providers.claude]
kind = "anthropic"
[providers.home]
kind = "compatible"
base_url = "http://127.0.0.1:8000/v1"
models = ["qwen3"]
[providers.here]
kind = "local"
[routes.fast]
targets = [
    { model = "claude/sonnet", order = 1 },
    { model = "home/qwen3" },
    { model = "here/smollm2", order = 2 },
]
"""


def test_a_route_is_explained_target_by_target(trunkline: Run, home: Path) -> None:
    (home / "trunkline.toml").write_text(ROUTES)
    assert trunkline("route", "explain", "fast", "--json").json == [
        {
            "try": 1,
            "target": "home/qwen3",
            "kind": "compatible",
            "format": "openai_chat",
            "how": "forwarded",
            "at": "http://127.0.0.1:8000/v1",
        },
        {
            "try": 2,
            "target": "claude/sonnet",
            "kind": "anthropic",
            "format": "anthropic",
            "how": "translated",
            "at": "https://api.anthropic.com",
        },
        {
            "try": 3,
            "target": "here/smollm2",
            "kind": "local",
            "format": "openai_chat",
            "how": "forwarded",
            "at": "a process of its own",
        },
    ]


def test_a_route_is_explained_for_the_format_that_its_client_speaks(trunkline: Run, home: Path) -> None:
    (home / "trunkline.toml").write_text(ROUTES)
    told = trunkline("route", "explain", "fast", "--format", "anthropic", "--json").json
    assert [(each["target"], each["how"]) for each in told] == [
        ("home/qwen3", "translated"),
        ("claude/sonnet", "forwarded"),
        ("here/smollm2", "translated"),
    ]
    [responses] = trunkline("route", "explain", "openai/gpt-5-mini", "--format", "openai_responses", "--json").json
    assert (responses["format"], responses["how"]) == ("openai_responses", "forwarded")


def test_a_route_is_explained_as_a_table_for_people_and_the_default_is_echo(trunkline: Run, home: Path) -> None:
    out = trunkline("route", "explain", "echo").out
    for word in ("echo/echo", "forwarded", "this process"):
        assert word in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["fst"], "Did you mean `fast`?"), (["fast", "--format", "openai_cht"], "Did you mean `openai_chat`?")],
)
def test_what_cannot_be_explained_is_status_1_with_the_nearest_name(trunkline: Run, home: Path, arguments: list[str], words: str) -> None:
    (home / "trunkline.toml").write_text(ROUTES)
    result = trunkline("route", "explain", *arguments, "--json")
    assert (result.status, result.error["code"]) == (1, "not_found")
    assert words in result.error["hint"]


# ---------------------------------------------------------------------------------------------------------------- models
MODELS = """
[catalog]
discover = true
[providers.anthropic]
kind = "anthropic"
models = ["claude-haiku-5-5", "claude-of-tomorrow"]
[providers.home]
kind = "compatible"
base_url = "http://127.0.0.1:8000/v1"
[providers.echo]
kind = "echo"
models = ["echo"]
[routes.smart]
targets = [{ model = "anthropic/claude-haiku-5-5" }]
"""


def test_models_are_listed_with_limits_prices_and_where_these_come_from(trunkline: Run, home: Path) -> None:
    (home / "trunkline.toml").write_text(MODELS)
    rows = {row["name"]: row for row in trunkline("models", "--json").json}
    assert list(rows) == ["smart", "anthropic/claude-haiku-5-5", "anthropic/claude-of-tomorrow", "echo/echo"]
    haiku = rows["anthropic/claude-haiku-5-5"]
    assert (haiku["provider"], haiku["context_window"], haiku["max_output"], haiku["lifecycle"]) == (
        "anthropic",
        1_000_000,
        128_000,
        "active",
    )
    assert haiku["price"]["dollars_per_million"]["output"] == "0.50"
    assert haiku["price"]["tiers"][0]["above"] == 100_000
    assert haiku["price"]["source"].startswith("https://")
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", haiku["price"]["date"])
    assert (rows["smart"]["from"], rows["smart"]["price"]) == ("route", haiku["price"])
    assert (rows["anthropic/claude-of-tomorrow"]["price"], rows["anthropic/claude-of-tomorrow"]["context_window"]) == (None, None)
    assert rows["echo/echo"]["price"]["free"]
    table = trunkline("models").out
    assert "1,000,000" in table
    assert "free" in table
    assert not (home / ".local").exists(), "looking makes no database"


def test_models_that_a_server_found_are_listed_with_the_age_of_the_list_and_overrides_count(trunkline: Run, home: Path) -> None:
    (home / "trunkline.toml").write_text(MODELS)
    folder = home / "data"
    engine = open_store(folder)
    [provider] = [each for each in connect(load(home / "trunkline.toml")).values() if each.name == "home"]
    evidence = Evidence(status="discovered", models=(Found("qwen3", Card(context_window=9)),), observed_at=1_700_000_000.0)
    EvidenceStore(engine).save_if(key_of(provider), evidence, NEVER)
    Overrides(engine, SystemClock()).create(provider="home", model="qwen3", card={"max_output": 7}, price={"rates": {"input": "1.5"}})
    engine.dispose()
    rows = {row["name"]: row for row in trunkline("models", "--json", "--data", str(folder)).json}
    found = rows["home/qwen3"]
    assert (found["from"], found["stale"], found["listed_at"]) == ("discovery", True, "2023-11-14T22:13:20Z")
    assert (found["context_window"], found["max_output"]) == (9, 7)
    assert (found["price"]["dollars_per_million"], found["price"]["source"]) == ({"input": "1.50"}, "the operator")
    assert "stale, 2023-11-14T22:13:20Z" in trunkline("models", "--data", str(folder)).out
