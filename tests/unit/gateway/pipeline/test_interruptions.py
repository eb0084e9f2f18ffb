import asyncio
from collections.abc import Callable

import pytest

from tests.fakes.scripted import Answer, Gateway, Outlet, Pause
from tests.unit.gateway.pipeline.formats import STOPPING, Words, asks, attempts, error_of, last_event
from trunkline.errors import TrunklineError, UpstreamDown, UpstreamTimeout
from trunkline.gateway import pipeline as pipeline_module
from trunkline.gateway.exchange import CallerLeft

Scene = Callable[[Gateway, Words, Pause], tuple[bytes | Pause, Outlet]]


def at_the_door(gateway: Gateway, words: Words, pause: Pause) -> tuple[bytes | Pause, Outlet]:
    gateway.door.pause = pause
    return asks(), Outlet()


def while_the_body_comes(gateway: Gateway, words: Words, pause: Pause) -> tuple[bytes | Pause, Outlet]:
    return pause, Outlet()


def before_the_answers_head(gateway: Gateway, words: Words, pause: Pause) -> tuple[bytes | Pause, Outlet]:
    gateway.upstream.script("a/m", pause)
    return asks(), Outlet()


def before_the_whole_body(gateway: Gateway, words: Words, pause: Pause) -> tuple[bytes | Pause, Outlet]:
    gateway.upstream.script("a/m", Answer(words.whole[:10], pause))
    return asks(), Outlet()


def before_the_first_part(gateway: Gateway, words: Words, pause: Pause) -> tuple[bytes | Pause, Outlet]:
    gateway.upstream.script("a/m", Answer(words.prelude, pause))
    return asks(stream=True), Outlet()


def while_the_caller_is_slow_to_take_the_head(gateway: Gateway, words: Words, pause: Pause) -> tuple[bytes | Pause, Outlet]:
    gateway.upstream.script("a/m", Answer(words.prelude, words.hello, words.rest))
    return asks(stream=True), Outlet(before_head=pause)


def between_two_parts(gateway: Gateway, words: Words, pause: Pause) -> tuple[bytes | Pause, Outlet]:
    gateway.upstream.script("a/m", Answer(words.prelude, words.hello, pause))
    return asks(stream=True), Outlet()


def while_the_caller_is_slow_to_read(gateway: Gateway, words: Words, pause: Pause) -> tuple[bytes | Pause, Outlet]:
    gateway.upstream.script("a/m", Answer(words.prelude, words.hello, words.rest))
    return asks(stream=True), Outlet(before_write=lambda data: pause if data == words.rest else None)


BEFORE_ANY_BYTE = [at_the_door, while_the_body_comes, before_the_answers_head, before_the_whole_body, before_the_first_part]
AFTER_THE_FIRST_BYTE = [between_two_parts, while_the_caller_is_slow_to_read]
UPSTREAM_KNOWS = {before_the_answers_head, before_the_whole_body, before_the_first_part, *AFTER_THE_FIRST_BYTE}


async def interrupted(gateway: Gateway, words: Words, scene: Scene, cause: TrunklineError | None) -> Outlet:
    """Play a scene until somebody waits, then interrupt the call there."""
    pause = Pause()
    body, outlet = scene(gateway, words, pause)
    exchange = gateway.exchange()
    call = asyncio.get_running_loop().create_task(gateway.carry(body, outlet=outlet, exchange=exchange))
    await asyncio.wait_for(pause.reached.wait(), 5)
    assert len(gateway.exchanges) == 1
    exchange.interrupt(cause)
    await asyncio.wait_for(call, 5)
    assert len(gateway.exchanges) == 0
    assert gateway.crashes == []
    for answer in (step for script in gateway.upstream._scripts.values() for step in script if isinstance(step, Answer)):
        assert answer.closed
    return outlet


@pytest.mark.proves("G18")
@pytest.mark.parametrize("scene", [*BEFORE_ANY_BYTE, while_the_caller_is_slow_to_take_the_head, *AFTER_THE_FIRST_BYTE])
async def test_a_caller_that_leaves_ends_its_call_wherever_it_waits(gateway: Gateway, words: Words, scene: Scene) -> None:
    outlet = await interrupted(gateway, words, scene, None)
    assert not outlet.ended, "nobody is told anything any more"
    [exchange] = gateway.told
    assert exchange.outcome == "interrupted"
    if scene in UPSTREAM_KNOWS:
        assert attempts(gateway) == ["a/m interrupted"]
        assert gateway.health._states == {}, "it shows nothing about the target"


@pytest.mark.parametrize("scene", BEFORE_ANY_BYTE)
async def test_a_stop_before_the_first_byte_is_an_error_of_the_callers_format(gateway: Gateway, words: Words, scene: Scene) -> None:
    outlet = await interrupted(gateway, words, scene, STOPPING)
    assert (outlet.status, outlet.ended) == (503, True)
    assert error_of(outlet)["code"] == "shutting_down"
    assert gateway.told[0].outcome == "shutting_down"


@pytest.mark.proves("drain", "errors.native")
@pytest.mark.parametrize("scene", AFTER_THE_FIRST_BYTE)
async def test_a_stop_after_the_first_byte_is_an_error_event_of_the_callers_format(gateway: Gateway, words: Words, scene: Scene) -> None:
    outlet = await interrupted(gateway, words, scene, STOPPING)
    assert outlet.ended
    assert outlet.parts[0] == words.prelude + words.hello
    assert last_event(outlet)["error"]["code"] == "shutting_down"
    assert not any(mark in outlet.body for mark in words.end_marks)
    assert attempts(gateway) == ["a/m interrupted"]


async def test_a_caller_that_does_not_even_take_the_error_event_does_not_hold_up_a_stop(
    gateway: Gateway, words: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline_module, "LAST_WORD", 0.01)
    first = Pause()

    def slow(gateway: Gateway, words: Words, pause: Pause) -> tuple[bytes | Pause, Outlet]:
        gateway.upstream.script("a/m", Answer(words.prelude, words.hello, words.rest))
        return asks(stream=True), Outlet(before_write=lambda data: None if words.hello in data else pause if data == words.rest else first)

    outlet = await interrupted(gateway, words, slow, STOPPING)
    assert first.reached.is_set()
    assert not outlet.ended


async def test_a_stop_while_the_answer_settles_changes_nothing_for_the_caller(gateway: Gateway, words: Words) -> None:
    pause = Pause()
    gateway.upstream.script("a/m", Answer(words.prelude, words.hello, words.rest, pause))
    exchange, outlet = gateway.exchange(), Outlet()
    call = asyncio.get_running_loop().create_task(gateway.carry(asks(stream=True), outlet=outlet, exchange=exchange))
    await asyncio.wait_for(pause.reached.wait(), 5)
    gateway.exchanges.interrupt(STOPPING)
    await asyncio.wait_for(call, 5)
    assert outlet.body == words.prelude + words.hello + words.rest
    assert exchange.outcome == "ok"
    assert attempts(gateway) == ["a/m ok"]


async def test_a_stop_that_comes_with_the_last_byte_changes_nothing_for_the_caller(gateway: Gateway, words: Words) -> None:
    exchange = gateway.exchange()

    def stop(data: bytes) -> None:
        if data == words.rest:
            exchange.interrupt(STOPPING)  # it takes effect at the next wait, which is behind the end

    gateway.upstream.script("a/m", Answer(words.prelude, words.hello, words.rest, Pause()))
    outlet = await gateway.carry(asks(stream=True), outlet=Outlet(before_write=stop), exchange=exchange)
    assert outlet.body == words.prelude + words.hello + words.rest
    assert exchange.outcome == "ok"
    assert gateway.crashes == []


async def test_a_call_that_is_being_refused_does_not_disturb_the_stop_of_the_others(gateway: Gateway, words: Words) -> None:
    refusing = Pause()
    gateway.upstream.script("a/m", UpstreamTimeout("x"))
    loop = asyncio.get_running_loop()
    slow = loop.create_task(gateway.carry(asks("one"), outlet=Outlet(before_head=refusing), exchange=gateway.exchange()))
    await asyncio.wait_for(refusing.reached.wait(), 5)

    other = gateway.exchange()
    other.id = "rqe_other"
    waiting = Pause()
    call = loop.create_task(gateway.carry(waiting, exchange=other))
    await asyncio.wait_for(waiting.reached.wait(), 5)
    gateway.exchanges.interrupt(STOPPING)
    assert (await asyncio.wait_for(call, 5)).status == 503
    refusing.over.set()
    assert (await asyncio.wait_for(slow, 5)).status == 504


async def test_a_task_that_is_cancelled_leaves_nothing_open(gateway: Gateway, words: Words) -> None:
    pause = Pause()
    answer = Answer(words.prelude, words.hello, pause)
    gateway.upstream.script("a/m", answer)
    call = asyncio.get_running_loop().create_task(gateway.carry(asks(stream=True)))
    await asyncio.wait_for(pause.reached.wait(), 5)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert answer.closed
    assert len(gateway.exchanges) == 0
    assert gateway.told[0].outcome == "interrupted"


async def test_a_caller_that_leaves_during_the_pause_between_two_attempts_is_not_tried_again(gateway: Gateway) -> None:
    gateway.upstream.script("a/m", UpstreamDown("x"))
    exchange = gateway.exchange()
    call = asyncio.get_running_loop().create_task(gateway.carry(asks("one"), exchange=exchange))
    await asyncio.wait_for(gateway.clock.asleep(), 5)
    exchange.interrupt()
    await asyncio.wait_for(call, 5)
    assert gateway.upstream.calls == ["a/m"]
    assert (exchange.outcome, attempts(gateway)) == ("interrupted", ["a/m upstream_down"])


async def test_a_caller_that_leaves_while_its_body_is_read_is_told_nothing(gateway: Gateway) -> None:
    class Leaving(Pause):
        async def __call__(self) -> None:
            raise CallerLeft

    outlet = await gateway.carry(Leaving())
    assert outlet.status == 0
    assert gateway.told[0].outcome == "interrupted"
