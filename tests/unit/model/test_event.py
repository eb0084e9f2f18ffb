from trunkline.errors import UpstreamDown
from trunkline.model.event import (
    Ended,
    Event,
    Failed,
    Finished,
    Fold,
    Lost,
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
from trunkline.model.loss import unsupported
from trunkline.model.part import Reasoning, Refusal, Text, ToolCall
from trunkline.model.usage import Usage


def folded(*events: Event) -> Reply:
    fold = Fold()
    for event in events:
        fold.add(event)
    return fold.reply()


def call(call_id: str, name: str, arguments: str) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)


def test_events_become_the_reply_that_they_tell() -> None:
    assert folded(
        Started("msg_1", "m", 7),
        TextDelta("Hel"),
        Used(Usage(input=9)),
        TextDelta("lo"),
        ToolCallStarted(1, "call_1", "read"),
        ToolCallStarted(4, "call_2", "write"),
        ToolCallArguments(4, '{"b":'),
        ToolCallArguments(1, '{"a":'),
        ToolCallArguments(4, "2}"),
        ToolCallEnded(4),
        ToolCallArguments(1, "1}"),
        ToolCallEnded(1),
        Finished("tool_calls"),
        Used(Usage(input=9, output=5)),
        Ended(),
    ) == Reply(
        id="msg_1",
        model="m",
        created=7,
        content=(Text(text="Hello"), call("call_1", "read", '{"a":1}'), call("call_2", "write", '{"b":2}')),
        finish="tool_calls",
        usage=Usage(input=9, output=5),
    )


def test_parts_come_in_the_order_in_which_they_were_told() -> None:
    reply = folded(
        ReasoningDelta("h"),
        ReasoningDelta("m"),
        TextDelta("a"),
        ToolCallStarted(0, "c", "n"),
        TextDelta("b"),
        ToolCallArguments(0, "{}"),
        RefusalDelta("n"),
        RefusalDelta("o"),
        TextDelta("c"),
    )
    assert reply.content == (
        Reasoning(text="hm"),
        Text(text="a"),
        call("c", "n", "{}"),
        Text(text="b"),
        Refusal(text="no"),
        Text(text="c"),
    )
    assert reply.tool_calls == (call("c", "n", "{}"),)


def test_the_end_of_a_thought_brings_what_its_vendor_wants_to_see_again() -> None:
    signed = ReasoningEnded(signature="s", origin="anthropic", id="rs_1")
    reply = folded(ReasoningDelta("one"), signed, ReasoningDelta("two"), TextDelta("a"), ReasoningEnded(encrypted="e", origin="anthropic"))
    assert reply.content == (
        Reasoning(text="one", signature="s", origin="anthropic", id="rs_1"),
        Reasoning(text="two"),
        Text(text="a"),
        Reasoning(encrypted="e", origin="anthropic"),
    )


def test_why_it_ended_and_what_was_lost_are_told_with_the_reply() -> None:
    reply = folded(TextDelta("a"), Lost(unsupported("content.1")), Finished("stop", "END"), Ended())
    assert (reply.finish, reply.stop, reply.losses) == ("stop", "END", (unsupported("content.1"),))


def test_nothing_told_is_an_empty_reply_without_an_end() -> None:
    assert folded() == Reply(id="", model="")


def test_what_failed_keeps_what_was_told_before() -> None:
    reply = folded(Started("msg_1", "m"), TextDelta("Hel"), Failed(UpstreamDown("it broke")))
    assert (reply.content, reply.finish, reply.usage) == ((Text(text="Hel"),), None, None)


def test_the_reply_may_be_asked_for_at_any_time_and_again() -> None:
    fold = Fold()
    fold.add(ToolCallStarted(0, "c", "n"))
    fold.add(ToolCallArguments(0, "[1"))
    assert fold.reply() == fold.reply()
    fold.add(ToolCallArguments(0, "]"))
    assert fold.reply().tool_calls == (call("c", "n", "[1]"),)


def test_two_folds_share_nothing() -> None:
    one, other = Fold(), Fold()
    one.add(TextDelta("a"))
    one.add(Lost(unsupported("x")))
    one.add(ToolCallStarted(0, "c", "n"))
    assert other.reply() == Reply(id="", model="")
