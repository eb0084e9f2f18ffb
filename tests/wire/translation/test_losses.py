"""What a translation could not carry: told in a header, in the log and in a metric, refused by rule, and a reason to try the next target."""

import json
import re
from typing import Any

import pytest

from tests.fakes import replies
from tests.fakes.replies import Reply
from tests.fakes.upstream import Upstream
from tests.wire.gateway import PROMPT, Gateway
from tests.wire.sides import CHAT, MESSAGES, RESPONSES, Side
from tests.wire.translation.callers import told
from tests.wire.translation.sides import ALL, ask

USER: dict[str, Any] = {"role": "user", "content": PROMPT}
FILE = {"type": "file", "file": {"file_id": "file-abc"}}
every_side = pytest.mark.parametrize("side", ALL, ids=[f"from {side}" for side in ALL])
STRICT = [("x-trunkline-strict", "1")]


def with_a_file(text: str = PROMPT) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "text", "text": text}, FILE]}]


# --------------------------------------------------------------------------------------------------------------- the header
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.proves("losses.told")
async def test_losses_are_told_in_the_header_the_log_and_a_metric(gateway: Gateway, upstreams: dict[str, Upstream], stream: bool) -> None:
    upstreams["anthropic"].says("hi")
    got = await ask(
        gateway,
        CHAT,
        model="anthropic/claude-sonnet",
        stream=stream,
        seed=7,
        temperature=1.5,
        metadata={"a": "b"},
        response_format={"type": "json_object"},
    )
    assert [(loss["path"], loss["class"], loss["severity"]) for loss in told(got.headers)] == [
        ("metadata", "dropped", "advisory"),
        ("response_format", "dropped", "material"),
        ("seed", "dropped", "material"),
        ("temperature", "approximated", "material"),
    ]
    line = await gateway.told()
    assert line["losses"] == [
        "metadata advisory dropped", "response_format material dropped", "seed material dropped", "temperature material approximated",
    ]  # fmt: skip
    metrics = (await gateway.get("/metrics", [("authorization", f"Bearer {gateway.metrics_key}")])).body.decode()
    assert re.search(r'trunkline_losses_total\{class="dropped",severity="material"\} 2\.0', metrics)
    assert re.search(r'trunkline_losses_total\{class="approximated",severity="material"\} 1\.0', metrics)


@pytest.mark.proves("losses.told")
async def test_nothing_is_told_where_nothing_is_lost(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["anthropic"].says("hi")
    got = await ask(gateway, CHAT, model="anthropic/claude-sonnet", max_tokens=64)
    assert "x-losses" not in got.headers
    assert "losses" not in await gateway.told()


@pytest.mark.proves("losses.told")
async def test_a_header_of_many_losses_stays_one_that_clients_take(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["anthropic"].says("hi")
    many = [{"role": role, "content": "x", "name": f"speaker{number}"} for number, role in enumerate(["user", "assistant"] * 150)]
    got = await ask(gateway, CHAT, model="anthropic/claude-sonnet", messages=[*many, USER])
    losses = told(got.headers)
    assert losses[0]["path"] == "**", "how many more there are"
    assert len(losses) > 20
    assert len((await gateway.told())["losses"]) == 300


# ------------------------------------------------------------------------------------------------------- what is refused
@every_side
@pytest.mark.proves("losses.rules", "errors.native")
async def test_content_that_cannot_be_carried_is_refused_with_its_place(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side
) -> None:
    asked: dict[str, Any]
    match side.dialect:
        case "openai_chat":
            asked, model, at = {"messages": with_a_file()}, "anthropic/claude-sonnet", "messages.0.content.1"
        case "openai_responses":
            asked = {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file-abc"}]}]}
            model, at = "home/m", "input.0.content.0"
        case _:
            block = {"type": "document", "source": {"type": "file", "file_id": "file_abc"}}
            asked, model, at = {"messages": [{"role": "user", "content": [block]}]}, "pro/o9", "messages.0.content.0"
    got = await ask(gateway, side, model=model, **asked)
    _, code, message = side.error(got.json())
    assert (got.status, code) == (422, "loss_refused")
    assert f"`{at}` is unsupported" in message
    assert got.headers["x-trunkline-attempts"] == f"{model} loss_refused"
    line = await gateway.told()
    assert (line["outcome"], line["status"]) == ("loss_refused", 422)
    assert sum(len(upstream.calls) for upstream in upstreams.values()) == 0


@every_side
@pytest.mark.proves("losses.rules")
async def test_a_strict_caller_is_refused_every_material_loss_and_no_advisory_one(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side
) -> None:
    model = "home/m" if side is not CHAT else "anthropic/claude-sonnet"
    upstream = upstreams[model.partition("/")[0]]
    upstream.says("hi", times=None)
    material = {CHAT: {"seed": 7}, RESPONSES: {"max_tool_calls": 2}, MESSAGES: {"top_k": 5}}[side]
    advisory = {
        CHAT: {"metadata": {"a": "b"}},
        RESPONSES: {"store": False},
        MESSAGES: {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    }[side]
    refused = await ask(gateway, side, model=model, headers=STRICT, **material)
    assert (refused.status, side.error(refused.json())[1]) == (422, "loss_refused")
    assert upstream.calls == []
    limit = {"max_tokens": 2048} if side is not RESPONSES else {}
    assert (await ask(gateway, side, model=model, **limit, **material)).status == 200
    allowed = await ask(gateway, side, model=model, headers=STRICT, **limit, **advisory)
    assert allowed.status == 200
    assert [loss["severity"] for loss in told(allowed.headers)] == ["advisory"]


# --------------------------------------------------------------------------------------------------------------- routes
TARGETS = [{"model": "anthropic/claude-sonnet"}, {"model": "home/m", "order": 1}]


@pytest.mark.parametrize(("headers", "over"), [([], {"messages": with_a_file()}), (STRICT, {"seed": 7})], ids=["a file", "strict"])
@pytest.mark.config(routes={"mixed": {"targets": TARGETS}})
@pytest.mark.proves("losses.rules", "failover")
async def test_a_target_that_speaks_the_callers_format_takes_over_from_one_that_would_lose_something(
    gateway: Gateway, upstreams: dict[str, Upstream], headers: list[tuple[str, str]], over: dict[str, Any]
) -> None:
    upstreams["home"].says("here I am", times=2)
    for _ in range(2):  # a refused loss says nothing about the target's health
        got = await ask(gateway, CHAT, model="mixed", headers=headers, **over)
        assert got.status == 200
        assert got.headers["x-trunkline-attempts"] == "anthropic/claude-sonnet loss_refused, home/m ok"
        assert "x-losses" not in got.headers
        assert [attempt.rsplit(" ", 1)[0] for attempt in (await gateway.told())["attempts"]] == [
            "anthropic/claude-sonnet loss_refused", "home/m ok",
        ]  # fmt: skip


@pytest.mark.config(
    routes={
        "lenient": {
            "targets": TARGETS[:1],
            "losses": [{"path": "messages.*.content.**", "class": "unsupported", "action": "allow"}],
        },
        "severe": {"targets": TARGETS[:1], "losses": [{"path": "seed", "action": "reject"}, {"severity": "advisory", "action": "reject"}]},
    }
)
@pytest.mark.proves("losses.rules")
async def test_a_route_says_which_losses_may_be(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["anthropic"].says("hi", times=None)
    got = await ask(gateway, CHAT, model="lenient", messages=with_a_file())
    assert got.status == 200
    assert [(loss["path"], loss["class"]) for loss in told(got.headers)] == [("messages.0.content.1", "unsupported")]
    assert upstreams["anthropic"].calls[0].json()["messages"] == [{"role": "user", "content": [{"type": "text", "text": PROMPT}]}]
    strict = await ask(gateway, CHAT, model="lenient", messages=with_a_file(), headers=STRICT)
    assert strict.status == 422, "the caller's own wish comes first"
    for over, status in (({"seed": 7}, 422), ({"metadata": {"a": "b"}}, 422), ({"frequency_penalty": 0.1}, 200)):
        assert (await ask(gateway, CHAT, model="severe", **over)).status == status


# --------------------------------------------------------------------------------------------- what a reply loses
def cited(*, stream: bool) -> Any:
    """A reply of Messages whose text cites a document: no other format has a word for that."""
    citation = {
        "type": "char_location",
        "cited_text": "x",
        "document_index": 0,
        "document_title": "t",
        "start_char_index": 0,
        "end_char_index": 1,
    }
    if not stream:
        whole = replies.whole("anthropic", Reply("hi there"))
        whole["content"][0]["citations"] = [citation]
        return whole
    events = [*replies.events("anthropic", Reply("hi there"))]
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": citation}}
    at = next(number for number, event in enumerate(events) if b"content_block_stop" in event)
    return [*events[:at], replies.named(delta), *events[at:]]


@pytest.mark.parametrize("asks", [True, False], ids=["asked", "not asked"])
@pytest.mark.parametrize("side", [CHAT, RESPONSES], ids=str)
@pytest.mark.proves("losses.told", "stream.grammar")
async def test_what_a_streams_reply_loses_is_a_comment_before_its_end_for_who_asks(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, asks: bool
) -> None:
    upstreams["anthropic"].streams(cited(stream=True))
    headers = [("x-trunkline-losses", "stream")] if asks else []
    got = await ask(gateway, side, model="anthropic/claude-sonnet", stream=True, headers=headers, **LIMIT[side])
    assert side.said(got.body) == "hi there"
    comments = [line for line in got.body.split(b"\n") if line.startswith(b": trunkline.losses ")]
    if asks:
        (comment,) = comments
        assert json.loads(comment.removeprefix(b": trunkline.losses ")) == [
            {"path": "content.0.citations", "class": "unsupported", "severity": "material", "detail": ""}
        ]
        end = b"data: [DONE]" if side is CHAT else b"event: response.completed"
        assert got.body.index(comment) < got.body.index(end)
    else:
        assert comments == []
    assert (await gateway.told())["losses"] == ["content.0.citations material unsupported"]


LIMIT: dict[Side, dict[str, Any]] = {CHAT: {"max_tokens": 64}, RESPONSES: {"max_output_tokens": 64}}


@pytest.mark.proves("losses.told")
async def test_what_a_whole_reply_loses_is_in_the_log(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["anthropic"].answers(200, cited(stream=False))
    got = await ask(gateway, CHAT, model="anthropic/claude-sonnet", max_tokens=64)
    assert got.json()["choices"][0]["message"]["content"] == "hi there"
    assert (await gateway.told())["losses"] == ["content.0.citations material unsupported"]


# ------------------------------------------------------------------------------------------------------------ attempts
@every_side
@pytest.mark.proves("failover")
async def test_the_attempts_are_told_with_the_answer_and_with_the_error(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side
) -> None:
    upstreams["openai"].answers(500, {"error": {"message": "it broke"}})
    upstreams["anthropic"].says("here I am")
    got = await ask(gateway, side, model="either")
    assert got.headers["x-trunkline-attempts"] == "pro/o9 upstream_down, anthropic/claude-sonnet ok"
    upstreams["openai"].answers(500, {"error": {"message": "it broke"}})
    upstreams["anthropic"].answers(529, {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}})
    got = await ask(gateway, side, model="either", stream=True)
    assert got.status == 529
    assert got.headers["x-trunkline-attempts"] == "pro/o9 upstream_down, anthropic/claude-sonnet upstream_busy"
