import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.fakes.scripted import REQUEST_ID, Answer, Gateway, Outlet, Pause
from tests.fakes.wallet import credential
from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.errors import (
    BadRequest,
    EgressDenied,
    NoCredential,
    ShuttingDown,
    TooLarge,
    TrunklineError,
    Unauthenticated,
    UpstreamBusy,
    UpstreamDenied,
    UpstreamDown,
    UpstreamGarbled,
    UpstreamRefused,
    UpstreamTimeout,
)
from trunkline.gateway import pipeline as pipeline_module
from trunkline.gateway.attempts import MOST_ATTEMPTS
from trunkline.gateway.exchange import CallerLeft
from trunkline.gateway.health import FAILURES
from trunkline.gateway.pipeline import BACK_OFF
from trunkline.model.caller import Caller
from trunkline.model.credential import Owner
from trunkline.model.target import Target
from trunkline.providers.anthropic import PROVIDER as ANTHROPIC_KIND
from trunkline.providers.compatible import PROVIDER as COMPATIBLE_KIND
from trunkline.surfaces import Endpoint

STOPPING = ShuttingDown("the server is being stopped")


@dataclass(frozen=True)
class Words:
    """How one format says the same few things."""

    prelude: bytes  # nothing of a reply yet
    hello: bytes  # the first part of a reply
    rest: bytes  # to its end
    whole: bytes  # a reply that is no stream
    end_marks: tuple[bytes, ...]  # never in a stream that failed
    busy: bytes  # the provider's own event of failure


OPENAI = Words(
    prelude=b'data: {"choices":[{"index":0,"delta":{"role":"assistant"}}]}\n\n',
    hello=b'data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n',
    rest=b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2}}\n\ndata: [DONE]\n\n',
    whole=b'{"choices":[{"index":0,"message":{"content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2}}',
    end_marks=(b"[DONE]", b"finish_reason"),
    busy=b'data: {"error":{"code":"rate_limit_exceeded","message":"slow down"}}\n\n',
)
MESSAGES = Words(
    prelude=b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":5}}}\n\n',
    hello=b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello"}}\n\n',
    rest=b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    whole=b'{"content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":2}}',
    end_marks=(b"message_stop", b"end_turn"),
    busy=b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"slow down"}}\n\n',
)

FORMATS = {
    "openai_chat": (COMPATIBLE_KIND, Endpoint("/v1/chat/completions", "chat", OPENAI_CHAT), OPENAI),
    "anthropic": (ANTHROPIC_KIND, Endpoint("/v1/messages", "chat", ANTHROPIC), MESSAGES),
}


@pytest.fixture(params=FORMATS)
def format_name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def words(format_name: str) -> Words:
    return FORMATS[format_name][2]


@pytest.fixture
def gateway(format_name: str) -> Gateway:
    kind, endpoint, _ = FORMATS[format_name]
    return Gateway(kind, endpoint)


def asks(model: str = "fast", *, stream: bool = False) -> bytes:
    return json.dumps({"model": model, "max_tokens": 9, "stream": stream, "messages": [{"role": "user", "content": "canary"}]}).encode()


def attempts(gateway: Gateway) -> list[str]:
    [exchange] = gateway.told
    return [f"{attempt.target} {attempt.outcome}" for attempt in exchange.attempts]


def error_of(outlet: Outlet) -> dict[str, object]:
    """The error in an answer, whichever the format."""
    return json.loads(outlet.body)["error"]


def last_event(outlet: Outlet) -> dict[str, object]:
    *_, event, nothing = outlet.body.split(b"\n\n")
    assert nothing == b""
    return json.loads(event.rpartition(b"data: ")[2])


# ------------------------------------------------------------------------------------------------------- good replies
@pytest.mark.proves("bytes.reply")
async def test_a_whole_reply_passes_to_the_byte(gateway: Gateway, words: Words) -> None:
    answer = Answer(words.whole, headers=[(b"content-type", b"application/json"), (b"request-id", b"req_up"), (b"set-cookie", b"a=1")])
    gateway.upstream.script("a/m", answer)
    outlet = await gateway.carry(asks())
    assert (outlet.status, outlet.body, outlet.ended) == (200, words.whole, True)
    assert outlet.headers == {
        b"content-type": b"application/json",
        b"x-upstream-request-id": b"req_up",
        b"x-request-id": REQUEST_ID.encode(),
        b"request-id": REQUEST_ID.encode(),
        b"content-length": str(len(words.whole)).encode(),
        b"x-trunkline-attempts": b"a/m ok",
    }
    [exchange] = gateway.told
    assert (exchange.outcome, exchange.status, exchange.sent, exchange.model) == ("ok", 200, len(words.whole), "fast")
    assert exchange.usage is not None
    assert exchange.usage.output == 2
    assert attempts(gateway) == ["a/m ok"]
    assert answer.closed


@pytest.mark.parametrize("half", [rb"\ud83d", rb"\uDEF0", rb"\ud83d\ud83d"])
async def test_half_a_character_in_a_request_is_an_unknown_one_and_all_else_passes_to_the_byte(
    gateway: Gateway, words: Words, half: bytes
) -> None:
    whole = rb'{ "model":"one", "max_tokens": 5,"messages":[{"role":"user","content":"\ud83d\udef0 \\ud83d %s."}] }'
    gateway.upstream.script("a/m", Answer(words.whole))
    outlet = await gateway.carry(whole % half)
    assert outlet.status == 200
    assert gateway.upstream.bodies[-1] == whole.replace(b'"one"', b'"m"') % (rb"\ufffd" * (len(half) // 6))
    refused = await gateway.carry(whole.replace(b'"one"', b"1") % half)
    assert refused.status == 400
    assert "`model` is `1`" in str(error_of(refused)["message"])


@pytest.mark.proves("bytes.stream")
async def test_a_stream_passes_to_the_byte_piece_by_piece(gateway: Gateway, words: Words) -> None:
    answer = Answer(words.prelude, words.hello, words.rest)
    gateway.upstream.script("a/m", answer)
    outlet = await gateway.carry(asks(stream=True))
    assert outlet.parts == [words.prelude + words.hello, words.rest]
    assert outlet.ended
    assert b"content-length" not in outlet.headers
    [exchange] = gateway.told
    assert (exchange.outcome, exchange.stream, exchange.sent) == ("ok", True, len(outlet.body))
    assert exchange.usage is not None
    assert exchange.usage.output == 2
    assert answer.closed


# ------------------------------------------------------------------------------------------------------------ failover
@pytest.mark.proves("failover")
@pytest.mark.parametrize(
    "failure",
    [
        UpstreamBusy("x"),
        UpstreamDenied("x"),
        UpstreamDown("x"),
        UpstreamGarbled("x"),
        UpstreamTimeout("x"),
        NoCredential("x"),
        EgressDenied("x"),
    ],
    ids=lambda error: error.code,
)
async def test_a_target_that_fails_hands_over_to_the_next(gateway: Gateway, words: Words, failure: TrunklineError) -> None:
    gateway.upstream.script("a/m", failure)
    gateway.upstream.script("b/m", Answer(words.whole))
    outlet = await gateway.carry(asks())
    assert (outlet.status, outlet.body) == (200, words.whole)
    assert attempts(gateway) == [f"a/m {failure.code}", "b/m ok"]


@pytest.mark.proves("failover")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_body_that_breaks_before_anything_was_shown_hands_over_to_the_next(gateway: Gateway, words: Words, stream: bool) -> None:
    begun = words.prelude if stream else words.whole[:20]
    broken = Answer(begun, UpstreamDown("cut"))
    gateway.upstream.script("a/m", broken)
    gateway.upstream.script("b/m", Answer(words.prelude, words.hello, words.rest) if stream else Answer(words.whole))
    outlet = await gateway.carry(asks(stream=stream))
    assert outlet.body == (words.prelude + words.hello + words.rest if stream else words.whole)
    assert attempts(gateway) == ["a/m upstream_down", "b/m ok"]
    assert broken.closed


async def test_a_request_that_a_provider_refuses_is_tried_nowhere_else_and_its_words_are_handed_on(gateway: Gateway, words: Words) -> None:
    error = UpstreamRefused("x", upstream_status=422, body=b'{"error":{"message":"no such parameter"}}')
    error.headers = [(b"x-upstream-request-id", b"req_up")]
    gateway.upstream.script("a/m", error)
    outlet = await gateway.carry(asks())
    assert (outlet.status, outlet.body) == (422, error.body)
    assert outlet.headers[b"x-upstream-request-id"] == b"req_up"
    assert attempts(gateway) == ["a/m upstream_refused"]
    assert gateway.health.rest(Target("a", "m")) == 0


@pytest.mark.parametrize(
    "failure", [UpstreamBusy("x"), UpstreamDenied("x"), UpstreamGarbled("x"), UpstreamTimeout("x")], ids=lambda e: e.code
)
async def test_a_single_target_that_answered_is_not_asked_again(gateway: Gateway, failure: TrunklineError) -> None:
    gateway.upstream.script("a/m", failure)
    outlet = await gateway.carry(asks("one"))
    assert outlet.status == failure.http_status
    assert error_of(outlet)["code"] == failure.code
    assert attempts(gateway) == [f"a/m {failure.code}"]


async def test_a_single_target_that_cannot_be_reached_is_asked_once_more_a_moment_later(gateway: Gateway, words: Words) -> None:
    gateway.upstream.script("a/m", UpstreamDown("x"), Answer(words.whole))
    call = asyncio.get_running_loop().create_task(gateway.carry(asks("one")))
    await asyncio.wait_for(gateway.clock.asleep(), 5)
    assert gateway.clock.asked == [BACK_OFF]
    gateway.clock.advance(BACK_OFF)
    assert (await call).body == words.whole
    assert attempts(gateway) == ["a/m upstream_down", "a/m ok"]


async def test_a_single_target_that_stays_away_is_asked_twice(gateway: Gateway) -> None:
    gateway.upstream.script("a/m", UpstreamDown("x"))
    call = asyncio.get_running_loop().create_task(gateway.carry(asks("one")))
    await asyncio.wait_for(gateway.clock.asleep(), 5)
    gateway.clock.advance(BACK_OFF)
    assert (await call).status == 502
    assert attempts(gateway) == ["a/m upstream_down", "a/m upstream_down"]


async def test_a_call_is_attempted_four_times_at_most(gateway: Gateway) -> None:
    for name in "abcde":
        gateway.upstream.script(f"{name}/m", UpstreamTimeout("x"))
    await gateway.carry(asks("many"))
    assert len(attempts(gateway)) == MOST_ATTEMPTS == 4


@pytest.mark.proves("G14")
async def test_of_busy_targets_the_shortest_wait_is_told_and_none_is_asked_before_its_own(gateway: Gateway, words: Words) -> None:
    gateway.upstream.script("a/m", UpstreamBusy("x", retry_after=7, upstream_status=429))
    gateway.upstream.script("b/m", UpstreamBusy("x", retry_after=20, upstream_status=429))
    outlet = await gateway.carry(asks())
    assert (outlet.status, outlet.headers[b"retry-after"], error_of(outlet)["code"]) == (429, b"7", "upstream_busy")
    assert gateway.upstream.calls == ["a/m", "b/m"]

    gateway.clock.advance(3)
    outlet = await gateway.carry(asks())
    assert (outlet.status, outlet.headers[b"retry-after"]) == (429, b"4")
    assert gateway.upstream.calls == ["a/m", "b/m"], "nobody was asked"

    gateway.clock.advance(4)
    gateway.upstream.script("a/m", Answer(words.whole))
    assert (await gateway.carry(asks())).status == 200
    assert gateway.upstream.calls == ["a/m", "b/m", "a/m"]


async def test_a_target_that_asked_to_be_left_alone_is_passed_over(gateway: Gateway, words: Words) -> None:
    gateway.health.failed(Target("a", "m"), UpstreamBusy("x", retry_after=7))
    gateway.upstream.script("b/m", Answer(words.whole))
    assert (await gateway.carry(asks())).status == 200
    assert gateway.upstream.calls == ["b/m"]


async def test_when_all_targets_have_failed_often_one_is_asked_whether_it_is_back(gateway: Gateway, words: Words) -> None:
    for name in "ab":
        for _ in range(FAILURES):
            gateway.health.failed(Target(name, "m"), UpstreamTimeout("x"))
        gateway.clock.advance(1)
    gateway.upstream.script("a/m", Answer(words.whole))
    assert (await gateway.carry(asks())).status == 200
    assert gateway.upstream.calls == ["a/m"]
    assert gateway.health.rest(Target("a", "m")) == 0


# ------------------------------------------------------------------------------------------ failures after the first byte
@pytest.mark.proves("failover", "stream.never-clean")
@pytest.mark.parametrize(
    "failure", [UpstreamDown("cut"), UpstreamTimeout("silent"), UpstreamGarbled("what"), None], ids=["cut", "silent", "garbled", "ended"]
)
async def test_a_stream_that_breaks_after_its_first_part_ends_with_an_error_event(
    gateway: Gateway, words: Words, failure: TrunklineError | None
) -> None:
    answer = Answer(words.prelude, words.hello, *[failure] * (failure is not None))
    gateway.upstream.script("a/m", answer)
    outlet = await gateway.carry(asks(stream=True))
    assert outlet.body.startswith(words.prelude + words.hello)
    error = last_event(outlet)
    assert error["error"]["code"] == (failure.code if failure else "upstream_down")
    assert error["request_id"] == REQUEST_ID
    assert not any(mark in outlet.body for mark in words.end_marks)
    assert gateway.upstream.calls == ["a/m"], "no other target takes over"
    [exchange] = gateway.told
    assert (exchange.status, exchange.outcome) == (200, error["error"]["code"])
    assert attempts(gateway) == [f"a/m {exchange.outcome}"]
    assert answer.closed


async def test_the_event_of_an_anthropic_stream_is_named_so_that_its_sdks_raise_it() -> None:
    kind, endpoint, words = FORMATS["anthropic"]
    gateway = Gateway(kind, endpoint)
    gateway.upstream.script("a/m", Answer(words.prelude, words.hello, UpstreamDown("cut")))
    outlet = await gateway.carry(asks(stream=True))
    assert outlet.parts[-1].startswith(b"event: error\ndata: ")
    assert json.loads(outlet.parts[-1].partition(b"data: ")[2])["type"] == "error"


async def test_a_providers_own_error_event_is_handed_on_as_it_is_and_counts(gateway: Gateway, words: Words) -> None:
    gateway.upstream.script("a/m", Answer(words.prelude, words.hello, words.busy))
    outlet = await gateway.carry(asks(stream=True))
    assert outlet.body == words.prelude + words.hello + words.busy
    assert gateway.told[0].outcome == "upstream_busy"
    assert gateway.health.is_busy(Target("a", "m"))


# -------------------------------------------------------------------------------------------------------- interruptions
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


# ------------------------------------------------------------------------------------------------------------ refusals
async def test_who_has_no_key_is_refused_before_the_body_is_read(gateway: Gateway) -> None:
    gateway.door.refuses = Unauthenticated("no key")
    unread = Pause()
    outlet = await gateway.carry(unread)
    assert outlet.status == 401
    assert error_of(outlet)["code"] == "unauthenticated"
    assert not unread.reached.is_set()


async def test_a_key_without_the_scope_is_refused_before_the_body_is_read(gateway: Gateway) -> None:
    gateway.door.caller = Caller(id="key_a", kind="service", name="monitor", scopes=frozenset({"metrics"}))
    unread = Pause()
    outlet = await gateway.carry(unread)
    assert outlet.status == 403
    assert "`inference`" in str(error_of(outlet)["message"])
    assert not unread.reached.is_set()


@pytest.mark.proves("errors.native")
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [(b"nope", 400, "bad_request"), (asks("nobody"), 404, "not_found"), (asks("nobody", stream=True), 404, "not_found")],
    ids=["no json", "unknown model", "unknown model, stream"],
)
async def test_a_call_that_cannot_be_made_is_refused_as_json(gateway: Gateway, body: bytes, status: int, code: str) -> None:
    outlet = await gateway.carry(body)
    assert (outlet.status, error_of(outlet)["code"]) == (status, code)
    assert outlet.headers[b"content-type"] == b"application/json"
    assert outlet.headers[b"x-request-id"] == REQUEST_ID.encode()
    assert gateway.upstream.calls == []


async def test_a_body_that_is_too_large_is_refused_with_the_number(gateway: Gateway) -> None:
    class Large(Pause):
        async def __call__(self) -> None:
            raise TooLarge("the body is larger than 1024 bytes")

    outlet = await gateway.carry(Large())
    assert outlet.status == 413
    assert "1024" in str(error_of(outlet)["message"])


async def test_an_error_of_the_caller_inside_an_attempt_is_tried_nowhere_else(gateway: Gateway) -> None:
    gateway.upstream.script("a/m", BadRequest("`messages` is empty"))
    outlet = await gateway.carry(asks())
    assert outlet.status == 400
    assert gateway.upstream.calls == ["a/m"]


# ------------------------------------------------------------------------------------------------------------- crashes
class Crash(Exception):
    pass


@pytest.mark.parametrize("crash", [Crash("canary"), TimeoutError("canary"), KeyError("canary")], ids=lambda error: type(error).__name__)
async def test_a_fault_of_ours_is_in_the_log_and_its_id_alone_in_the_answer(gateway: Gateway, crash: Exception) -> None:
    gateway.upstream.script("a/m", crash)
    outlet = await gateway.carry(asks())
    assert (outlet.status, outlet.ended, error_of(outlet)["code"]) == (500, True, "internal")
    assert REQUEST_ID in str(error_of(outlet)["message"])
    assert b"canary" not in outlet.body
    assert gateway.crashes == [(REQUEST_ID, crash)]
    assert gateway.told[0].outcome == "internal"
    assert len(gateway.exchanges) == 0


async def test_a_fault_of_ours_in_a_stream_that_was_shown_is_an_error_event(gateway: Gateway, words: Words) -> None:
    answer = Answer(words.prelude, words.hello, Crash("canary"))
    gateway.upstream.script("a/m", answer)
    outlet = await gateway.carry(asks(stream=True))
    assert outlet.ended
    assert last_event(outlet)["error"]["code"] == "internal"
    assert b"canary" not in outlet.body
    assert answer.closed


async def test_a_fault_of_ours_while_an_answer_is_read_closes_it(gateway: Gateway, words: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Answer(words.whole)
    gateway.upstream.script("a/m", answer)
    monkeypatch.setattr(type(gateway.endpoint.dialect), "read_reply", lambda *_: 1 / 0)
    assert (await gateway.carry(asks())).status == 500
    assert answer.closed


# ----------------------------------------------------------------------------------------------------------- credentials
ONE, OTHER, THIRD = credential("one"), credential("other"), credential("third")
REFUSED = UpstreamDenied("no", upstream_status=401)


def credentials_of(gateway: Gateway) -> list[str]:
    """Which credential each attempt of the last call went out with."""
    return [attempt.credential for attempt in gateway.told[-1].attempts]


@pytest.mark.proves("credentials.rest")
async def test_another_credential_of_the_provider_is_tried_before_the_next_target(gateway: Gateway, words: Words) -> None:
    gateway.wallet.put("a", ONE, OTHER)
    gateway.upstream.script("a/m", REFUSED, Answer(words.whole), Answer(words.whole))
    assert (await gateway.carry(asks())).status == 200
    assert attempts(gateway) == ["a/m upstream_denied", "a/m ok"]
    assert credentials_of(gateway) == ["cred_one", "cred_other"]
    assert gateway.upstream.sent == [["cred_one"], ["cred_one", "cred_other"]], "what was sent before may be repeated, too"
    assert (await gateway.carry(asks())).status == 200
    assert credentials_of(gateway) == ["cred_other"], "the refused one rests"


@pytest.mark.proves("credentials.rest")
async def test_when_all_credentials_are_refused_the_next_target_is_tried(gateway: Gateway, words: Words) -> None:
    gateway.wallet.put("a", ONE, OTHER)
    gateway.upstream.script("a/m", REFUSED)
    gateway.upstream.script("b/m", Answer(words.whole), Answer(words.whole))
    assert (await gateway.carry(asks())).status == 200
    assert attempts(gateway) == ["a/m upstream_denied", "a/m upstream_denied", "b/m ok"]
    assert gateway.upstream.sent[-1] == []
    await gateway.carry(asks())
    assert credentials_of(gateway) == [""], "the first target is passed over while its credentials rest"


@pytest.mark.proves("credentials.rest", "G14")
async def test_a_busy_credential_is_left_alone_for_as_long_as_it_was_told_and_the_caller_hears_it_when_all_are(
    gateway: Gateway, words: Words
) -> None:
    gateway.wallet.put("a", ONE, OTHER)
    gateway.upstream.script("a/m", UpstreamBusy("x", retry_after=30.0), UpstreamBusy("x", retry_after=9.0))
    outlet = await gateway.carry(asks("one"))
    assert (outlet.status, outlet.headers[b"retry-after"]) == (429, b"9")
    gateway.clock.advance(2)
    outlet = await gateway.carry(asks("one"))
    assert (outlet.status, outlet.headers[b"retry-after"], credentials_of(gateway)) == (429, b"7", [])
    gateway.clock.advance(7)
    gateway.upstream.script("a/m", Answer(words.whole))
    assert (await gateway.carry(asks("one"))).status == 200
    assert credentials_of(gateway) == ["cred_other"]


@pytest.mark.proves("credentials.rest")
async def test_one_callers_own_busy_credential_keeps_nobody_else_away(gateway: Gateway, words: Words) -> None:
    gateway.wallet.put("a", ONE)
    gateway.wallet.put("a", OTHER, owner=Owner("acc_other"))
    gateway.upstream.script("a/m", UpstreamBusy("x", retry_after=30.0), Answer(words.whole))
    assert (await gateway.carry(asks("one"))).status == 429
    gateway.door.caller = Caller(id="key_b", kind="service", name="bob", scopes=frozenset({"inference"}), account="acc_other")
    assert (await gateway.carry(asks("one"))).status == 200
    assert credentials_of(gateway) == ["cred_other"]


@pytest.mark.proves("credentials.rest")
async def test_the_only_credential_that_was_refused_is_tried_all_the_same(gateway: Gateway, words: Words) -> None:
    gateway.wallet.put("a", ONE)
    gateway.upstream.script("a/m", REFUSED, Answer(words.whole))
    assert (await gateway.carry(asks("one"))).status == 502
    assert (await gateway.carry(asks("one"))).status == 200, "somebody has to find out whether it is well again"


async def test_a_call_that_could_not_be_sent_is_sent_again_with_the_same_credential(gateway: Gateway, words: Words) -> None:
    gateway.wallet.put("a", ONE, OTHER)
    gateway.upstream.script("a/m", UpstreamDown("x"), Answer(words.whole))
    call = asyncio.get_running_loop().create_task(gateway.carry(asks("one")))
    await gateway.clock.asleep()
    gateway.clock.advance(BACK_OFF)
    assert (await call).status == 200
    assert gateway.upstream.sent == [["cred_one"], ["cred_one"]]


async def test_no_more_credentials_are_tried_than_there_are_attempts(gateway: Gateway) -> None:
    gateway.wallet.put("a", *(credential(f"c{number}") for number in range(9)))
    gateway.upstream.script("a/m", REFUSED)
    await gateway.carry(asks())
    assert len(gateway.upstream.calls) == MOST_ATTEMPTS


@pytest.mark.proves("credentials.rest")
async def test_a_stream_that_is_refused_after_its_head_goes_on_with_another_credential(gateway: Gateway, words: Words) -> None:
    gateway.wallet.put("a", ONE, OTHER)
    gateway.upstream.script("a/m", Answer(words.busy), Answer(words.prelude, words.hello, words.rest))
    assert (await gateway.carry(asks(stream=True))).status == 200
    assert credentials_of(gateway) == ["cred_one", "cred_other"]


async def test_a_provider_without_the_credential_that_it_needs_is_passed_over() -> None:
    gateway, words = Gateway(ANTHROPIC_KIND, FORMATS["anthropic"][1]), MESSAGES
    gateway.upstream.wants_credentials = True
    gateway.wallet.put("b", ONE)
    gateway.upstream.script("b/m", Answer(words.whole))
    assert (await gateway.carry(asks())).status == 200
    assert attempts(gateway) == ["a/m no_credential", "b/m ok"]
    outlet = await gateway.carry(asks("one"))
    assert outlet.status == 503
    assert "trunkline credentials add a" in str(error_of(outlet))
