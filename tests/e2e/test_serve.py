"""The installed server: what it shows, to whom, and what it refuses."""

import gzip
import json
import os
import pty
import re
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.fakes.server import PATIENCE, Reply, Server, environment, trunkline
from trunkline.access.keys import KEY

CONFIG = """
[server]
max_body_bytes = 20000
max_header_bytes = 4096
cors_origins = ["https://chat.example"]
trusted_proxies = ["127.0.0.1"]

[providers.echo]
kind = "echo"
models = ["echo", "org/deep/echo"]

[providers.gone]
kind = "compatible"
base_url = "http://127.0.0.1:9/v1"

[routes.sturdy]
targets = [{ model = "gone/x" }, { model = "echo/echo", order = 1 }]
"""
CALL = {"model": "echo", "max_tokens": 9, "messages": [{"role": "user", "content": "hello big world"}]}
ORIGIN = {"origin": "https://chat.example"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("served"), config=CONFIG) as server:
        yield server


def error(reply: Reply) -> dict[str, str]:
    return reply.json["error"]


# ------------------------------------------------------------------------------------------------------- the first key
def test_the_first_admin_key_is_in_a_file_for_its_owner_and_in_no_log(server: Server) -> None:
    path = server.data / "admin.key"
    assert KEY.fullmatch(server.key)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(server.data.stat().st_mode) == 0o700
    assert server.said("made the first admin key")["where"] == f"written to {path}"
    assert not [line for line in server.raw if server.key in line]


def test_a_terminal_shows_the_first_admin_key_and_no_file_has_it(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "trunkline", "serve", "--port", "0", "--data", str(tmp_path / "data")],
        stderr=theirs,
        stdin=subprocess.DEVNULL,
        env=environment(tmp_path),
        cwd=tmp_path,
    )
    os.close(theirs)
    shown = ""
    try:
        while "listening" not in shown:
            shown += os.read(ours, 4096).decode()
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0
        os.close(ours)
    found = re.search(r"The admin key, shown this once: (swb_\w{32})\b", shown)
    assert found
    assert shown.count(found[1]) == 1
    assert not (tmp_path / "data" / "admin.key").exists()
    assert not shown.lstrip().startswith("{"), "on a terminal the log is for people"


def test_without_a_flag_the_data_is_in_the_xdg_folder_and_the_key_is_made_once(tmp_path: Path) -> None:
    variables = {"XDG_DATA_HOME": str(tmp_path / "xdg")}
    with Server(tmp_path, data=False, **variables) as server:
        server.data = tmp_path / "xdg" / "trunkline"
        key = server.key
        assert server.ask("GET", "/v1/models").status == 200
        assert server.stop() == 0
    with Server(tmp_path, data=False, **variables) as server:
        server.data = tmp_path / "xdg" / "trunkline"
        assert server.key == key
        assert [line["event"] for line in server.lines] == ["listening"]
        assert server.ask("GET", "/v1/models").status == 200


@pytest.mark.needs("linux")
def test_no_core_dump_may_be_written(server: Server) -> None:
    assert server.proc("limits", r"Max core file size +0 +0 ")


# ---------------------------------------------------------------------------------------------------------- strangers
@pytest.mark.proves("deny")
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
def test_a_stranger_gets_401_whatever_is_asked_for(server: Server, method: str) -> None:
    for path in [
        "/",
        "/v1/models",
        "/v1/models/echo",
        "/v1/chat/completions",
        "/v1/messages",
        "/metrics",
        "/nothing",
        "/healthz/x",
        "//",
        "/%2e%2e/",
    ]:
        reply = server.ask(method, path, b"canary" if method == "POST" else None, key=None)
        assert reply.status == 401, path
        assert reply.headers["www-authenticate"] == "Bearer"
        if method != "HEAD":
            assert error(reply)["type"] == "authentication_error"


@pytest.mark.parametrize("key", ["", "x", "swb_" + "a" * 32, "sk-" + "a" * 40])
def test_a_wrong_key_is_no_key(server: Server, key: str) -> None:
    assert server.ask("GET", "/nothing", key=None, headers={"authorization": f"Bearer {key}"}).status == 401
    assert not [line for line in server.raw if key and len(key) > 5 and key in line]


def test_health_and_readiness_are_open_and_say_no_detail(server: Server) -> None:
    assert (server.ask("GET", "/healthz", key=None).status, server.ask("GET", "/healthz", key=None).json) == (200, {"status": "ok"})
    assert (server.ask("GET", "/readyz", key=None).status, server.ask("GET", "/readyz", key=None).json) == (200, {"status": "ready"})


def test_without_its_database_it_is_not_ready_and_says_so_without_a_path(tmp_path: Path) -> None:
    unknown = "swb_" + "c" * 32
    with Server(tmp_path) as server, closing(sqlite3.connect(server.data / "trunkline.sqlite")) as database:
        database.execute("ALTER TABLE keys RENAME TO gone")
        reply = server.ask("GET", "/v1/models", key=unknown)
        assert (reply.status, error(reply)["code"]) == (503, "store_unavailable")
        assert str(tmp_path) not in reply.body.decode()
        assert server.ask("GET", "/readyz", key=None).status == 503
        assert server.ask("GET", "/healthz", key=None).status == 200
        assert server.ask("GET", "/v1/models").status == 200, "what was read a moment ago still counts"
        database.execute("ALTER TABLE gone RENAME TO keys")
        assert server.ask("GET", "/v1/models", key=unknown).status == 401
        assert server.ask("GET", "/readyz", key=None).status == 200


# ------------------------------------------------------------------------------------------------------------- replies
def test_no_reply_names_the_server_and_all_have_a_request_id_of_letters(server: Server) -> None:
    replies = [
        server.ask("GET", "/healthz", key=None),
        server.ask("GET", "/nothing"),
        server.ask("POST", "/v1/chat/completions", CALL),
        server.ask("POST", "/v1/chat/completions", {**CALL, "stream": True}),
        server.ask("POST", "/v1/messages", {**CALL, "model": "nobody"}),
    ]
    assert [reply.status for reply in replies] == [200, 404, 200, 200, 404]
    for reply in replies:
        assert "server" not in reply.headers
        assert re.fullmatch("rqe_[a-z]{24}", reply.headers["x-request-id"])
        assert reply.headers["x-request-id"] == reply.headers["request-id"]
    assert len({reply.headers["x-request-id"] for reply in replies}) == len(replies)


@pytest.mark.proves("G19")
def test_a_call_is_one_structured_line_with_both_ids_and_nothing_that_was_said(server: Server) -> None:
    call = {**CALL, "messages": [{"role": "user", "content": "canary-of-the-prompt"}]}
    reply = server.ask("POST", "/v1/messages", call, headers={"x-request-id": "mine-1", "request-id": "mine-2"})
    assert reply.status == 200
    line = server.said("exchange", request_id=reply.headers["x-request-id"])
    assert line["client_request_id"] == "mine-1"
    assert (line["path"], line["status"], line["outcome"], line["model"]) == ("/v1/messages", 200, "ok", "echo")
    assert line["sent"] == len(reply.body)
    assert line["key"].startswith("key_")
    assert "mine-1" not in str(reply.headers)
    assert not [raw for raw in server.raw if "canary-of-the-prompt" in raw or server.key in raw]
    assert [raw for raw in server.raw if json.loads(raw)], "every line is JSON"


def test_metrics_want_their_scope_and_count_what_happened(server: Server) -> None:
    server.ask("POST", "/v1/chat/completions", CALL)
    monitor, program = (
        json.loads(trunkline("keys", "create", scope, "--scope", scope, "--json", "--data", server.data, home=server.home).stdout)["key"]
        for scope in ("metrics", "inference")
    )
    assert server.ask("GET", "/metrics", key=None).status == 401
    assert server.ask("GET", "/metrics", key=program).status == 403
    assert server.ask("POST", "/v1/chat/completions", CALL, key=monitor).status == 403
    reply = server.ask("GET", "/metrics", key=monitor)
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/plain")
    assert re.search(rb'^trunkline_exchanges_total\{outcome="ok",path="/v1/chat/completions"\} [1-9]', reply.body, re.MULTILINE)
    assert re.search(rb'^trunkline_tokens_total\{bucket="output",provider="echo"\} [1-9]', reply.body, re.MULTILINE)


def test_a_key_that_was_made_or_revoked_while_it_runs_counts_as_soon_as_it_looks_again(server: Server) -> None:
    made = json.loads(trunkline("keys", "create", "brief", "--json", "--data", server.data, home=server.home).stdout)
    assert server.ask("GET", "/v1/models", key=made["key"]).status == 200
    assert trunkline("keys", "revoke", made["id"], "--data", server.data, home=server.home).returncode == 0
    assert server.ask("GET", "/v1/models", key="swb_" + "b" * 32).status == 401  # at a key that it does not know it looks at once
    assert server.ask("GET", "/v1/models", key=made["key"]).status == 401


def test_models_are_listed_and_found_by_ids_with_slashes_and_doubled_slashes_do_no_harm(server: Server) -> None:
    assert [entry["id"] for entry in server.ask("GET", "/v1/models").json["data"]] == ["sturdy", "echo/echo", "echo/org/deep/echo"]
    for path in ["/v1/models/echo/org/deep/echo", "//v1/models/echo/org/deep/echo", "/v1/models/echo%2Forg%2Fdeep%2Fecho"]:
        assert server.ask("GET", path).json["id"] == "echo/org/deep/echo"
    assert server.ask("POST", "//v1/chat/completions", CALL).status == 200
    assert error(server.ask("GET", "/v1/models/ecko/echo"))["message"].endswith("Did you mean `echo/echo`?")


def test_a_target_that_cannot_be_reached_hands_over_to_the_next(server: Server) -> None:
    reply = server.ask("POST", "/v1/chat/completions", {**CALL, "model": "sturdy"})
    assert reply.json["choices"][0]["message"]["content"] == "hello big world"
    attempts = server.said("exchange", request_id=reply.headers["x-request-id"])["attempts"]
    assert [re.sub(r" \d+ms", "", attempt) for attempt in attempts] == ["gone/x upstream_down", "echo/echo ok"]


# -------------------------------------------------------------------------------------------------------------- limits
@pytest.mark.proves("limits")
@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"x" * 20_001, {}),
        (gzip.compress(bytes(15_000_000)), {"content-encoding": "gzip"}),
        (gzip.compress(gzip.compress(bytes(15_000_000))), {"content-encoding": "gzip, gzip"}),
    ],
    ids=["large", "a bomb", "a bomb in a bomb"],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_a_body_over_the_limit_is_413_with_the_number_before_and_after_unfolding(
    server: Server, path: str, body: bytes, headers: dict[str, str]
) -> None:
    assert len(body) <= 20_001
    reply = server.ask("POST", path, body, headers=headers)
    assert reply.status == 413
    assert "20000" in error(reply)["message"]


def test_a_chunked_body_over_the_limit_is_413_too(server: Server) -> None:
    assert server.ask("POST", "/v1/messages", iter([b"x" * 20_001])).status == 413


def test_a_compressed_call_is_understood(server: Server) -> None:
    reply = server.ask("POST", "/v1/chat/completions", gzip.compress(json.dumps(CALL).encode()), headers={"content-encoding": "gzip"})
    assert reply.json["choices"][0]["message"]["content"] == "hello big world"


@pytest.mark.proves("limits")
def test_a_head_over_the_limit_is_431(server: Server) -> None:
    assert server.ask("GET", "/healthz", key=None, headers={"x-large": "x" * 5000}).status == 431


# ---------------------------------------------------------------------------------------------------- browsers, proxies
def test_a_listed_page_may_call_and_others_may_not(server: Server) -> None:
    asks = {"access-control-request-method": "POST", "access-control-request-headers": "authorization, x-stainless-lang"}
    preflight = server.ask("OPTIONS", "/v1/chat/completions", key=None, headers={**ORIGIN, **asks})
    assert (preflight.status, preflight.body) == (204, b"")
    assert preflight.headers["access-control-allow-origin"] == ORIGIN["origin"]
    assert server.ask("POST", "/v1/chat/completions", CALL, headers=ORIGIN).headers["access-control-allow-origin"] == ORIGIN["origin"]
    assert server.ask("GET", "/v1/models", key=None, headers=ORIGIN).headers["access-control-allow-origin"] == ORIGIN["origin"]
    other = server.ask("OPTIONS", "/v1/chat/completions", key=None, headers={"origin": "https://evil.example", **asks})
    assert other.status == 401
    assert not [name for name in other.headers if name.startswith("access-control")]


def test_the_callers_address_is_what_the_trusted_proxy_says(server: Server) -> None:
    reply = server.ask("POST", "/v1/chat/completions", CALL, headers={"x-forwarded-for": "203.0.113.9, 192.0.2.7"})
    assert server.said("exchange", request_id=reply.headers["x-request-id"])["address"] == "192.0.2.7"


def test_without_trusted_proxies_and_pages_nobodys_word_counts(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        reply = server.ask("POST", "/v1/chat/completions", CALL, headers={"x-forwarded-for": "192.0.2.7", **ORIGIN})
        assert reply.status == 200
        assert not [name for name in reply.headers if name.startswith("access-control")]
        assert server.said("exchange")["address"] == "127.0.0.1"
        assert server.ask("OPTIONS", "/v1/chat/completions", key=None, headers=ORIGIN).status == 401


# ---------------------------------------------------------------------------------------------------- a place of its own
def test_a_second_server_on_a_data_folder_is_refused_and_the_first_goes_on(server: Server) -> None:
    second = trunkline("serve", "--port", "0", "--data", server.data, home=server.home)
    assert second.returncode == 1
    assert f"process {server.process.pid}" in second.stderr
    assert "--data" in second.stderr
    assert server.ask("GET", "/v1/models").status == 200


def test_a_taken_port_is_an_error_with_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = trunkline("serve", "--port", str(taken.getsockname()[1]), "--data", tmp_path / "data", home=tmp_path)
    assert result.returncode == 1
    assert "error: cannot listen on 127.0.0.1:" in result.stderr
    assert "--port" in result.stderr
