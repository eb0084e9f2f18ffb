"""`connect` with a token, `connections`, `disconnect`: what they ask of a server, and what they print."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from tests.fakes.clock import FakeClock
from trunkline.cli import connect, run
from trunkline.cli.client import Answer
from trunkline.cli.terminal import Terminal

CANARY = "tok-canary-0123456789abcdef"
PROVIDERS: list[dict[str, Any]] = [
    {"id": "ext/pasted", "title": "Pasted", "credential": "token", "methods": [], "refreshable": False},
    {"id": "ext/signed", "title": "Signed", "credential": "oauth", "methods": ["device"], "refreshable": True},
    {"id": "ext/old", "title": "Old", "credential": "", "methods": [], "refreshable": False},
]


def row(name: str, provider: str = "ext/pasted", **fields: Any) -> dict[str, Any]:
    made = {"id": name, "provider": provider, "account": None, "user": None, "token_type": "api_key", "label": "", "expires_at": None}
    return {**made, "refreshable": False, "state": "active", "created_at": 1.0, "updated_at": 1.0, "revision": 1, **fields}


class Server:
    """What was asked, and the connections that it has."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.rows = [row("con_a")]

    async def __call__(self, method: str, path: str, *, body: bytes = b"", **where: Any) -> Answer:
        del where
        self.asked.append((method, path, json.loads(body) if body else None))
        if path.startswith("/api/v1/sign-ins/providers"):
            return answer({"data": PROVIDERS, "next": None})
        if method == "GET":
            first, *rest = self.rows or [None]
            later = "after" in path
            page = rest if later else [first] if first else []
            return answer({"data": page, "next": first["id"] if first and rest and not later else None})
        return answer(None if method == "DELETE" else row("con_new", self.asked[-1][2]["provider"]))

    @property
    def last(self) -> tuple[str, str, Any]:
        return self.asked[-1]


def answer(value: Any) -> Answer:
    return Answer(200, {}, b"" if value is None else json.dumps(value).encode())


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()
    monkeypatch.setattr(connect, "asking", server)
    return server


Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def trunkline(server: Server, capsys: pytest.CaptureFixture[str]) -> Command:
    def command(*arguments: str) -> tuple[int, str, str]:
        status = run(arguments)
        said = capsys.readouterr()
        assert CANARY not in said.out + said.err
        return status, said.out, said.err

    return command


@pytest.mark.proves("connect.token")
@pytest.mark.parametrize("given", ["a file", "stdin", "no option"])
@pytest.mark.parametrize("provider", ["ext/pasted", "old"])
def test_a_token_comes_from_a_file_or_from_stdin(
    trunkline: Command, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, provider: str
) -> None:
    (tmp_path / "token").write_text(f"{CANARY}\n")
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{CANARY}\n"))
    options = {"a file": ["--token-file", str(tmp_path / "token")], "stdin": ["--token-file", "-"], "no option": []}[given]
    full = "ext/old" if provider == "old" else provider
    assert trunkline("connect", provider, *options) == (0, f"connected {full}: con_new, for everybody\n", "")
    assert server.last == ("POST", "/api/v1/connections", {"provider": full, "token": CANARY})


def test_a_tokens_kind_and_owner_go_along(trunkline: Command, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(CANARY))
    options = ["--token-type", "gcp_service_account", "--label", "mine", "--account", "acc_a", "--user", "usr_a"]
    status, out, _ = trunkline("connect", "ext/signed", "--token-file", "-", *options, "--json")
    assert (status, json.loads(out)) == (0, row("con_new", "ext/signed"))
    assert server.last[2] == {
        "provider": "ext/signed",
        "token": CANARY,
        "token_type": "gcp_service_account",
        "label": "mine",
        "account": "acc_a",
        "user": "usr_a",
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ext/pasted"], "no token was given"),
        (["ext/pasted", "--token-file", "/nowhere"], "cannot be read from `/nowhere`: No such file"),
        (["ext/pasted", "--method", "device"], "takes a token, and no sign-in"),
        (["ext/signed", "--label", "x"], "are a token's, and this is a sign-in"),
        (["ext/signed", "--method", "browser"], "has no sign-in `browser`"),
        (["ext/none"], "there is no provider `ext/none` that one can connect"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_kept(
    trunkline: Command, server: Server, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    status, out, err = trunkline("connect", *arguments)
    assert (status, out) == (1, "")
    assert said in err
    assert [method for method, _, _ in server.asked] == ["GET"]


def test_connections_are_listed_without_secrets_page_by_page(trunkline: Command, server: Server) -> None:
    server.rows = [
        row("con_a", user="usr_a", account="acc_a", label="[bold]"),
        row("con_b", "ext/signed", account="acc_a", expires_at=0.0, refreshable=True),
        row("con_c", expires_at=0.0, state="revoked"),
    ]
    status, out, _ = trunkline("connections")
    assert status == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "con_a ext/pasted the user usr_a api_key [bold] active" in lines
    assert "con_b ext/signed the account acc_a api_key active renewed by itself" in lines
    assert "con_c ext/pasted everybody api_key revoked 1970-01-01T00:00:00+00:00" in lines
    assert json.loads(trunkline("connections", "--json")[1]) == server.rows
    trunkline("connections", "--provider", "ext/pasted")
    assert server.last[1] == "/api/v1/connections?limit=500&provider=ext%2Fpasted&after=con_a"


@pytest.mark.parametrize("name", ["con_b", "ext/signed", "signed"])
def test_a_connection_is_ended_by_its_id_or_by_its_provider(trunkline: Command, server: Server, name: str) -> None:
    server.rows = [row("con_a"), row("con_b", "ext/signed"), row("con_c", "ext/signed", state="revoked")]
    assert trunkline("disconnect", name) == (0, "disconnected ext/signed: con_b, for everybody\n", "")
    assert server.last == ("DELETE", "/api/v1/connections/con_b", None)


def test_of_several_connections_none_is_ended_unless_it_is_said_whose(trunkline: Command, server: Server) -> None:
    server.rows = [row("con_a"), row("con_b", account="acc_a"), row("con_c", account="acc_a", user="usr_a")]
    status, _, err = trunkline("disconnect", "ext/pasted")
    assert status == 1
    assert "`con_a` (for everybody), `con_b` (for the account acc_a), `con_c` (for the user usr_a)" in err
    assert "there is no connection `ext/none`" in trunkline("disconnect", "ext/none")[2]
    assert {method for method, _, _ in server.asked} == {"GET"}
    assert json.loads(trunkline("disconnect", "ext/pasted", "--account", "acc_a", "--user", "usr_a", "--json")[1])["id"] == "con_c"


@pytest.mark.parametrize("url", ["file:///etc/passwd", "javascript:alert(1)", "-remote", "", "https://a.example/\x1b"])
def test_only_web_pages_are_opened(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setenv("DISPLAY", ":0")
    assert not Terminal(FakeClock(), opens=True).visit(url)
    assert opened == []


def test_a_browser_is_opened_where_there_is_one_and_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: SimpleQueue[str] = SimpleQueue()
    monkeypatch.setattr("webbrowser.open", opened.put)
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    page = "https://provider.example/authorize"
    assert not Terminal(FakeClock(), opens=True).visit(page), "a browser of text would take the terminal"
    monkeypatch.setenv("DISPLAY", ":0")
    assert not Terminal(FakeClock(), opens=False).visit(page)
    assert Terminal(FakeClock(), opens=True).visit(page)
    assert opened.get(timeout=20) == page
    assert opened.empty()


def test_what_a_daemon_sends_does_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal(FakeClock(), opens=False).say("AB\x1b[2J\r\n-12")
    assert capsys.readouterr() == ("", "AB[2J-12\n")
