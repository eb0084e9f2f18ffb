"""What a provider's record says that its streams get wrong is mended; what it does not say is an error."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.fakes import replies
from tests.fakes.upstream import Upstream
from tests.wire.gateway import PROMPT, Gateway
from tests.wire.sides import CHAT, MESSAGES
from trunkline.app import config as configuration
from trunkline.providers import anthropic, compatible

EMOJI = "🛰 kåş"


@pytest.fixture
def config(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Two providers whose records name what they get wrong."""
    known = configuration.kinds()
    faulty = {
        "startless": replace(anthropic.PROVIDER, repairs=frozenset({"message_start"})),
        "roleless": replace(compatible.PROVIDER, repairs=frozenset({"first_role"})),
    }
    monkeypatch.setattr(configuration, "kinds", lambda: known | faulty)
    config["providers"]["spare"]["kind"] = "startless"
    config["providers"]["home"]["kind"] = "roleless"
    return config


def startless(**over: Any) -> list[bytes]:
    """The events of a Messages stream after its start."""
    return [*replies.events("anthropic", replies.Reply(EMOJI, **over))][1:]


@pytest.mark.proves("G21", "stream.grammar")
async def test_a_missing_start_is_mended_where_the_record_says_so(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["spare"].streams(startless())
    got = await gateway.ask(MESSAGES, model="spare/smollm2", stream=True)
    events = MESSAGES.grammar(got.body)
    assert [event["type"] for event in events].count("message_start") == 1
    assert events[0]["message"]["model"] == "spare/smollm2"
    assert got.body.endswith(b"".join(startless())), "the rest is as it came"
    assert MESSAGES.said(got.body) == EMOJI
    assert (await gateway.told())["tokens"] == {"input": 12, "output": 2}


@pytest.mark.proves("G21", "sdk.anthropic")
async def test_a_mended_stream_is_read_by_the_sdk(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["spare"].streams(startless(tool_calls=[replies.ToolCall(name="f", arguments='{"x": 1}')]))
    messages: list[Any] = [{"role": "user", "content": PROMPT}]
    async with gateway.anthropic().messages.stream(model="spare/smollm2", max_tokens=64, messages=messages) as stream:
        message = await stream.get_final_message()
    assert (message.content[0].text, message.content[1].input) == (EMOJI, {"x": 1})
    assert message.stop_reason == "tool_use"


@pytest.mark.proves("G21")
async def test_a_start_without_usage_is_mended_where_the_record_says_so(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    start, *rest = replies.events("anthropic", replies.Reply(EMOJI))
    message = json.loads(start.split(b"data: ")[1])
    del message["message"]["usage"]
    upstreams["spare"].streams([message, *rest])
    got = await gateway.ask(MESSAGES, model="spare/smollm2", stream=True)
    events = MESSAGES.grammar(got.body)
    assert (events[0]["message"]["id"], events[0]["message"]["model"]) == (message["message"]["id"], message["message"]["model"])
    assert got.body.endswith(b"".join(rest))


@pytest.mark.proves("G21")
async def test_a_stream_that_needs_no_mending_is_left_as_it_is(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    whole = b"".join(replies.events("anthropic", replies.Reply(EMOJI)))
    upstreams["spare"].streams([whole])
    assert (await gateway.ask(MESSAGES, model="spare/smollm2", stream=True)).body == whole
    whole = b"".join(replies.events("openai_chat", replies.Reply(EMOJI)))
    upstreams["home"].streams([whole])
    assert (await gateway.ask(CHAT, model="home/smollm2", stream=True)).body == whole


@pytest.mark.proves("G21", "failover")
async def test_a_missing_start_is_an_error_where_the_record_says_nothing(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["anthropic"].streams(startless(), times=None)
    got = await gateway.ask(MESSAGES, stream=True)
    kind, code, message = MESSAGES.error(got.json())
    assert (got.status, kind, code) == (502, "api_error", "upstream_garbled")
    assert "`message_start`" in message
    upstreams["spare"].streams(startless())
    assert MESSAGES.said((await gateway.ask(MESSAGES, model="smart", stream=True)).body) == EMOJI


@pytest.mark.proves("G21", "stream.grammar")
async def test_a_first_chunk_without_a_role_is_mended_where_the_record_says_so(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    _, *rest = replies.events("openai_chat", replies.Reply(EMOJI))
    upstreams["home"].streams(rest)
    got = await gateway.ask(CHAT, model="home/smollm2", stream=True)
    chunks = CHAT.grammar(got.body)
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert got.body.endswith(b"".join(rest)), "the rest is as it came"
    assert CHAT.said(got.body) == EMOJI
