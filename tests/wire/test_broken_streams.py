"""Once something of a reply has been shown nobody takes over, and a failure is an error event, never a clean end."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.upstream import NEVER, Upstream
from tests.wire.gateway import Gateway
from tests.wire.sides import CHAT, MESSAGES, RESPONSES, Side
from tests.wire.test_failover import SHORT, error

Rest = Callable[[Side], list[Any]]


def half(event: bytes) -> bytes:
    return event[: len(event) // 2]


def mark(side: Side) -> list[bytes]:
    """The end of a stream; that of Responses holds all of the reply, so that nothing is missing with it."""
    return [] if side is RESPONSES else side.stream()[-1:]


ENDINGS: dict[str, tuple[Rest, Any, str]] = {
    "closed": (lambda _: [], "close", "upstream_down"),
    "closed within an event": (lambda side: [half(side.stream()[side.shown])], "close", "upstream_down"),
    "reset": (lambda _: [], "reset", "upstream_down"),
    "ended within an event": (lambda side: [half(side.stream()[side.shown])], None, "upstream_down"),
    "ended without a finish": (lambda _: [], None, "upstream_down"),
    "ended by its mark at once": (lambda side: mark(side), None, "upstream_"),
    "ended by its mark without a finish": (lambda side: side.stream()[-3:-2] * (side is MESSAGES) + mark(side), None, "upstream_"),
    "silent": (lambda _: [NEVER], None, "upstream_timeout"),
    "an error": (lambda side: [error(side)], None, "upstream_down"),
    "an error, and then more": (lambda side: [error(side), *side.stream()[side.shown :]], None, "upstream_down"),
    "overloaded": (lambda side: [error(side, "overloaded_error")], None, "upstream_busy"),
    "our credential": (lambda side: [error(side, "authentication_error")], None, "upstream_denied"),
    "garbled": (lambda _: [b"data: {nonsense\n\n"], None, "upstream_garbled"),
    "no object": (lambda _: [b"event: content_block_delta\ndata: [1]\n\n"], None, "upstream_garbled"),
    "not UTF-8": (lambda side: [side.stream()[side.shown].replace(b"two", b"\xff")], None, "upstream_garbled"),
    "a web page": (lambda _: [b"data: <html>502 Bad Gateway</html>\n\n"], None, "upstream_garbled"),
}


@pytest.mark.parametrize(
    ("rest", "cut", "code"),
    [
        pytest.param(*ending, id=name, marks=[pytest.mark.config(providers=SHORT)] if name == "silent" else [])
        for name, ending in ENDINGS.items()
    ],
)
@pytest.mark.proves("stream.never-clean", "failover", "stream.grammar")
async def test_a_stream_that_breaks_ends_with_an_error_event_in_the_callers_dialect(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, rest: Rest, cut: Any, code: str
) -> None:
    begun = side.stream()[: side.shown]
    upstreams[side.first].streams([*begun, *rest(side)], cut=cut)
    got = await gateway.ask(side, model=side.route, stream=True)
    assert got.status == 200
    assert got.body.startswith(b"".join(begun)), "what came is shown"
    assert side.said(got.body) == "one"
    kind, told, message = side.failure(got.body)
    assert message
    assert told.startswith(code) or (told == "" and kind in {"api_error", "overloaded_error"}), "our code, or the provider's own error"
    line = await gateway.told()
    assert line["outcome"].startswith(code)
    assert line["status"] == 200
    assert [attempt.split(" ")[1] for attempt in line["attempts"]] == [line["outcome"]]
    assert upstreams[side.second].calls == []


FAILED = (
    b'event: response.failed\ndata: { "type": "response.failed", "sequence_number": 99, "response": {"id": "resp_fake", "object": "response", '
    b'"status": "failed", "output": [], "error": {"code": "server_error", "message": "it broke"}}}\n\n'
)


@pytest.mark.proves("stream.never-clean", "bytes.stream")
async def test_the_providers_own_error_event_is_handed_on_as_it_is(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    told = json.dumps(error(side, "overloaded_error") | {"request_id": "req_vendor"}, indent=None).encode()
    event = (b"" if side is CHAT else b"event: error\n") + b"data:  " + told + b"\n\n"
    event += FAILED if side is RESPONSES else b""
    upstreams[side.first].streams([*side.stream()[: side.shown], event])
    got = await gateway.ask(side, stream=True)
    assert got.body.endswith(b"\n\n" + event)


@pytest.mark.proves("stream.never-clean")
async def test_what_the_provider_says_of_our_credential_in_a_stream_is_not_for_the_caller(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side
) -> None:
    event = error(side, "authentication_error")
    event["error"]["message"] = "the key of acme corp is disabled"
    upstreams[side.first].streams([*side.stream()[: side.shown], event])
    got = await gateway.ask(side, stream=True)
    assert b"acme" not in got.body
    assert side.failure(got.body)[1] == "upstream_denied"


CALL: dict[Side, bytes] = {
    CHAT: b'data: {"id":"chatcmpl-fake","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":'
    b'{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\\"path\\":\\"/e"}}]},"finish_reason":null}]}\n\n',
    MESSAGES: b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\\"path\\":\\"/e"}}\n\n',
    RESPONSES: b'event: response.output_item.added\ndata: {"type":"response.output_item.added","sequence_number":5,"output_index":1,"item":'
    b'{"type":"function_call","id":"fc_1","call_id":"a","name":"f","arguments":"","status":"in_progress"}}\n\n'
    b'event: response.function_call_arguments.delta\ndata: {"type":"response.function_call_arguments.delta","sequence_number":6,'
    b'"item_id":"fc_1","output_index":1,"delta":"{\\"path\\":\\"/e"}\n\n',
}


@pytest.mark.parametrize("cut", ["close", "reset", None])
@pytest.mark.proves("G6", "stream.never-clean")
async def test_a_tool_call_that_breaks_off_is_never_completed(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, cut: Any
) -> None:
    upstreams[side.first].streams([*side.stream()[: side.shown], CALL[side]], cut=cut)
    got = await gateway.ask(side, stream=True)
    assert side.failure(got.body)[1] == "upstream_down"
    assert b'tool_calls"}' not in got.body
    assert b"arguments.done" not in got.body
    assert got.body.count(b"content_block_stop") == 2 * (side is MESSAGES)


# ------------------------------------------------------------------------------------------- complete all the same
AFTERWARDS: dict[str, tuple[Rest, Any]] = {
    "ended": (lambda _: [], None),
    "closed": (lambda _: [], "close"),
    "closed within its mark": (lambda side: [half(side.stream()[-1])], "close"),
    "reset": (lambda _: [], "reset"),
    "silent": (lambda _: [NEVER], None),
    "garbled": (lambda _: [b"data: {nonsense\n\n"], None),
    "an error": (lambda side: [error(side)], None),
}


@pytest.mark.parametrize(
    ("rest", "cut"),
    [
        pytest.param(*ending, id=name, marks=[pytest.mark.config(providers=SHORT)] if name == "silent" else [])
        for name, ending in AFTERWARDS.items()
    ],
)
@pytest.mark.parametrize("side", [CHAT, MESSAGES], ids=str)  # what ends Responses is no mere mark
@pytest.mark.proves("bytes.stream", "stream.grammar")
async def test_a_reply_that_is_complete_ends_well_whatever_comes_instead_of_its_mark(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, rest: Rest, cut: Any
) -> None:
    whole = side.stream()
    upstreams[side.first].streams([*whole[:-1], *rest(side)], cut=cut)
    got = await gateway.ask(side, stream=True)
    assert got.body.startswith(b"".join(whole[:-1]))
    assert len(side.grammar(got.body)) == len(whole) - (side is CHAT), "all of it, and the mark"
    assert (await gateway.told())["outcome"] == "ok"
