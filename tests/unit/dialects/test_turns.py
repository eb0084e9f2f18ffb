"""One tool call is open at a time, nothing is lost, and a call that is not whole has no end."""

import pytest

from trunkline.dialects._turns import Turns, must_be_cut
from trunkline.errors import UpstreamGarbled
from trunkline.model.event import Ended, Event, Finished, TextDelta, ToolCallArguments, ToolCallEnded, ToolCallStarted

TEXT = TextDelta("hi")


def start(index: int) -> ToolCallStarted:
    return ToolCallStarted(index, f"call_{index}", "f")


def said(*events: Event) -> tuple[list[Event], Turns]:
    turns = Turns()
    return [out for event in events for out in turns.feed(event)], turns


def test_what_is_in_order_stays_as_it_is() -> None:
    events = [TEXT, start(3), ToolCallArguments(3, "{"), ToolCallArguments(3, "}"), ToolCallEnded(3), start(4), ToolCallEnded(4), TEXT]
    assert said(*events)[0] == events


def test_calls_that_are_told_at_once_come_one_after_the_other() -> None:
    """G7: the pieces of two calls alternate."""
    one, two = ['{"a":', "1}"], ['{"b":', "2}"]
    out, turns = said(
        start(1), start(2), ToolCallArguments(1, one[0]), ToolCallArguments(2, two[0]), ToolCallArguments(2, two[1]),
        ToolCallArguments(1, one[1]), ToolCallEnded(2), ToolCallEnded(1), Finished("tool_calls"), Ended(),
    )  # fmt: skip
    assert out == [
        start(1), *(ToolCallArguments(1, piece) for piece in one), ToolCallEnded(1),
        start(2), *(ToolCallArguments(2, piece) for piece in two), ToolCallEnded(2),
        Finished("tool_calls"), Ended(),
    ]  # fmt: skip
    assert not turns.broken


def test_a_call_is_complete_as_soon_as_nothing_can_be_added_to_it() -> None:
    """Formats without ends of their own tell all of them at the very end, and nobody waits for that."""
    turns = Turns()
    for event in (start(0), ToolCallArguments(0, '{"a":1}'), ToolCallArguments(0, "")):
        turns.feed(event)
    assert turns.feed(start(1)) == [ToolCallEnded(0), start(1)]
    assert turns.feed(ToolCallArguments(0, " ")) == []
    assert turns.feed(ToolCallEnded(0)) == []
    assert turns.feed(ToolCallEnded(1)) == [ToolCallEnded(1)]


def test_text_beside_an_open_call_waits_for_its_end() -> None:
    out, _ = said(start(0), TEXT, ToolCallArguments(0, "{}"), ToolCallEnded(0))
    assert out == [start(0), ToolCallArguments(0, "{}"), ToolCallEnded(0), TEXT]


@pytest.mark.proves("G6")
@pytest.mark.parametrize("end", [[ToolCallEnded(0)], []], ids=["ended", "left open"])
def test_a_call_that_is_not_whole_is_never_told_as_complete(end: list[Event]) -> None:
    out, turns = said(start(0), ToolCallArguments(0, '{"a":'), start(1), *end, Finished("length"), Ended())
    assert ToolCallEnded(0) not in out
    assert out[:3] == [start(0), ToolCallArguments(0, '{"a":'), start(1)]
    assert out[-2:] == [Finished("length"), Ended()]
    assert turns.broken


@pytest.mark.parametrize("reason", ["stop", "tool_calls", None])
def test_only_a_reply_that_was_cut_short_may_hold_a_call_that_is_not_whole(reason: object) -> None:
    with pytest.raises(UpstreamGarbled):
        must_be_cut(reason)  # type: ignore[arg-type]
    must_be_cut("length")
