"""Until something of a reply has been shown the next target takes over, whatever went wrong with the first."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes import replies
from tests.fakes.upstream import NEVER, Call, Upstream, Wire
from tests.wire.gateway import Gateway
from tests.wire.sides import CHAT, MESSAGES, RESPONSES, Side
from trunkline.gateway import pipeline

SHORT = {name: {"timeouts": {"first_byte": 0.1, "silence": 0.1}} for name in ("openai", "anthropic", "pro")}
"""Of providers that are going to be silent."""

CHUNKED = [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")]

Fault = Callable[[Upstream, Side], None]


def error(side: Side, kind: str = "api_error") -> dict[str, Any]:
    """A provider's error, as a body or as an event."""
    told = {"type": kind, "message": "it broke", "code": None}
    if side is RESPONSES:
        return {"type": "error", "sequence_number": 98, "code": None, "message": "it broke", "error": told}
    return {"type": "error", "error": told} if side is MESSAGES else {"error": told}


def resets(upstream: Upstream, _: Side) -> None:
    async def script(_: Call, wire: Wire) -> None:
        wire.reset()

    upstream.does(script, times=None)


def cut_body(upstream: Upstream, side: Side) -> None:
    body = json.dumps(replies.whole(side.dialect, replies.Reply("one two"))).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    upstream.raw(head + body[:-1], times=None)


def status(code: int) -> Fault:
    return lambda upstream, side: upstream.answers(code, error(side), times=None)


def body(content: Callable[[Side], Any], kind: str = "application/json") -> Fault:
    return lambda upstream, side: upstream.answers(200, json.dumps(content(side)).encode(), headers=[("content-type", kind)], times=None)


def events(steps: Callable[[Side], list[Any]], cut: Any = None) -> Fault:
    return lambda upstream, side: upstream.streams(steps(side), cut=cut, times=None)


ALWAYS: dict[str, tuple[Fault, str]] = {
    "401": (status(401), "upstream_denied"),
    "403": (status(403), "upstream_denied"),
    "408": (status(408), "upstream_timeout"),
    "429": (status(429), "upstream_busy"),
    "500": (status(500), "upstream_down"),
    "503": (status(503), "upstream_busy"),
    "529": (status(529), "upstream_busy"),
    "204": (status(204), "upstream_garbled"),
    "refused connection": (lambda upstream, _: upstream.stop(), "upstream_down"),
    "closed connection": (lambda upstream, _: upstream.drops(times=None), "upstream_down"),
    "reset connection": (resets, "upstream_down"),
    "no HTTP": (lambda upstream, _: upstream.raw(b"SSH-2.0-OpenSSH_9.6\r\n\r\n", times=None), "upstream_garbled"),
    "cut head": (lambda upstream, _: upstream.raw(b"HTTP/1.1 200 OK\r\ncontent-ty", times=None), "upstream_garbled"),
    "two lengths": (
        lambda upstream, _: upstream.raw(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab", times=None),
        "upstream_garbled",
    ),
    "silence": (lambda upstream, _: upstream.hangs(times=None), "upstream_timeout"),
    "silence in the head": (lambda upstream, _: upstream.raw(b"HTTP/1.1 200 OK\r\n", NEVER, times=None), "upstream_timeout"),
    "unknown coding": (
        lambda upstream, _: upstream.answers(
            200, b"xyz", headers=[("content-type", "text/event-stream"), ("content-encoding", "lzma")], times=None
        ),
        "upstream_garbled",
    ),
}
WHOLE: dict[str, tuple[Fault, str]] = {
    "cut body": (cut_body, "upstream_down"),
    "no JSON": (
        lambda upstream, _: upstream.answers(200, b"<html>", headers=[("content-type", "text/html")], times=None),
        "upstream_garbled",
    ),
    "other JSON": (body(lambda _: {"hello": "world"}), "upstream_garbled"),
    "a list": (body(lambda _: []), "upstream_garbled"),
    "a stream": (lambda upstream, _: upstream.says("one two", stream=True, times=None), "upstream_garbled"),
    "silence in the body": (
        lambda upstream, _: upstream.raw(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{", NEVER, times=None),
        "upstream_timeout",
    ),
}
STREAM: dict[str, tuple[Fault, str]] = {
    "an error event": (events(lambda side: [error(side)]), "upstream_down"),
    "a busy event": (events(lambda side: [error(side, "overloaded_error")]), "upstream_busy"),
    "a denied event": (events(lambda side: [error(side, "authentication_error")]), "upstream_denied"),
    "an error event after the start": (events(lambda side: [side.stream()[0], error(side)]), "upstream_down"),
    "garbled": (events(lambda _: [b"data: {nonsense\n\n"]), "upstream_garbled"),
    "garbled after the start": (events(lambda side: [side.stream()[0], b"data: {oops\n\n"]), "upstream_garbled"),
    "not UTF-8": (events(lambda side: [side.stream()[0].replace(b"fake", b"\xff\xfe")]), "upstream_garbled"),
    "empty": (events(lambda _: []), "upstream_down"),
    "comments alone": (events(lambda _: [b": hello\n\n", b": bye\n\n"]), "upstream_down"),
    "the end alone": (events(lambda side: side.stream()[-1:]), "upstream_"),
    "the start alone": (events(lambda side: side.stream()[:1]), "upstream_down"),
    "cut after the start": (events(lambda side: side.stream()[:1], "close"), "upstream_down"),
    "reset after the start": (events(lambda side: side.stream()[:1], "reset"), "upstream_down"),
    "silence after the start": (events(lambda side: [side.stream()[0], NEVER]), "upstream_timeout"),
    "no chunks": (
        lambda upstream, _: upstream.raw(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\nxyz", times=None
        ),
        "upstream_garbled",
    ),
    "a whole reply": (lambda upstream, _: upstream.says("one two", stream=False, times=None), "upstream_garbled"),
    "a web page": (body(lambda _: "<html>", "text/html"), "upstream_garbled"),
}
FAULTS = [
    pytest.param(
        fault,
        code,
        stream,
        id=f"{name}-{'stream' if stream else 'whole'}",
        marks=[pytest.mark.config(providers=SHORT)] if name.startswith("silence") else [],
    )
    for stream, faults in ((False, ALWAYS | WHOLE), (True, ALWAYS | STREAM))
    for name, (fault, code) in faults.items()
]


@pytest.fixture(autouse=True)
def no_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is asked twice is asked again at once."""
    monkeypatch.setattr(pipeline, "BACK_OFF", 0.0)


@pytest.mark.parametrize(("fault", "code", "stream"), FAULTS)
@pytest.mark.proves("failover", "stream.grammar", "errors.native")
async def test_the_next_target_takes_over_and_without_one_it_is_an_error_in_the_callers_dialect(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, fault: Fault, code: str, stream: bool
) -> None:
    fault(upstreams[side.first], side)
    upstreams[side.second].says("here I am")
    got = await gateway.ask(side, model=side.route, stream=stream)
    assert got.status == 200
    assert (side.said(got.body) == "here I am") if stream else (b"here I am" in got.body)
    line = await gateway.told()
    assert line["outcome"] == "ok"
    first, second = line["attempts"]
    assert first.startswith(f"{side.model} {code}")
    assert " ok " in second

    got = await gateway.ask(side, stream=stream)
    assert got.status >= 400
    assert got.headers["content-type"] == "application/json"
    assert side.error(got.json())[1].startswith(code)
    assert (await gateway.told())["outcome"].startswith(code)
    assert len(upstreams[side.second].calls) == 1


@pytest.mark.config(routes={"both": {"targets": [{"model": "openai/gpt-mini"}, {"model": "anthropic/claude-haiku", "order": 1}]}})
@pytest.mark.proves("failover")
async def test_where_every_target_fails_the_error_names_each_and_why(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    upstreams["openai"].answers(401, times=None)
    upstreams["anthropic"].answers(500, times=None)
    _, code, message = side.error((await gateway.ask(side, model="both")).json())
    assert code == "upstream_down"
    assert message.endswith("Tried were `openai/gpt-mini` (upstream_denied), `anthropic/claude-haiku` (upstream_down).")
    upstreams["openai"].answers(500, times=None)
    assert "Tried" not in CHAT.error((await gateway.ask(CHAT, model="openai/gpt-mini")).json())[2]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.proves("failover")
async def test_a_target_that_could_not_be_reached_is_asked_once_more(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, stream: bool
) -> None:
    upstreams[side.first].drops()
    upstreams[side.first].says("here I am")
    assert (await gateway.ask(side, stream=stream)).status == 200
    assert [attempt.split(" ")[1] for attempt in (await gateway.told())["attempts"]] == ["upstream_down", "ok"]


@pytest.mark.proves("failover")
async def test_a_target_that_keeps_failing_is_left_alone_until_nobody_else_is_there(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side
) -> None:
    upstreams[side.first].answers(500, times=5)
    upstreams[side.second].says("here I am", times=8)
    for _ in range(8):
        assert (await gateway.ask(side, model=side.route)).status == 200
    assert len(upstreams[side.first].calls) == 5
    upstreams[side.first].says("I am back", times=None)
    assert (await gateway.ask(side)).status == 200, "it is the only one that could answer"
    assert (await gateway.ask(side, model=side.route)).status == 200
    assert len(upstreams[side.first].calls) == 7


@pytest.mark.proves("failover")
async def test_the_next_target_gets_the_same_request_under_its_own_name_and_key(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    for side, second in ((CHAT, "org/qwen3"), (MESSAGES, "claude-haiku")):
        upstreams[side.first].answers(500)
        upstreams[side.second].says("here I am")
        await gateway.ask(side, model=side.route, temperature=0.5)
        first_call, second_call = upstreams[side.first].calls[0], upstreams[side.second].calls[0]
        assert second_call.json() == first_call.json() | {"model": second}


@pytest.mark.config(routes={"echoed": {"targets": [{"model": "openai/gpt-mini"}, {"model": "echo/echo", "order": 1}]}})
@pytest.mark.proves("failover")
async def test_a_provider_inside_the_process_may_take_over_too(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["openai"].answers(500)
    got = await gateway.ask(CHAT, model="echoed", stream=True, messages=[{"role": "user", "content": "say it"}])
    assert CHAT.said(got.body) == "say it"
