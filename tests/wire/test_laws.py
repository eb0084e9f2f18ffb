"""What holds for every dialect, whatever is said: it has two sides, and they agree."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.wire.streams import CORPORA, DIALECTS, cut, read, request, text_of
from trunkline.dialects import Dialect
from trunkline.dialects._free import wrapped
from trunkline.model.event import (
    Ended,
    Event,
    Finished,
    FinishReason,
    Fold,
    ReasoningDelta,
    ReasoningEnded,
    RefusalDelta,
    Reply,
    Started,
    TextDelta,
    ToolCallArguments,
    ToolCallEnded,
    ToolCallStarted,
    Used,
)
from trunkline.model.part import Part, Reasoning, Refusal, Text, ToolCall
from trunkline.model.usage import Usage

STREAMS = sorted(path.relative_to(CORPORA).as_posix() for path in CORPORA.glob("*/*.sse"))
TOLD_TWICE = [name for name in STREAMS if (CORPORA / name).with_suffix(".reply.json").exists()]

every_dialect = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
every_stream = pytest.mark.parametrize("name", STREAMS)
places = st.lists(st.integers(0, 5000), max_size=8)


def recorded(name: str) -> tuple[Dialect, bytes]:
    return DIALECTS[name.partition("/")[0]], (CORPORA / name).read_bytes()


# ------------------------------------------------------------------------------------------------------- recordings
@every_stream
def test_a_valid_stream_passes_to_the_byte_and_needs_nothing_of_ours(name: str) -> None:
    dialect, stream = recorded(name)
    told = read(dialect, stream)
    assert told.raw == stream
    assert told.closing == b""
    assert isinstance(told.events[-1], Ended)
    assert told.reply.finish


@pytest.mark.proves("G1", "G2")
@every_stream
@given(where=places)
def test_any_cut_of_a_stream_says_the_same_and_passes_the_same(name: str, where: list[int]) -> None:
    dialect, stream = recorded(name)
    whole, pieces = read(dialect, stream), read(dialect, cut(stream, where))
    assert pieces.raw == stream
    assert pieces.events == whole.events
    assert pieces.visible == whole.visible


@pytest.mark.proves("G1", "G2")
@every_stream
def test_a_stream_byte_by_byte_says_the_same(name: str) -> None:
    dialect, stream = recorded(name)
    pieces = read(dialect, (bytes([byte]) for byte in stream))
    assert pieces.events == read(dialect, stream).events
    assert pieces.raw.rstrip(b"\r\n") == stream.rstrip(b"\r\n")


@pytest.mark.proves("G2")
@every_stream
def test_the_line_ends_of_a_stream_change_nothing_that_it_says(name: str) -> None:
    dialect, stream = recorded(name)
    plain = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    events = read(dialect, stream).events
    for end in (b"\n", b"\r\n", b"\r"):
        told = read(dialect, plain.replace(b"\n", end))
        assert told.events == events
        assert told.raw == plain.replace(b"\n", end)


@every_stream
def test_no_beginning_of_a_stream_is_taken_for_the_whole_of_it(name: str) -> None:
    """A stream that is cut anywhere fails, or lacks no more than its closing mark."""
    dialect, stream = recorded(name)
    whole = read(dialect, stream).reply
    for end in range(len(stream)):
        try:
            told = read(dialect, stream[:end])
        except Exception as error:  # noqa: BLE001 - its class is judged
            assert type(error).__name__ == "UpstreamDown"  # noqa: PT017 - most beginnings fail, some do not
        else:
            reply = told.reply
            assert (reply.content, reply.finish) == (whole.content, whole.finish)


@pytest.mark.parametrize("name", TOLD_TWICE)
def test_folding_the_events_of_a_stream_is_the_reply_told_whole(name: str) -> None:
    dialect, stream = recorded(name)
    assert read(dialect, stream).reply == dialect.read_reply((CORPORA / name).with_suffix(".reply.json").read_bytes(), "chat")


# --------------------------------------------------------------------------------------- what is written is read back
counts = st.integers(0, 10**7)
usages = st.builds(Usage, input=counts, cache_read=counts, cache_write=counts, output=counts, reasoning=counts)
some = st.text(min_size=1, max_size=8)
arguments = st.dictionaries(st.text(max_size=5), st.text(max_size=5) | st.integers(-5, 5) | st.none(), max_size=3).map(json.dumps)
texts = st.builds(Text, text=st.text(min_size=1))
refusals = st.builds(Refusal, text=some)
calls = st.builds(ToolCall, id=some, name=st.text(max_size=8), arguments=arguments)
groups = st.text(max_size=4)
free_calls = st.builds(ToolCall, id=some, name=st.text(max_size=8), namespace=groups, arguments=st.text().map(wrapped), free=st.just(True))
grouped_calls = st.builds(ToolCall, id=some, name=st.text(max_size=8), namespace=groups, arguments=arguments)
plain = st.builds(Reasoning, text=some)


def signed(origins: st.SearchStrategy[str], ids: st.SearchStrategy[str]) -> st.SearchStrategy[Reasoning]:
    return st.builds(Reasoning, text=st.text(max_size=8), signature=some, origin=origins, id=ids)


def encrypted(texts: st.SearchStrategy[str], origins: st.SearchStrategy[str], ids: st.SearchStrategy[str]) -> st.SearchStrategy[Reasoning]:
    return st.builds(Reasoning, text=texts, encrypted=some, origin=origins, id=ids)


@st.composite
def messages_content(draw: st.DrawFn) -> list[Part]:
    """Blocks in any order; two texts in a row are one."""
    ours, empty = st.just("anthropic"), st.just("")
    kinds: list[st.SearchStrategy[Part]] = [texts, plain, signed(ours, empty), encrypted(empty, ours, empty), calls]
    parts = draw(st.lists(st.one_of(kinds), max_size=5, unique_by=lambda part: part.id if isinstance(part, ToolCall) else id(part)))
    return [part for before, part in zip([None, *parts], parts, strict=False) if not (isinstance(before, Text) and isinstance(part, Text))]


@st.composite
def chat_content(draw: st.DrawFn) -> list[Part]:
    """One field for each kind: thoughts, which are told twice where somebody signed them, text, refusal, calls."""
    origins, ids = st.sampled_from(["anthropic", "openai_chat"]), st.text(max_size=4)
    thoughts = draw(st.lists(plain, max_size=1) | st.lists(signed(origins, ids) | encrypted(st.text(max_size=8), origins, ids), max_size=3))
    called = draw(st.lists(calls, max_size=3, unique_by=lambda call: call.id))
    return [*thoughts, *draw(st.lists(texts, max_size=1)), *draw(st.lists(refusals, max_size=1)), *called]


@st.composite
def responses_content(draw: st.DrawFn) -> list[Part]:
    """Items in any order; two texts or refusals in a row are one."""
    ours = encrypted(st.text(max_size=8), st.just("openai_responses"), st.text(max_size=4))
    kinds: list[st.SearchStrategy[Part]] = [texts, refusals, plain, ours, grouped_calls, free_calls]
    parts = draw(st.lists(st.one_of(kinds), max_size=5, unique_by=lambda part: part.id if isinstance(part, ToolCall) else id(part)))
    return [
        part for before, part in zip([None, *parts], parts, strict=False) if type(before) is not type(part) or isinstance(part, ToolCall)
    ]


CONTENTS = {"anthropic": messages_content(), "openai_chat": chat_content(), "openai_responses": responses_content()}
FINISHES: dict[str, list[tuple[FinishReason, str | None]]] = {
    "anthropic": [("stop", None), ("stop", "END"), ("length", None), ("tool_calls", None), ("refused", None), ("paused", None)],
    "openai_chat": [("length", None), ("tool_calls", None), ("refused", None)],  # no pause, no stop sequence
    "openai_responses": [("length", None), ("refused", None)],  # and calls say for themselves that there are calls
}


@st.composite
def replies(draw: st.DrawFn, dialect: Dialect) -> Reply:
    content = tuple(draw(CONTENTS[dialect.name]))
    called = any(isinstance(part, ToolCall) for part in content)
    usual: tuple[FinishReason, str | None] = ("tool_calls", None) if called else ("stop", None)  # whoever says `stop` with calls
    finish, stop = draw(st.sampled_from([*FINISHES[dialect.name], usual]))
    return Reply(
        id=f"{'resp_' if dialect.name == 'openai_responses' else ''}{draw(st.text(max_size=8))}",
        model=draw(some),
        created=0 if dialect.name == "anthropic" else draw(st.integers(0, 2**31)),
        content=content,
        finish=finish,
        stop=stop,
        usage=draw(usages),
    )


@st.composite
def events_of(draw: st.DrawFn, reply: Reply) -> list[Event]:
    """The events that tell a reply: part after part in pieces, but for the calls, whose pieces may come while others are told."""
    told: list[Event] = [Started(reply.id, reply.model, reply.created)]
    open_calls: list[Iterator[Event]] = []
    numbers = iter(draw(st.permutations(range(len(reply.content)))))

    def meanwhile() -> None:
        while open_calls and draw(st.booleans()):
            thread = draw(st.sampled_from(open_calls))
            if (event := next(thread, None)) is None:
                open_calls.remove(thread)
            else:
                told.append(event)

    for part in reply.content:
        match part:
            case ToolCall():
                number = next(numbers)
                told.append(ToolCallStarted(number, part.id, part.name, part.namespace, part.free))
                pieces = [ToolCallArguments(number, piece) for piece in draw(pieces_of(part.arguments))]
                open_calls.append(iter([*pieces, ToolCallEnded(number)]))
            case Text(text=text) | Reasoning(text=text) | Refusal(text=text):
                delta = {Text: TextDelta, Reasoning: ReasoningDelta, Refusal: RefusalDelta}[type(part)]
                for piece in draw(pieces_of(text)) if text else ():
                    told.append(delta(piece))
                    meanwhile()
                if isinstance(part, Reasoning):
                    told.append(ReasoningEnded(part.signature, part.encrypted, part.origin, part.id))
            case _:
                raise AssertionError(part)
        meanwhile()
    for thread in open_calls:
        told += thread
    return [*told, Finished(reply.finish or "stop", reply.stop), Used(reply.usage or Usage()), Ended()]


def pieces_of(text: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.integers(0, len(text)), max_size=3).map(
        lambda places: [text[start:end] for start, end in zip([0, *sorted(places)], [*sorted(places), len(text)], strict=True)]
    )


every_content = pytest.mark.parametrize("dialect", [DIALECTS[name] for name in CONTENTS], ids=CONTENTS)
"""Responses is read back with ids of its own: `tests/unit/dialects/openai_responses/test_streams.py`."""


@every_content
@given(data=st.data())
def test_a_reply_that_is_written_is_read_back(dialect: Dialect, data: st.DataObject) -> None:
    reply = data.draw(replies(dialect))
    body, losses = dialect.write_reply(reply, "chat")
    assert dialect.read_reply(body, "chat") == reply
    assert losses == ()


@every_content
@given(data=st.data(), where=places)
def test_a_stream_that_is_written_is_read_back_however_it_is_cut(dialect: Dialect, data: st.DataObject, where: list[int]) -> None:
    reply = data.draw(replies(dialect))
    events = data.draw(events_of(reply))
    fold = Fold()
    for event in events:
        fold.add(event)
    assert fold.reply() == reply
    writer = dialect.write_events(request(dialect))
    stream = b"".join(map(writer.write, events))
    told = read(dialect, cut(stream, where))
    assert told.reply == reply
    assert told.raw == stream


@every_dialect
@given(text=st.text(), where=places)
@example(text="k\u0131ş 🛰 東", where=list(range(1000)))
@pytest.mark.proves("G1")
def test_text_comes_through_whole_wherever_its_characters_are_cut(dialect: Dialect, text: str, where: list[int]) -> None:
    writer = dialect.write_events(request(dialect))
    stream = b"".join(map(writer.write, [Started("i", "m"), TextDelta(text), Finished("stop"), Ended()]))
    assert text_of(read(dialect, cut(stream, where)).reply) == text
