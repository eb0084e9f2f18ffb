from collections.abc import AsyncIterator, Callable

import pytest

from sdk.tests.http1.peer import Peer
from trunkline_sdk.daemon.client import Client

MakeClient = Callable[..., Client]


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    """A daemon of raw bytes."""
    async with Peer(None) as peer:
        yield peer


@pytest.fixture
async def make_client(peer: Peer) -> AsyncIterator[MakeClient]:
    clients: list[Client] = []

    def make(url: str = "", **settings: object) -> Client:
        client = Client(url or peer.url, **settings)
        clients.append(client)
        return client

    yield make
    for client in clients:
        await client.aclose()


@pytest.fixture
async def client(make_client: MakeClient) -> Client:
    return make_client(secret="s3cret")


@pytest.fixture
async def strict(make_client: MakeClient) -> Client:
    return make_client(secret="s3cret", strict_original=True)
