"""`trunkline daemon` as a program: the protocol's checks, who may come in, and how it ends."""

import asyncio
import json
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Refused
from tests.fakes.server import PATIENCE, Peer, Provider, Server, environment, trunkline
from trunkline.cli.daemon import VARIABLE
from trunkline_sdk.daemon.client import Client, Request, over_unix

SECRET = "canary-the-daemons-secret"
CONFIG = """
[providers.echo]
kind = "echo"
models = ["parrot"]

[providers.info]
kind = "echo"
"""
ASKED = json.dumps({"max_tokens": 9, "messages": [{"role": "user", "content": "canary prompt"}]}).encode()
FIRST = b'data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'
LAST = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


class Daemon(Server):
    """The program, from its start to its end."""

    def __init__(self, home: Path, *arguments: str | Path, config: str = CONFIG, **variables: str) -> None:
        super().__init__(home, config=config, **variables)
        where = [] if "--unix" in arguments else ["--bind", "127.0.0.1:0"]
        self._arguments = ["daemon", *where, *arguments]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("exported"), **{VARIABLE: SECRET}) as daemon:
        yield daemon


def status(daemon: Daemon, secret: str, **headers: str) -> int:
    return daemon.ask("GET", "/extension/v1/info", key=secret or None, headers=headers).status


@pytest.mark.proves("export.conforms")
def test_the_checks_of_the_protocol_find_nothing(daemon: Daemon) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "trunkline_sdk.daemon.check", daemon.url, "--json"],
        capture_output=True,
        text=True,
        env=environment(daemon.home, DAEMON_SECRET=SECRET),
        timeout=PATIENCE,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    assert {finding["outcome"] for finding in json.loads(run.stdout)["findings"]} == {"ok"}


@pytest.mark.needs("linux")
def test_no_core_dump_may_be_written(daemon: Daemon) -> None:
    assert daemon.proc("limits", r"Max core file size +0 +0 ")


async def test_each_request_is_a_line_that_says_what_became_of_it_and_not_what_was_said(daemon: Daemon) -> None:
    async with Client(daemon.url, secret=SECRET) as client:
        info = await client.info()
        await client.invoke("echo", Request("messages", "parrot", ASKED))
    assert info.version.startswith("trunkline ")
    assert [each.id for each in info.providers] == ["echo"], "`info` is no provider's id there"
    line = daemon.said("exchange", route="invoke", provider="echo", status=200, outcome="ok")
    assert line["ms"] > 0
    assert not [each for each in daemon.raw if "canary" in each]


def test_there_is_nothing_left_of_it_and_no_database_is_made(tmp_path: Path) -> None:
    with Daemon(tmp_path, "--drain-seconds", "5", **{VARIABLE: SECRET}) as daemon:
        assert daemon.stop() == 0
        assert daemon.said("stopped")
    assert [path.name for path in tmp_path.iterdir()] == ["trunkline.toml"]


async def test_calls_under_way_may_finish(tmp_path: Path) -> None:
    def talk(peer: Peer) -> None:
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n" + FIRST)
        peer.gone(0.5)
        peer.send(LAST)

    with Provider(talk) as provider:
        config = f'[providers.home]\nkind = "compatible"\nbase_url = "{provider.url}/v1"\n'
        with Daemon(tmp_path, config=config, **{VARIABLE: SECRET}) as daemon:
            async with Client(daemon.url, secret=SECRET) as client, asyncio.timeout(PATIENCE):
                async with await client.stream("home", Request("chat_completions", "m", ASKED)) as stream:
                    assert await anext(stream) == FIRST
                    daemon.signal(signal.SIGTERM)
                    assert b"".join([record async for record in stream]) == LAST
            assert daemon.ended() == 0


def test_the_guides_configuration_is_served(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "use-from-go.md").read_text()
    [config] = re.findall(r"```toml\n(.*?)```", guide, re.DOTALL)
    (tmp_path / "daemon.secret").write_text(SECRET)
    with Daemon(tmp_path, "--secret-file", "daemon.secret", config=config) as daemon:
        info = daemon.ask("GET", "/extension/v1/info", key=SECRET).json
    assert {each["id"]: each["credential"] for each in info["providers"]} == {"openai": "token", "lab": "none", "smol": "none"}


# ---------------------------------------------------------------------------------------------------------- who comes in
@pytest.mark.proves("export.closed")
@pytest.mark.parametrize("bind", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", ":0"])
def test_without_a_secret_it_does_not_listen_beyond_this_machine(tmp_path: Path, refused: Refused, bind: str) -> None:
    (tmp_path / "trunkline.toml").write_text(CONFIG)
    run = refused("daemon", "--bind", bind)
    assert run.returncode == 1
    assert "without a secret listens on loopback only" in run.stderr
    assert "keyless providers" in run.stderr


def test_without_a_secret_it_warns_on_this_machine(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        warning = next(line for line in daemon.lines if line["level"] == "warning")
        assert "every program on this machine can use its providers" in warning["event"]
        assert status(daemon, "") == 200


def test_a_file_holds_the_secret_and_the_one_that_it_replaces(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("the-new-one\nthe-old-one\n")
    with Daemon(tmp_path, "--secret-file", file, "--name", "daemon.internal", **{VARIABLE: "of the variable"}) as daemon:
        assert [status(daemon, each) for each in ("the-new-one", "the-old-one", "of the variable", "")] == [200, 200, 401, 401]
        assert status(daemon, "the-new-one", host="daemon.internal") == 200
        assert status(daemon, "the-new-one", host="elsewhere.example") == 403
        assert not [line for line in daemon.raw if "the-new-one" in line]


async def test_a_socket_is_its_owners_alone(tmp_path: Path) -> None:
    place = tmp_path / "d.sock"
    with Daemon(tmp_path, "--unix", place) as daemon:
        assert daemon.url == f"unix:{place}"
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
        async with Client("http://localhost", transport=over_unix(place)) as client:
            assert [each.id for each in (await client.info()).providers] == ["echo"]
    assert daemon.process.returncode is not None


@pytest.mark.parametrize(
    ("arguments", "variables", "why"),
    [
        (["--secret-file", "empty"], {}, "is empty"),
        (["--secret-file", "three"], {}, "these are 3"),
        (["--secret-file", "nowhere"], {}, "cannot be read"),
        (["--secret-file", "binary"], {}, "is not text"),
        ([], {VARIABLE: "  "}, "is empty"),
        (["--bind", "127.0.0.1"], {}, "is not an address and a port"),
        (["--bind", "::1:18888"], {}, "is not an address and a port"),
        (["--bind", "127.0.0.1:70000"], {}, "is not an address and a port"),
        (["--tls-cert", "empty"], {}, "the certificate and its key"),
        (["--provider", "ecko"], {}, "there is no provider `ecko`"),
        (["--provider", "info"], {}, "cannot be a provider's id"),
    ],
    ids=str,
)
def test_what_cannot_be_is_said_before_it_listens(
    tmp_path: Path, refused: Refused, arguments: list[str], variables: dict[str, str], why: str
) -> None:
    (tmp_path / "trunkline.toml").write_text(CONFIG)
    (tmp_path / "empty").write_text(" \n\n")
    (tmp_path / "three").write_text("canary-1\ncanary-2\ncanary-3")
    (tmp_path / "binary").write_bytes(b"\xff\xfe canary")
    run = refused("daemon", *arguments, **variables)
    assert run.returncode in {1, 2}
    assert why in run.stderr
    assert "canary" not in run.stdout + run.stderr


def test_an_address_that_is_taken_is_told(daemon: Daemon) -> None:
    run = trunkline("daemon", "--bind", f"127.0.0.1:{daemon.port}", home=daemon.home)
    assert run.returncode == 1
    assert "Choose another `--bind`" in run.stderr
