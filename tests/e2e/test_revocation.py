"""Two servers on one PostgreSQL and one Valkey or Redis: what is revoked on one is refused on the other, in time."""

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.fakes.cut import Cut
from tests.fakes.server import PATIENCE, Peer, Provider, Server, trunkline
from tests.services import REDIS

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.needs("redis")]

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
WORD = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"hel"}}]}\n\n'
CHAT = {"model": "up/m", "stream": True, "messages": []}


class Endless:
    """A provider whose streams begin and never end by themselves."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)

    def __call__(self, peer: Peer) -> None:
        peer.send(HEAD + WORD)
        self.begun.release()
        assert peer.gone(within=PATIENCE)


@contextmanager
def two_servers(folder: Path, postgres: str, redis: str, endless: Endless) -> Iterator[tuple[Server, Server]]:
    with ExitStack() as stack:
        provider = stack.enter_context(Provider(endless))
        config = f"""
            [store]
            url = "env:DATABASE_URL"
            shared = "env:SHARED"
            [providers.up]
            kind = "compatible"
            base_url = "{provider.url}/v1"
        """
        yield tuple(
            stack.enter_context(Server(folder / name, config=config, DATABASE_URL=postgres, SHARED=redis)) for name in ("one", "two")
        )


def made(server: Server, name: str) -> dict[str, str]:
    reply = server.ask("POST", "/api/v1/keys", {"name": name, "scopes": ["inference"]}, headers={"content-type": "application/json"})
    assert reply.status == 201
    return reply.json


@pytest.mark.proves("revocation")
def test_a_key_revoked_on_one_server_ends_on_the_other_in_time(tmp_path: Path, postgres: str, redis_prefix: str) -> None:
    endless = Endless()
    with Cut(os.environ[REDIS]) as line, two_servers(tmp_path, postgres, f"{line.url}?prefix={redis_prefix}", endless) as (one, two):
        for number in range(3):
            key = made(one, f"key {number}")
            assert seconds(one, two, key, endless) < 1, "over the bus"
        line.cut()
        key = made(one, "without")
        assert seconds(one, two, key, endless) < 5, "without the bus"
        key = made(one, "by the command line")
        revoked_by_hand(two, key, postgres, f"{line.url}?prefix={redis_prefix}")
        since = time.monotonic()
        while two.ask("GET", "/v1/models", key=key["key"]).status == 200:
            assert time.monotonic() - since < 5
        line.mend()
        connected = line.connections
        while line.connections < connected + 2:
            assert two.ask("GET", "/readyz", key=None).status == 200
        key = made(one, "again")
        assert seconds(one, two, key, endless) < 1, "the bus is back"
        key = made(one, "by the command line")
        assert two.ask("GET", "/v1/models", key=key["key"]).status == 200
        revoked_by_hand(two, key, postgres, f"{line.url}?prefix={redis_prefix}")
        since = time.monotonic()
        while two.ask("GET", "/v1/models", key=key["key"]).status == 200:
            assert time.monotonic() - since < 1
        assert (one.stop(), two.stop()) == (0, 0)
        assert not [text for text in [*one.raw, *two.raw] if key["key"] in text]


def seconds(one: Server, two: Server, key: dict[str, str], endless: Endless) -> float:
    """How long after the revocation on one server a stream on the other ended; the key is refused there then."""
    call = two.call("POST", "/v1/chat/completions", CHAT, key=key["key"])
    assert endless.begun.acquire(timeout=PATIENCE)
    assert call.response.status == 200
    since = time.monotonic()
    assert one.ask("DELETE", f"/api/v1/keys/{key['id']}").status == 204
    body = call.read().body
    took = time.monotonic() - since
    assert json.loads(body.rpartition(b"data: ")[2])["error"]["code"] == "unauthenticated"
    assert two.ask("GET", "/v1/models", key=key["key"]).status == 401
    return took


def revoked_by_hand(server: Server, key: dict[str, str], postgres: str, redis: str) -> None:
    run = trunkline(
        *("keys", "revoke", key["id"], "--config", server.config, "--data", server.data),
        home=server.home,
        DATABASE_URL=postgres,
        SHARED=redis,
    )
    assert (run.returncode, run.stderr) == (0, "")
