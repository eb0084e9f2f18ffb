import asyncio
import ssl
from collections.abc import AsyncIterator, Callable

import pytest
import trustme
import uvloop

from sdk.tests.http1.peer import Peer, server_context
from trunkline_sdk.http1 import Client, Timeouts, tls_context

QUICK = Timeouts(connect=5.0, first_byte=5.0, silence=5.0, pool=5.0)
"""A test that waits for one of these has failed; those about deadlines set their own."""


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def trusting(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """A client's context that knows only the tests' authority."""
    path = tmp_path_factory.mktemp("tls") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return tls_context(str(path))


@pytest.fixture(scope="session")
def serving(authority: trustme.CA) -> ssl.SSLContext:
    return server_context(authority.issue_cert("127.0.0.1", "localhost", "peer.test"))


@pytest.fixture(params=["tcp", "tls"])
def server_tls(request: pytest.FixtureRequest, serving: ssl.SSLContext) -> ssl.SSLContext | None:
    return serving if request.param == "tls" else None


@pytest.fixture
async def peer(server_tls: ssl.SSLContext | None) -> AsyncIterator[Peer]:
    async with Peer(server_tls) as peer:
        yield peer


@pytest.fixture
async def make_client(trusting: ssl.SSLContext) -> AsyncIterator[Callable[..., Client]]:
    """Clients that trust the tests' authority; all are closed at the end, and leave nothing."""
    clients: list[Client] = []

    def make(**settings: object) -> Client:
        client = Client(**{"timeouts": QUICK, "tls": trusting, **settings})
        clients.append(client)
        return client

    yield make
    for client in clients:
        await client.aclose()
        assert client._pools == {}


@pytest.fixture
async def client(make_client: Callable[..., Client]) -> Client:
    return make_client()
