"""Whatever carries the bytes: Unix sockets, TLS, or somebody else's HTTP."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st

from sdk.tests.daemon.client.answers import AGAIN, FAILOVER, seen
from sdk.tests.daemon.client.test_streaming import RECORDS, VECTOR
from sdk.tests.http1.peer import Peer, server_context
from trunkline_sdk.daemon.client import Client, Request, over_unix
from trunkline_sdk.daemon.errors import CallFailed, DaemonError
from trunkline_sdk.daemon.messages import Record
from trunkline_sdk.http1 import Client as Http
from trunkline_sdk.http1 import Timeouts, tls_context

CHAT = Request("chat_completions", "m")
INFO = b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"version":"7"}'


class Canned:
    """A transport that plays one answer, and at its end an error if there is one."""

    def __init__(self, status: int, *pieces: bytes, error: Exception | None = None, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        self.status = status
        self.headers = headers
        self.closed = 0
        self.asked: list[str] = []
        self._pieces = pieces
        self._error = error

    async def request(
        self, method: str, url: str, headers: Sequence[tuple[bytes, bytes]], body: bytes, /, *, timeouts: Timeouts
    ) -> "Canned":
        self.asked.append(f"{method} {url}")
        if self.status == 0:
            raise self._error or OSError("canary")
        return self

    @property
    async def body(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        if self._error is not None:
            raise self._error

    async def aclose(self) -> None:
        self.closed += 1


async def all_of(client: Client) -> list[bytes]:
    async with await client.stream("p", CHAT) as stream:
        return [record async for record in stream]


@settings(deadline=None)
@given(st.lists(st.integers(0, len(VECTOR)), max_size=12))
def test_records_survive_any_split(places: list[int]) -> None:
    """I.6"""
    edges = [0, *sorted(places), len(VECTOR)]
    pieces = [VECTOR[begin:end] for begin, end in itertools.pairwise(edges)]
    transport = Canned(200, *pieces)
    assert asyncio.run(all_of(Client("http://d", transport=transport))) == RECORDS
    assert transport.closed


@settings(deadline=None)
@given(st.integers(100, 599), st.binary(max_size=80), st.lists(st.tuples(st.just(b"retry-after"), st.binary(max_size=9)), max_size=1))
def test_whatever_a_daemon_says_is_an_answer_or_an_error_of_ours(status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    async def ask() -> None:
        client = Client("http://d", transport=Canned(status, body, headers=headers))
        for call in (client.info(), client.models("p"), client.invoke("p", CHAT), client.refresh("p", Record()), all_of(client)):
            try:
                await call
            except DaemonError as error:
                assert "http://d" not in str(error)  # noqa: PT017

    asyncio.run(ask())


async def test_another_s_errors_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """I.9, I.10"""
    for error in (OSError("canary"), TimeoutError("canary")):
        with pytest.raises(CallFailed) as caught:
            await Client("http://d", transport=Canned(0, error=error)).invoke("p", CHAT)
        assert seen(caught.value) == ("transport", AGAIN)
        assert "canary" not in str(caught.value)
        with pytest.raises(CallFailed) as caught:
            await all_of(Client("http://d", transport=Canned(200, b"data: [DONE]\n\n", error=error)))
        assert seen(caught.value) == ("transport", FAILOVER)


async def test_no_proxy_of_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with Peer(None) as peer, Client(peer.url) as client:
        peer.says(INFO)
        assert (await client.info()).version == "7"


async def test_a_daemon_behind_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "daemon.sock"
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(INFO)
        await reader.read()
        writer.close()

    server = await asyncio.start_unix_server(serve, path)
    async with Client("http://localhost", transport=over_unix(path), secret="s") as client:
        assert (await client.info()).version == "7"
    server.close()
    assert heads[0].startswith(b"GET /extension/v1/info HTTP/1.1\r\nHost: localhost\r\n")
    async with Client("http://localhost", transport=over_unix(tmp_path / "nobody")) as client:
        with pytest.raises(CallFailed) as caught:
            await client.info()
    assert seen(caught.value) == ("transport", AGAIN)
    assert "nobody" not in str(caught.value)


async def test_a_daemon_behind_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    async with Peer(server_context(authority.issue_cert("127.0.0.1"))) as peer:
        peer.says(INFO)
        async with Client(peer.url, transport=Http(tls=tls_context(str(tmp_path / "ca.pem")))) as client:
            assert (await client.info()).version == "7"
        async with Client(peer.url) as stranger:
            with pytest.raises(CallFailed) as caught:
                await stranger.info()
        assert seen(caught.value) == ("transport", AGAIN)
