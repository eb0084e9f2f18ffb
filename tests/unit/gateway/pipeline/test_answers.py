import asyncio
import json

import pytest

from tests.fakes.scripted import REQUEST_ID, Answer, Gateway
from tests.unit.gateway.pipeline.formats import FORMATS, Words, asks, attempts, error_of, last_event
from trunkline.errors import (
    EgressDenied,
    NoCredential,
    TrunklineError,
    UpstreamBusy,
    UpstreamDenied,
    UpstreamDown,
    UpstreamGarbled,
    UpstreamRefused,
    UpstreamTimeout,
)
from trunkline.gateway.attempts import MOST_ATTEMPTS
from trunkline.gateway.health import FAILURES
from trunkline.gateway.pipeline import BACK_OFF
from trunkline.model.target import Target


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
