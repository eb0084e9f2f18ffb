"""A reply that nobody reads: it passes as it comes, waits for its caller, and breaks off where it fails."""

import asyncio
from collections.abc import Sequence

import pytest

from tests.fakes.scripted import Answer, Gateway, Outlet, Pause, Step
from trunkline.dialects.openai_speech import DIALECT
from trunkline.errors import ShuttingDown, UpstreamBusy, UpstreamDown, UpstreamTimeout
from trunkline.model.target import Target
from trunkline.providers.compatible import PROVIDER
from trunkline.surfaces import Endpoint

AUDIO = [(b"Content-Type", b"audio/mpeg")]
STOPPING = ShuttingDown("the server is being stopped")


@pytest.fixture
def gateway() -> Gateway:
    return Gateway(kind=PROVIDER, endpoint=Endpoint("/v1/audio/speech", "speech", DIALECT))


def asks(model: str = "one") -> bytes:
    return b'{"model":"%b","input":"hello","voice":"v"}' % model.encode()


def plays(gateway: Gateway, *steps: Step, target: str = "a/m", headers: Sequence[tuple[bytes, bytes]] = AUDIO) -> Answer:
    answer = Answer(*steps, headers=headers)
    gateway.upstream.script(target, answer)
    return answer


@pytest.mark.proves("speech")
async def test_each_piece_passes_as_it_came(gateway: Gateway) -> None:
    answer = plays(gateway, b"\xff\xf3one", b"two")
    outlet = await gateway.carry(asks())
    assert outlet.parts == [b"\xff\xf3one", b"two", b""]
    assert (outlet.status, outlet.ended, outlet.broken) == (200, True, False)
    assert outlet.headers[b"content-type"] == b"audio/mpeg"
    assert b"content-length" not in outlet.headers
    [exchange] = gateway.told
    assert (exchange.outcome, exchange.sent, exchange.usage, exchange.tool_calls, exchange.losses) == ("ok", 8, None, 0, ())
    assert answer.closed


@pytest.mark.proves("speech")
async def test_no_piece_is_read_before_the_caller_has_taken_the_one_before(gateway: Gateway) -> None:
    second, slow = Pause(), Pause()
    plays(gateway, b"one", second, b"two")
    call = asyncio.get_running_loop().create_task(
        gateway.carry(asks(), outlet=Outlet(before_write=lambda data: slow if data == b"one" else None))
    )
    await asyncio.wait_for(slow.reached.wait(), 5)
    assert not second.reached.is_set()
    slow.over.set()
    await asyncio.wait_for(second.reached.wait(), 5)
    second.over.set()
    assert (await asyncio.wait_for(call, 5)).body == b"onetwo"


@pytest.mark.proves("speech", "failover")
@pytest.mark.parametrize("steps", [(UpstreamDown("cut"),), (UpstreamTimeout("silent"),), ()], ids=["cut", "silent", "empty"])
async def test_before_its_first_byte_the_next_target_takes_over(gateway: Gateway, steps: Sequence[Step]) -> None:
    failed = plays(gateway, *steps)
    plays(gateway, b"sound", target="b/m")
    outlet = await gateway.carry(asks("fast"))
    assert (outlet.status, outlet.body) == (200, b"sound")
    assert failed.closed


@pytest.mark.proves("speech.never-whole")
async def test_after_it_the_connection_breaks_and_the_target_has_failed(gateway: Gateway) -> None:
    plays(gateway, b"one", UpstreamBusy("enough", retry_after=9))
    outlet = await gateway.carry(asks("fast"))
    assert (outlet.status, outlet.body, outlet.ended, outlet.broken) == (200, b"one", False, True)
    [exchange] = gateway.told
    assert (exchange.outcome, gateway.health.rest(Target("a", "m"))) == ("upstream_busy", 9)
    assert [(each.target, each.outcome) for each in exchange.attempts] == [("a/m", "upstream_busy")]
    assert gateway.upstream.calls == ["a/m"]


@pytest.mark.proves("speech.never-whole", "drain")
async def test_a_stop_breaks_it_off(gateway: Gateway) -> None:
    pause = Pause()
    answer = plays(gateway, b"one", pause)
    outlet, exchange = Outlet(), gateway.exchange()
    call = asyncio.get_running_loop().create_task(gateway.carry(asks(), outlet=outlet, exchange=exchange))
    await asyncio.wait_for(pause.reached.wait(), 5)
    exchange.interrupt(STOPPING)
    await asyncio.wait_for(call, 5)
    assert (outlet.body, outlet.ended, outlet.broken) == (b"one", False, True)
    assert (exchange.outcome, answer.closed) == ("shutting_down", True)


@pytest.mark.proves("speech.never-whole")
async def test_a_fault_of_ours_breaks_it_off(gateway: Gateway) -> None:
    plays(gateway, b"one", ZeroDivisionError("ours"))
    outlet = await gateway.carry(asks())
    assert (outlet.body, outlet.ended, outlet.broken) == (b"one", False, True)
    assert gateway.told[0].outcome == "internal"
    assert len(gateway.crashes) == 1


@pytest.mark.proves("speech", "G18")
async def test_a_caller_that_leaves_is_told_nothing(gateway: Gateway) -> None:
    pause = Pause()
    plays(gateway, b"one", pause)
    outlet, exchange = Outlet(), gateway.exchange()
    call = asyncio.get_running_loop().create_task(gateway.carry(asks(), outlet=outlet, exchange=exchange))
    await asyncio.wait_for(pause.reached.wait(), 5)
    exchange.interrupt()
    await asyncio.wait_for(call, 5)
    assert (outlet.ended, outlet.broken, exchange.outcome) == (False, False, "interrupted")


async def test_json_is_read_for_an_error_though_sound_was_asked_for(gateway: Gateway) -> None:
    plays(gateway, b'{"error":{"code":"rate_limit_exceeded","message":"slow down"}}', headers=[(b"content-type", b"application/json")])
    plays(gateway, b'{"audio":"AAAA"}', target="b/m", headers=[(b"content-type", b"application/json; charset=utf-8")])
    outlet = await gateway.carry(asks("fast"))
    assert (outlet.status, outlet.body) == (200, b'{"audio":"AAAA"}')
    assert outlet.headers[b"content-length"] == b"16"
    assert [each.outcome for each in gateway.told[0].attempts] == ["upstream_busy", "ok"]
