"""The command line as a client of a running server."""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Refused
from tests.fakes.server import PATIENCE, Server, trunkline
from trunkline.access.keys import KEY

CONFIG = """
[providers.echo]
kind = "echo"
models = ["echo"]

[routes.fast]
targets = [{ model = "echo/echo" }]
"""
PROMPT = "canary prompt"
CALL = {"model": "fast", "max_tokens": 9, "messages": [{"role": "user", "content": PROMPT}]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("commanded"), config=CONFIG) as server:
        assert server.ask("POST", "/v1/messages", CALL).status == 200
        assert server.ask("POST", "/v1/messages", {**CALL, "model": "nobody"}).status == 404
        end = time.monotonic() + PATIENCE
        while len(rows(server)) < 2:
            assert time.monotonic() < end, "the rows of two calls"
        yield server


def rows(server: Server) -> list[dict[str, Any]]:
    return server.ask("GET", "/api/v1/exchanges").json["data"]


def run(server: Server, *arguments: str | Path, data: bool = True, **variables: str) -> Any:
    return trunkline(*arguments, *(["--data", server.data] if data else []), home=server.home, **variables)


@pytest.mark.proves("exchanges")
def test_each_call_is_a_row_that_says_what_became_of_it_and_not_what_was_said(server: Server) -> None:
    result = run(server, "exchanges", "list", "--json")
    assert result.returncode == 0, result.stderr
    refused, good = json.loads(result.stdout)["data"]
    assert (good["model"], good["target"], good["status"], good["outcome"], good["error"]) == ("fast", "echo/echo", 200, "ok", None)
    assert (good["account"], good["stream"], good["path"]) == ("acc_default", False, "/v1/messages")
    assert [each["outcome"] for each in good["attempts"]] == ["ok"]
    assert good["usage"]["input"] > 0
    assert good["seconds"] >= good["first_byte"] > 0
    assert good["key"].startswith("key_")
    assert (refused["model"], refused["target"], refused["outcome"], refused["error"]) == ("nobody", None, "error", "not_found")
    assert PROMPT not in result.stdout
    one = json.loads(run(server, "exchanges", "get", good["id"], "--json").stdout)
    assert one == good
    for path in server.data.glob("trunkline.sqlite*"):
        assert PROMPT.encode() not in path.read_bytes()
        assert server.key.encode() not in path.read_bytes()


def test_a_list_is_filtered_and_a_table_says_how_to_go_on(server: Server) -> None:
    found = json.loads(run(server, "exchanges", "list", "--outcome", "error", "--json").stdout)["data"]
    assert [row["model"] for row in found] == ["nobody"]
    table = run(server, "exchanges", "list", "--limit", "1")
    assert "nobody" in table.stdout
    assert found[0]["id"] in table.stdout
    assert table.stderr.strip() == f"There are more: --after {found[0]['id']}"


def test_providers_and_routes_are_told_and_where_calls_go(server: Server) -> None:
    assert "echo" in run(server, "providers", "list").stdout
    assert json.loads(run(server, "providers", "get", "echo", "--json").stdout)["state"] == "well"
    assert "echo/echo" in run(server, "routes", "list").stdout
    told = json.loads(run(server, "routes", "explain", "--model", "fast", "--format", "anthropic", "--json").stdout)
    assert [stop["target"] for stop in told["stops"]] == ["echo/echo"]


def test_an_error_of_the_server_is_the_commands_error(server: Server) -> None:
    result = run(server, "providers", "get", "eccho", "--json")
    assert (result.returncode, result.stdout) == (1, "")
    error = json.loads(result.stderr)["error"]
    assert (error["code"], error["hint"]) == ("not_found", "Did you mean `echo`?")
    result = run(server, "exchanges", "list", "--limit", "0")
    assert (result.returncode, "`limit` is `0`" in result.stderr) == (1, True)


def test_anything_can_be_asked(server: Server) -> None:
    assert json.loads(run(server, "api", "get", "providers/echo").stdout)["name"] == "echo"
    assert json.loads(run(server, "api", "GET", "/openapi.json").stdout)["openapi"] == "3.1.0"
    assert run(server, "api", "GET", "/docs/api").stdout.startswith("<!doctype html>")
    result = run(server, "api", "POST", "providers", "--body", '{"a": 1}', "--json")
    assert json.loads(result.stderr)["error"]["code"] == "method_not_allowed"
    result = run(server, "api", "POST", "providers", "--body", "{a}", "--json")
    assert json.loads(result.stderr)["error"]["code"] == "bad_request"
    result = run(server, "api", "FROB", "providers", "--json")
    assert json.loads(result.stderr)["error"]["hint"] == "There are GET, POST, PATCH, PUT, DELETE."


def test_a_server_elsewhere_is_asked_with_a_key_of_its_own(server: Server, tmp_path: Path) -> None:
    key = run(server, "keys", "create", "remote", "--scope", "admin").stdout.strip()
    file = tmp_path / "key"
    file.write_text(f"{key}\n")
    for variables, flags in (
        ({"TRUNKLINE_URL": server.url, "TRUNKLINE_KEY": key}, []),
        ({"TRUNKLINE_KEY": "swb_wrong"}, ["--server", server.url, "--key-file", file]),
    ):
        result = trunkline("providers", "list", "--json", *flags, home=tmp_path, **variables)
        assert result.returncode == 0, result.stderr
    result = trunkline("providers", "list", "--server", server.url, "--json", home=server.home)
    assert json.loads(result.stderr)["error"]["code"] == "unauthenticated", "the data folder's key goes to no server that was named"
    result = trunkline("providers", "list", "--server", server.url, "--json", home=tmp_path, TRUNKLINE_KEY="swb_" + "x" * 32)
    assert json.loads(result.stderr)["error"]["code"] == "unauthenticated"
    assert "x" * 32 not in result.stderr


@pytest.mark.parametrize(
    "address", ["http://gateway.example", "ftp://127.0.0.1", "127.0.0.1:1", "http://user:secret@127.0.0.1", "https://"]
)
def test_a_key_is_sent_to_no_address_that_is_not_safe(refused: Refused, address: str) -> None:
    result = refused("providers", "list", "--server", address, "--json", TRUNKLINE_KEY="swb_x")
    assert json.loads(result.stderr)["error"]["code"] == "bad_request"
    assert "secret" not in result.stderr


def test_where_no_server_runs_that_is_said_and_keys_are_made_all_the_same(tmp_path: Path) -> None:
    result = trunkline("providers", "list", "--json", home=tmp_path)
    assert json.loads(result.stderr)["error"]["code"] == "not_found"
    assert KEY.fullmatch(trunkline("keys", "create", "ann", home=tmp_path).stdout.strip())
    with Server(tmp_path / "once", config=CONFIG) as server:
        assert run(server, "providers", "list").returncode == 0
        assert oct((server.data / "trunkline.url").stat().st_mode & 0o077) == "0o0"
        assert server.stop() == 0
    assert json.loads(run(server, "providers", "list", "--json").stderr)["error"]["code"] == "not_found"
    assert not (server.data / "trunkline.url").exists()


def test_a_server_that_was_killed_is_not_taken_for_a_running_one(tmp_path: Path) -> None:
    with Server(tmp_path, config=CONFIG) as server:
        server.process.kill()
        server.process.wait()
        assert (server.data / "trunkline.url").exists()
        assert json.loads(run(server, "providers", "list", "--json").stderr)["error"]["code"] == "not_found"


def test_the_shell_can_complete_commands(tmp_path: Path) -> None:
    (tmp_path / ".bashrc").touch()
    result = trunkline("--install-completion", "--shell", "bash", home=tmp_path, SHELL="/bin/bash")
    assert result.returncode == 0, result.stderr
    [script] = [path for path in tmp_path.rglob("*") if path.is_file() and "trunkline" in path.name]
    text = script.read_text()
    for word in ("exchanges", "providers", "--outcome"):
        assert word in text


def test_rows_can_be_switched_off(tmp_path: Path) -> None:
    with Server(tmp_path, config=CONFIG, TRUNKLINE_EXCHANGES__KEEP_DAYS="0") as server:
        assert server.ask("POST", "/v1/messages", CALL).status == 200
        server.said("exchange")
        assert server.stop() == 0, "what waits is written by now"
    with closing(sqlite3.connect(server.data / "trunkline.sqlite")) as database:
        assert database.execute("select count(*) from exchanges").fetchone() == (0,)


@pytest.mark.proves("admin.commands")
def test_whatever_the_admin_api_offers_can_be_done_on_a_server_elsewhere(server: Server) -> None:
    def remotely(*arguments: str) -> Any:
        key = server.data / "admin.key"
        result = run(server, "remote", *arguments, "--server", server.url, "--key-file", key, "--json", data=False)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    made = remotely("keys", "create", "--name", "ann", "--scopes", "inference", "--models", "fast")
    assert server.ask("POST", "/v1/messages", CALL, key=made["key"]).status == 200
    assert remotely("keys", "get", made["id"])["models"] == ["fast"]
    assert [each["id"] for each in remotely("accounts", "list")["data"]] == ["acc_default"]
    again = remotely("keys", "change", made["id"], "--models", "other", "--if-match", '"1"')
    assert (again["models"], again["revision"]) == (["other"], 2)
    assert server.ask("POST", "/v1/messages", CALL, key=made["key"]).status == 403
