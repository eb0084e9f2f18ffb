import asyncio
import json

import pytest

from tests.fakes.clock import FakeClock
from tests.fakes.scripted import Answer, Pause
from trunkline.dialects import Dialect, Written
from trunkline.dialects._names import UNCHANGED, Names
from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.errors import UpstreamBusy, UpstreamDown, UpstreamGarbled
from trunkline.gateway import relay as relay_module
from trunkline.gateway.relay import HOLD_BYTES, HOLD_SECONDS, Broken, Stream, Translation
from trunkline.model.event import Started
from trunkline.model.loss import unsupported
from trunkline.model.request import Request
from trunkline.model.usage import Usage

SECRET = "sk-canary-0123456789"
ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
HELLO = b'data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'
TOOL = b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{"}}]}}]}\n\n'
STOP = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}\n\n'
DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"
SECOND = b'data: {"choices":[{"index":1,"delta":{"content":"again"}}]}\n\n'
SECOND_STOP = b'data: {"choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}\n\n'
REQUEST = Request(operation="chat", model="m", stream=True, max_output=None, body=b"", fields={})


def stream(
    *steps: bytes | Exception | Pause, dialect: Dialect = OPENAI_CHAT, clock: FakeClock | None = None, usage_added: bool = False
) -> Stream:
    reader = dialect.read_events(request=REQUEST, written=Written(b"", usage_added=usage_added), repairs=frozenset())
    return Stream(Answer(*steps), reader, clock or FakeClock(), secrets=(SECRET,))


async def told(stream: Stream) -> bytes:
    """All that a caller gets of it."""
    parts = [await stream.begin()]
    while not stream.done:
        parts.append(await stream.next())
    return b"".join(parts)


async def test_a_good_stream_passes_to_the_byte() -> None:
    whole = [PING, ROLE, HELLO, STOP, USAGE, DONE]
    one = stream(*whole)
    assert await told(one) == b"".join(whole)
    assert one.usage == Usage(input=5, output=2)


@pytest.mark.proves("stream.any-split", "bytes.stream")
async def test_it_passes_to_the_byte_however_it_is_cut() -> None:
    whole = b"".join([PING, ROLE, HELLO, STOP, USAGE, DONE])
    for at in range(1, len(whole)):
        assert await told(stream(whole[:at], whole[at:])) == whole


async def test_what_only_prepares_a_reply_is_held_until_its_first_part() -> None:
    one = stream(PING, ROLE, PING, HELLO, STOP, DONE)
    assert await one.begin() == PING + ROLE + PING + HELLO


@pytest.mark.parametrize("visible", [HELLO, TOOL, STOP], ids=["text", "tool call", "end"])
async def test_any_part_of_a_reply_is_shown_at_once(visible: bytes) -> None:
    one = stream(ROLE, visible, Pause())
    assert await asyncio.wait_for(one.begin(), 5) == ROLE + visible


@pytest.mark.parametrize(
    "steps",
    [
        (UpstreamDown("cut"),),
        (ROLE, UpstreamDown("cut")),
        (PING, ROLE),
        (),
        (b"data: {broken\n\n",),
        (ROLE + b'data: {"error":{"code":"rate_limit_exceeded","message":"slow down"}}\n\n',),
        (ROLE, b"data: [DONE]\n\n"),
    ],
    ids=["cut at once", "cut after the role", "ended after the role", "empty", "no json", "an error event", "done without an end"],
)
async def test_a_failure_before_the_first_part_shows_nothing(steps: tuple[bytes | Exception, ...]) -> None:
    with pytest.raises((UpstreamDown, UpstreamGarbled, UpstreamBusy)):
        await stream(*steps).begin()


async def test_a_long_prelude_is_shown_and_gives_up_the_right_to_another_target() -> None:
    clock = FakeClock()
    pause = Pause()
    one = stream(PING, pause, PING, Pause(), clock=clock)
    beginning = asyncio.get_running_loop().create_task(one.begin())
    await pause.reached.wait()
    clock.advance(HOLD_SECONDS + 1)
    pause.over.set()
    assert await asyncio.wait_for(beginning, 5) == PING + PING


async def test_a_large_prelude_is_shown() -> None:
    large = b": " + b"x" * HOLD_BYTES + b"\n\n"
    assert await asyncio.wait_for(stream(large, Pause()).begin(), 5) == large


async def test_a_failure_after_a_prelude_that_was_shown_owes_the_caller_an_error_event() -> None:
    large = b": " + b"x" * HOLD_BYTES + b"\n\n"
    one = stream(large, UpstreamDown("cut"))
    await one.begin()
    with pytest.raises(Broken):
        await one.next()


@pytest.mark.proves("stream.never-clean")
@pytest.mark.parametrize(
    "steps",
    [(UpstreamDown("cut"),), (), (b'data: {"choices":[{"ind',), (b"data: nonsense\n\n",), (DONE,)],
    ids=["cut", "ended", "ended inside an event", "garbled", "done without an end"],
)
async def test_a_failure_after_the_first_part_is_never_a_clean_end(steps: tuple[bytes | Exception, ...]) -> None:
    one = stream(HELLO, *steps)
    assert await one.begin() == HELLO
    with pytest.raises(Broken) as caught:  # noqa: PT012 - whichever of the next reads fails
        while True:
            assert await one.next() == b""
    assert not caught.value.native


async def test_what_came_before_a_failure_in_the_same_piece_is_shown() -> None:
    one = stream(HELLO + b"data: nonsense\n\n")
    assert await one.begin() == HELLO
    with pytest.raises(Broken):
        await one.next()


async def test_a_missing_mark_of_the_end_is_added_where_the_reply_is_complete() -> None:
    assert await told(stream(HELLO, STOP)) == HELLO + STOP + DONE


# ----------------------------------------------------------------------------------------------- a forgotten end mark
@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "GRACE_SECONDS", 0.02)


@pytest.mark.proves("stream.grace")
@pytest.mark.usefixtures("short_grace")
async def test_a_complete_reply_whose_provider_forgets_the_end_ends_all_the_same() -> None:
    pause = Pause()
    assert await asyncio.wait_for(told(stream(HELLO, STOP, USAGE, pause)), 5) == HELLO + STOP + USAGE + DONE
    assert pause.reached.is_set()


@pytest.mark.proves("stream.grace")
@pytest.mark.usefixtures("short_grace")
async def test_pings_after_a_complete_reply_do_not_lengthen_its_grace() -> None:
    class Pinging(Answer):
        async def __anext__(self) -> bytes:
            if self._steps:
                return await super().__anext__()
            await asyncio.sleep(0.001)
            return PING

    reader = OPENAI_CHAT.read_events(request=REQUEST, written=Written(b""), repairs=frozenset())
    out = await asyncio.wait_for(told(Stream(Pinging(HELLO, STOP, USAGE), reader, FakeClock())), 5)
    assert out.replace(PING, b"") == HELLO + STOP + USAGE + DONE


@pytest.mark.usefixtures("short_grace")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([HELLO], [STOP, USAGE, DONE]),
        ([HELLO, STOP], [USAGE, DONE]),
        ([HELLO, USAGE], [STOP, DONE]),
        ([HELLO, SECOND, USAGE, STOP], [SECOND_STOP, DONE]),
    ],
    ids=["no reason", "no usage", "usage before the reason", "one choice of two"],
)
async def test_a_reply_that_is_not_complete_is_waited_for(before: list[bytes], after: list[bytes]) -> None:
    pause = Pause()
    one = stream(*before, pause, *after)
    reading = asyncio.get_running_loop().create_task(told(one))
    await asyncio.wait_for(pause.reached.wait(), 5)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(reading), 0.1)
    pause.over.set()
    assert await asyncio.wait_for(reading, 5) == b"".join([*before, *after])


async def test_what_follows_the_end_is_nobodys() -> None:
    assert await told(stream(HELLO, STOP, DONE + HELLO)) == HELLO + STOP + DONE


@pytest.mark.proves("bytes.stream")
async def test_a_usage_that_the_caller_did_not_ask_for_is_read_and_taken_out() -> None:
    one = stream(HELLO, STOP, USAGE, DONE, usage_added=True)
    assert await told(one) == HELLO + STOP + DONE
    assert one.usage == Usage(input=5, output=2)


async def test_tool_calls_are_counted() -> None:
    one = stream(TOOL, STOP, DONE)
    await told(one)
    assert one.tool_calls == 1


@pytest.mark.proves("G19")
async def test_a_providers_error_event_is_kept_without_our_credential() -> None:
    event = b'data: {"error":{"code":"rate_limit_exceeded","message":"slow down, %s"}}\n\n' % SECRET.encode()
    one = stream(HELLO, event)
    await one.begin()
    assert await one.next() == b""
    with pytest.raises(Broken) as caught:
        await one.next()
    assert isinstance(caught.value.error, UpstreamBusy)
    assert caught.value.native == event.replace(SECRET.encode(), b"***")
    assert SECRET not in caught.value.error.message


async def test_what_a_provider_says_of_our_credential_inside_a_stream_is_not_for_the_caller() -> None:
    event = b'event: error\ndata: {"type":"error","error":{"type":"authentication_error","message":"the account of ACME is closed"}}\n\n'
    start = b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":1}}}\n\n'
    block = b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n'
    one = stream(start, block, event, dialect=ANTHROPIC)
    assert await one.begin() == start + block
    assert await one.next() == b""
    with pytest.raises(Broken) as caught:
        await one.next()
    assert caught.value.error.code == "upstream_denied"
    assert caught.value.native == b""
    assert "ACME" not in str(caught.value)


async def test_an_event_without_an_end_is_a_failure_and_not_all_of_the_memory() -> None:
    one = stream(HELLO, b"data: " + b"x" * (17 << 20), HELLO)
    await one.begin()
    assert await one.next() == b""
    with pytest.raises(Broken, match="too large"):
        await one.next()


async def test_an_answer_gets_a_moment_to_end_and_not_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "SETTLE_SECONDS", 0.01)
    pause = Pause()
    one = stream(HELLO, STOP, DONE, pause)
    await told(one)
    await asyncio.wait_for(one.settle(), 5)
    assert pause.reached.is_set()


async def test_an_answer_that_fails_after_its_end_has_not_failed() -> None:
    one = stream(HELLO, STOP, DONE, UpstreamDown("cut"))
    await told(one)
    await one.settle()


# -------------------------------------------------------------------------------------------------------- translation
START = b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","model":"x","usage":{"input_tokens":1}}}\n\n'
THOUGHT = (
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}\n\n'
)
EVENT_PING = b'event: ping\ndata: {"type":"ping"}\n\n'
LOSS = b'data: {"choices":[{"index":0,"delta":{"content":"hi"},"logprobs":{}}]}\n\n'


def translated(
    *steps: bytes | Exception | Pause, provider: Dialect, caller: Dialect, names: Names = UNCHANGED, tell: bool = False
) -> Stream:
    reader = provider.read_events(request=REQUEST, written=Written(b""), repairs=frozenset())
    translation = Translation(caller.write_events(REQUEST), Started("ours", "m"), names, caller.keep_alive, tell=tell)
    return Stream(Answer(*steps), reader, FakeClock(), secrets=(SECRET,), translation=translation)


async def test_a_stream_is_told_in_the_callers_dialect_event_by_event() -> None:
    one = translated(ROLE, HELLO, STOP, USAGE, DONE, provider=OPENAI_CHAT, caller=ANTHROPIC)
    begun = await one.begin()
    assert begun.startswith(b"event: message_start\n")
    assert begun.count(b"content_block_delta\n") == 1
    assert await one.next() == b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    assert await one.next() == b""
    end = await one.next()
    assert one.done
    assert end.startswith(b"event: message_delta\n")
    assert end.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')
    assert one.usage == Usage(input=5, output=2)


async def test_a_providers_sign_of_life_is_one_in_the_callers_dialect() -> None:
    chat = translated(HELLO, PING, provider=OPENAI_CHAT, caller=ANTHROPIC)
    await chat.begin()
    assert await chat.next() == b'event: ping\ndata: {"type": "ping"}\n\n'
    messages = translated(START, THOUGHT, EVENT_PING, provider=ANTHROPIC, caller=OPENAI_CHAT)
    await messages.begin()
    assert await messages.next() == b": keep-alive\n\n"


async def test_a_piece_that_says_nothing_to_the_caller_is_no_sign_of_life_but_nothing() -> None:
    signature = (
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}\n\n'
    )
    one = translated(START, THOUGHT, signature, provider=ANTHROPIC, caller=OPENAI_CHAT)
    await one.begin()
    assert await one.next() == b""


@pytest.mark.proves("G8")
async def test_a_call_has_the_name_that_the_caller_knows() -> None:
    long = "f" * 65
    names = Names([long])
    call = TOOL.replace(b'"name":"f"', b'"name":"%s"' % names.short(long).encode())
    one = translated(call, provider=OPENAI_CHAT, caller=ANTHROPIC, names=names)
    assert f'"name":"{long}"'.encode() in await one.begin()


@pytest.mark.proves("losses.told")
@pytest.mark.parametrize("tell", [True, False])
async def test_what_a_reply_loses_is_kept_and_told_before_the_end_to_whom_asks_for_it(*, tell: bool) -> None:
    one = translated(LOSS, LOSS, STOP, DONE, provider=OPENAI_CHAT, caller=ANTHROPIC, tell=tell)
    out = await told(one)
    assert set(one.losses) == {unsupported("choices.0.logprobs")}
    before, mark, after = out.partition(b": trunkline.losses ")
    assert bool(mark) == tell
    if tell:
        told_losses, end = after.split(b"\n\n", 1)
        assert json.loads(told_losses) == [{"path": "choices.0.logprobs", "class": "unsupported", "severity": "material", "detail": ""}]
        assert b"message_delta" not in before
        assert end.startswith(b"event: message_delta")


async def test_a_reply_without_losses_has_no_comment_about_them() -> None:
    assert b": trunkline" not in await told(translated(HELLO, STOP, DONE, provider=OPENAI_CHAT, caller=ANTHROPIC, tell=True))


async def test_a_forwarded_stream_loses_nothing() -> None:
    one = stream(LOSS, STOP, DONE)
    assert await told(one) == LOSS + STOP + DONE
    assert one.losses == ()


@pytest.mark.proves("stream.never-clean")
@pytest.mark.parametrize("steps", [(UpstreamDown("cut"),), (), (b"data: nonsense\n\n",), (DONE,)], ids=["cut", "ended", "garbled", "done"])
async def test_a_failure_in_a_translated_stream_is_never_a_clean_end(steps: tuple[bytes | Exception, ...]) -> None:
    one = translated(HELLO, *steps, provider=OPENAI_CHAT, caller=ANTHROPIC)
    await one.begin()
    with pytest.raises(Broken) as caught:  # noqa: PT012 - whichever of the next reads fails
        while True:
            assert await one.next() == b""
    assert caught.value.native == b""


async def test_a_providers_own_error_event_is_not_for_a_caller_of_another_dialect() -> None:
    event = b'data: {"error":{"code":"rate_limit_exceeded","message":"slow down, %s"}}\n\n' % SECRET.encode()
    one = translated(HELLO, event, provider=OPENAI_CHAT, caller=ANTHROPIC)
    await one.begin()
    assert await one.next() == b""
    with pytest.raises(Broken) as caught:
        await one.next()
    assert isinstance(caught.value.error, UpstreamBusy)
    assert caught.value.native == b""
    assert "slow down" in caught.value.error.message
    assert SECRET not in caught.value.error.message


@pytest.mark.proves("stream.grace")
@pytest.mark.usefixtures("short_grace")
async def test_a_forgotten_end_is_written_in_the_callers_dialect() -> None:
    out = await asyncio.wait_for(told(translated(HELLO, STOP, USAGE, Pause(), provider=OPENAI_CHAT, caller=ANTHROPIC)), 5)
    assert out.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')


async def test_a_long_wait_for_a_translated_reply_is_shown_as_signs_of_life() -> None:
    clock = FakeClock()
    pause = Pause()
    reader = OPENAI_CHAT.read_events(request=REQUEST, written=Written(b""), repairs=frozenset())
    translation = Translation(ANTHROPIC.write_events(REQUEST), Started("ours", "m"), UNCHANGED, ANTHROPIC.keep_alive, tell=False)
    one = Stream(Answer(PING, pause, PING, HELLO), reader, clock, translation=translation)
    beginning = asyncio.get_running_loop().create_task(one.begin())
    await pause.reached.wait()
    clock.advance(HOLD_SECONDS + 1)
    pause.over.set()
    assert await asyncio.wait_for(beginning, 5) == ANTHROPIC.keep_alive * 2
    assert (await one.next()).startswith(b"event: message_start\n")


@pytest.mark.proves("G6", "stream.never-clean")
@pytest.mark.parametrize("cut", [True, False], ids=["piece by piece", "in one piece"])
async def test_a_call_that_cannot_be_told_breaks_the_stream_though_its_provider_thinks_it_complete(*, cut: bool) -> None:
    """`TOOL` says `{` and no more."""
    steps = [HELLO, TOOL, STOP, USAGE, DONE]
    one = translated(*steps if cut else [b"".join(steps)], provider=OPENAI_CHAT, caller=ANTHROPIC)
    out = await one.begin()
    with pytest.raises(Broken, match="not a JSON object"):  # noqa: PT012 - whichever of the next reads fails
        while True:
            assert not one.done
            out += await one.next()
    assert b"hello" in out
    assert b"message_stop" not in out
