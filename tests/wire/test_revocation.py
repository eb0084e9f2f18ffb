"""A key that is revoked is refused, and ends what it has begun: in the words of its caller's dialect."""

import asyncio
from collections.abc import Callable

import pytest

from tests.fakes.upstream import NEVER, Upstream
from tests.wire.gateway import Gateway
from tests.wire.sides import Side
from trunkline.access.keys import KeyRow
from trunkline.access.ring import READ_SECONDS

SECONDS = 5.0
"""The longest that a revoked key works without a bus."""


def bearer(key: str) -> list[tuple[str, str]]:
    return [("authorization", f"Bearer {key}")]


async def begun(gateway: Gateway, upstream: Upstream, side: Side, key: str) -> tuple[bytes, asyncio.Task[bytes]]:
    """A stream of which something was shown, and what will have come of it."""
    upstream.says("one two three four", gate=NEVER)
    gateway.key = key
    response = await gateway.begin(side)
    shown = await anext(response.body)
    return shown, asyncio.get_running_loop().create_task(response.read())


ENDS: dict[str, Callable[[Gateway, KeyRow], object]] = {
    "revoke": lambda gateway, row: gateway.made_keys.revoke(row.id),
    "rotate": lambda gateway, row: gateway.made_keys.rotate(row.id, grace=0),
    "disable user": lambda gateway, row: gateway.users.change(row.user, disabled=True),
    "disable account": lambda gateway, row: gateway.accounts.change(row.account, disabled=True),
}


@pytest.mark.proves("revocation")
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_an_open_stream_ends_with_an_error_event(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, end: Callable[[Gateway, KeyRow], object]
) -> None:
    account = gateway.accounts.create("acme").id
    row, key = gateway.makes(account=account, user=gateway.users.create("ada", account=account).id)
    shown, rest = await begun(gateway, upstreams[side.first], side, key)
    await asyncio.to_thread(end, gateway, row)
    gateway.clock.wake(READ_SECONDS)
    async with asyncio.timeout(SECONDS):
        stream = shown + await rest
    _, code, message = side.failure(stream)
    assert "not taken any more" in message
    assert code in {"", "unauthenticated"}
    assert (await gateway.told())["outcome"] == "unauthenticated"
    await upstreams[side.first].disconnected(timeout=1)
    refused = await gateway.ask(side)
    assert refused.status == 401


@pytest.mark.proves("revocation")
async def test_a_call_that_waits_is_refused(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    row, gateway.key = gateway.makes()
    upstreams[side.first].hangs()
    call = asyncio.get_running_loop().create_task(gateway.ask(side))
    await upstreams[side.first].called()
    await asyncio.to_thread(gateway.made_keys.revoke, row.id)
    async with asyncio.timeout(SECONDS):
        got = await call
    assert got.status == 401
    assert "not taken any more" in side.error(got.json())[2]


@pytest.mark.proves("revocation")
async def test_the_streams_of_other_keys_go_on(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    row, key = gateway.makes()
    gate = asyncio.Event()
    upstreams[side.first].says("one two three", gate=gate)
    response = await gateway.begin(side)  # with another key
    shown = await anext(response.body)
    upstreams[side.first].says("one two three four", gate=NEVER)
    gateway.key = key
    doomed = await gateway.begin(side)
    await anext(doomed.body)
    await asyncio.to_thread(gateway.made_keys.revoke, row.id)
    async with asyncio.timeout(SECONDS):
        await doomed.read()
    gate.set()
    assert side.said(shown + await response.read()) == "one two three"


@pytest.mark.proves("revocation")
async def test_a_key_in_its_grace_serves_beside_the_new_one(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    row, old = gateway.makes()
    made = gateway.made_keys.rotate(row.id)
    new = gateway.secrets["new"] = made.secret.reveal()
    for key in (old, new):
        upstreams[side.first].says("hello")
        assert (await gateway.ask(side, headers=bearer(key))).status == 200
    gateway.clock.advance(made.until - gateway.clock.now() + 1)
    assert (await gateway.ask(side, headers=bearer(old))).status == 401
    upstreams[side.first].says("hello")
    assert (await gateway.ask(side, headers=bearer(new))).status == 200
