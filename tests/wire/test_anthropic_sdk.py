"""Anthropic's SDK against a Trunkline, as its users use it."""

import asyncio
import json
from typing import Any

import anthropic
import pytest
from anthropic import Anthropic

from tests.fakes.replies import ToolCall
from tests.fakes.upstream import NEVER, Upstream
from tests.wire.gateway import PROMPT, Gateway

MODEL = "claude-sonnet"
MESSAGES: list[Any] = [{"role": "user", "content": PROMPT}]
WEATHER: list[Any] = [
    {"name": "weather", "input_schema": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}},
]
CALLS = [
    ToolCall(id="toolu_a", name="weather", arguments='{"town": "Çanakkale"}'),
    ToolCall(id="toolu_b", name="weather", arguments='{"town": "東京"}'),
]
CACHED = {"input_tokens": 2000, "cache_read_input_tokens": 80000, "cache_creation_input_tokens": 5000, "output_tokens": 1000}


def ask(**over: Any) -> Any:
    return {"model": MODEL, "max_tokens": 64, "messages": MESSAGES} | over


@pytest.mark.proves("sdk.anthropic")
async def test_a_message_comes_whole_with_its_usage_and_our_request_id(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["anthropic"].says("hello kåş 🛰", usage=CACHED)
    message = await gateway.anthropic().messages.create(**ask())
    line = await gateway.told()
    assert message.content[0].text == "hello kåş 🛰"
    assert message.stop_reason == "end_turn"
    assert message.usage.cache_read_input_tokens == 80000
    assert message._request_id == line["request_id"]
    assert line["tokens"] == {"input": 2000, "cache_read": 80000, "cache_write": 5000, "output": 1000}
    assert line["attempts"][0].startswith("anthropic/claude-sonnet ok ")


@pytest.mark.proves("sdk.anthropic")
async def test_a_stream_comes_in_pieces_while_it_is_written(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    gate = asyncio.Event()
    upstreams["anthropic"].says("one two three four five six", gate=gate, usage=CACHED)
    texts: list[str] = []
    async with gateway.anthropic().messages.stream(**ask(model="anthropic/claude-sonnet")) as stream:
        async for text in stream.text_stream:
            texts.append(text)
            gate.set()  # the last half is not written before the first has arrived
        message = await stream.get_final_message()
    assert texts == ["one", " two", " three", " four", " five", " six"]
    assert message.usage.output_tokens == 1000
    assert (await gateway.told())["tokens"] == {"input": 2000, "cache_read": 80000, "cache_write": 5000, "output": 1000}


@pytest.mark.proves("sdk.anthropic")
async def test_the_synchronous_client_works_too(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["anthropic"].says("one two", times=2)

    def talk() -> tuple[str, str]:
        with Anthropic(base_url=f"{gateway.base_url}/", api_key=gateway.key, max_retries=0, timeout=10) as client:
            whole = client.messages.create(**ask())
            with client.messages.stream(**ask()) as stream:
                return whole.content[0].text, "".join(stream.text_stream)

    assert await asyncio.to_thread(talk) == ("one two", "one two")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.proves("sdk.anthropic")
async def test_parallel_tool_calls_go_round_and_come_back_with_their_results(
    gateway: Gateway, upstreams: dict[str, Upstream], stream: bool
) -> None:
    upstreams["anthropic"].says("let me see", tool_calls=CALLS)
    upstreams["anthropic"].says("warm in both")
    client = gateway.anthropic()
    messages = list(MESSAGES)

    async def turn() -> Any:
        if not stream:
            return await client.messages.create(**ask(messages=messages, tools=WEATHER))
        async with client.messages.stream(**ask(messages=messages, tools=WEATHER)) as events:
            return await events.get_final_message()

    asked = await turn()
    calls = [block for block in asked.content if block.type == "tool_use"]
    assert asked.stop_reason == "tool_use"
    assert [(call.id, call.name, call.input) for call in calls] == [(c.id, c.name, json.loads(c.arguments)) for c in CALLS]
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": "20 °C"} for call in calls]
    messages += [{"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in asked.content]}]
    messages += [{"role": "user", "content": results}]
    assert (await turn()).content[0].text == "warm in both"
    second = upstreams["anthropic"].calls[1].json()["messages"]
    assert [block["type"] for block in second[1]["content"]] == ["text", "tool_use", "tool_use"]
    assert [block["tool_use_id"] for block in second[2]["content"]] == ["toolu_a", "toolu_b"]
    assert (await gateway.told())["tool_calls"] == 2
    assert "tool_calls" not in await gateway.told()


@pytest.mark.proves("sdk.anthropic")
async def test_tokens_are_counted_by_the_provider(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["anthropic"].answers(200, {"input_tokens": 17})
    counted = await gateway.anthropic().messages.count_tokens(model="anthropic/claude-sonnet", messages=MESSAGES)
    assert counted.input_tokens == 17
    assert upstreams["anthropic"].calls[0].path == "/v1/messages/count_tokens"
    assert upstreams["anthropic"].calls[0].json() == {"model": MODEL, "messages": MESSAGES}
    assert "tokens" not in await gateway.told(), "counting uses nothing"


@pytest.mark.proves("sdk.anthropic", "failover", "errors.native")
async def test_counting_tokens_has_the_same_failover_and_errors(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    count = gateway.anthropic().messages.count_tokens
    upstreams["anthropic"].answers(200, {"tokens": 17})
    upstreams["spare"].answers(200, {"input_tokens": 18})
    assert (await count(model="smart", messages=MESSAGES)).input_tokens == 18
    upstreams["anthropic"].answers(400, {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}})
    with pytest.raises(anthropic.BadRequestError, match="'message': 'no'"):
        await count(model="smart", messages=MESSAGES)
    assert (await count(model="echo", messages=MESSAGES)).input_tokens > 0


@pytest.mark.proves("sdk.anthropic")
async def test_beta_calls_carry_their_betas(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["anthropic"].says("one two", times=2)
    upstreams["anthropic"].answers(200, {"input_tokens": 17})
    client = gateway.anthropic().beta.messages
    betas = ["context-1m-2025-08-07", "interleaved-thinking-2025-05-14"]
    message = await client.create(**ask(betas=betas))
    async with client.stream(**ask(betas=betas)) as stream:
        text = await stream.get_final_text()
    counted = await client.count_tokens(model=MODEL, messages=MESSAGES, betas=betas)
    assert (message.content[0].text, text, counted.input_tokens) == ("one two", "one two", 17)
    for call in upstreams["anthropic"].calls:
        assert set(betas) <= set((call.header("anthropic-beta") or "").replace(" ", "").split(","))


@pytest.mark.proves("sdk.anthropic")
async def test_a_key_may_come_as_a_bearer_token_as_claude_code_sends_it(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["anthropic"].says("one two")
    client = gateway.anthropic(api_key=None, auth_token=gateway.key)
    assert (await client.messages.create(**ask())).content[0].text == "one two"
    call = upstreams["anthropic"].calls[0]
    assert call.header("x-api-key") == gateway.secrets["anthropic"]
    assert call.header("authorization") is None


@pytest.mark.proves("sdk.anthropic")
async def test_models_are_listed_and_read_by_their_names(gateway: Gateway) -> None:
    client = gateway.anthropic()
    listed = [model.id async for model in client.models.list(limit=1000)]
    assert listed == ["fast", "deep", "smart", "openai/gpt-mini", "anthropic/claude-sonnet", "echo/echo", "pro/o9"]
    model = await client.models.retrieve("anthropic/claude-sonnet")
    assert (model.type, model.display_name, model.created_at.year) == ("model", "anthropic/claude-sonnet", 1970)
    with pytest.raises(anthropic.NotFoundError, match=r"Did you mean `anthropic/claude-sonnet`"):
        await client.models.retrieve("anthropic/claude-sonet")


async def said(gateway: Gateway, *, streamed: bool, **over: Any) -> str:
    """The text of a message, whole or streamed."""
    client = gateway.anthropic()
    if not streamed:
        return (await client.messages.create(**ask(**over))).content[0].text
    async with client.messages.stream(**ask(**over)) as stream:
        return await stream.get_final_text()


# ---------------------------------------------------------------------------------------------------------- errors
async def refused(gateway: Gateway, kind: type[anthropic.APIStatusError], *, streamed: bool = False, **over: Any) -> Any:
    """The SDK's exception for a call, which carries our request id."""
    with pytest.raises(kind) as raised:
        await said(gateway, streamed=streamed, **over)
    assert type(raised.value) is kind
    line = await gateway.told()
    assert raised.value.request_id == line["request_id"]
    assert raised.value.status_code == line["status"]
    return raised.value


@pytest.mark.proves("sdk.anthropic", "errors.native")
async def test_an_unknown_model_is_not_found_and_the_nearest_is_named(gateway: Gateway) -> None:
    error = await refused(gateway, anthropic.NotFoundError, model="claude-sonet")
    assert error.type == "not_found_error"
    assert error.body["error"]["code"] == "not_found"
    assert error.body["request_id"] == error.request_id
    assert "Did you mean `claude-sonnet`?" in error.api_message


@pytest.mark.proves("sdk.anthropic", "errors.native")
async def test_a_wrong_key_is_an_authentication_error(gateway: Gateway) -> None:
    with pytest.raises(anthropic.AuthenticationError) as raised:
        await gateway.anthropic(api_key="sk-ant-wrong").messages.create(**ask())
    assert raised.value.type == "authentication_error"
    assert raised.value.request_id == (await gateway.told())["request_id"]


@pytest.mark.parametrize(
    ("over", "field"),
    [
        ({"model": ""}, "model"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": anthropic.Omit()}, "max_tokens"),
        ({"max_tokens": "9"}, "max_tokens"),
    ],
)
@pytest.mark.proves("sdk.anthropic", "errors.native")
async def test_a_body_that_cannot_be_read_is_a_bad_request_that_names_the_field(gateway: Gateway, over: dict[str, Any], field: str) -> None:
    error = await refused(gateway, anthropic.BadRequestError, **over)
    assert error.type == "invalid_request_error"
    assert error.body["error"]["code"] == "bad_request"
    assert f"`{field}`" in error.api_message


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("status", "kind"), [(400, anthropic.BadRequestError), (404, anthropic.NotFoundError), (413, anthropic.ContentTooLargeError)]
)
@pytest.mark.proves("sdk.anthropic", "errors.native")
async def test_what_the_provider_says_of_the_request_is_handed_on(
    gateway: Gateway, upstreams: dict[str, Upstream], status: int, kind: type[anthropic.APIStatusError], streamed: bool
) -> None:
    said = {"type": "error", "error": {"type": "invalid_request_error", "message": "messages.0: too long"}, "request_id": "req_vendor"}
    upstreams["anthropic"].answers(status, said)
    error = await refused(gateway, kind, model="smart", streamed=streamed)
    assert error.body == said
    assert upstreams["spare"].calls == [], "no other target can help a request that is wrong"


@pytest.mark.parametrize("status", [401, 402, 403])
@pytest.mark.proves("sdk.anthropic", "errors.native")
async def test_what_the_provider_says_of_our_credential_is_not_for_the_caller(
    gateway: Gateway, upstreams: dict[str, Upstream], status: int
) -> None:
    upstreams["anthropic"].answers(
        status, {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key of acme"}}
    )
    error = await refused(gateway, anthropic.InternalServerError)
    assert (error.status_code, error.type, error.body["error"]["code"]) == (502, "api_error", "upstream_denied")
    assert "acme" not in str(error)


@pytest.mark.proves("sdk.anthropic", "errors.native")
async def test_a_rate_limit_is_one_and_says_how_long_to_wait(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["anthropic"].answers(429, {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}, retry_after=7)
    error = await refused(gateway, anthropic.RateLimitError)
    assert error.response.headers["retry-after"] == "7"
    assert error.type == "rate_limit_error"
    assert "slow down" in error.api_message


@pytest.mark.parametrize(
    ("status", "kind", "name", "code"),
    [
        (500, anthropic.InternalServerError, "api_error", "upstream_down"),
        (503, anthropic.ServiceUnavailableError, "api_error", "upstream_busy"),
        (529, anthropic.OverloadedError, "overloaded_error", "upstream_busy"),
    ],
)
@pytest.mark.proves("sdk.anthropic", "errors.native")
async def test_a_failing_provider_is_a_server_error_with_our_code(
    gateway: Gateway, upstreams: dict[str, Upstream], status: int, kind: type[anthropic.APIStatusError], name: str, code: str
) -> None:
    upstreams["anthropic"].answers(status, {"type": "error", "error": {"type": "api_error", "message": "it broke"}}, times=None)
    error = await refused(gateway, kind)
    assert (error.type, error.body["error"]["code"]) == (name, code)
    assert "it broke" in error.api_message


@pytest.mark.proves("sdk.anthropic", "errors.native")
async def test_a_path_that_is_not_there_is_not_found_in_this_sdks_shape(gateway: Gateway) -> None:
    with pytest.raises(anthropic.NotFoundError) as raised:
        await gateway.anthropic().get("/v1/nothing/here", cast_to=object)
    assert raised.value.type == "not_found_error"
    assert raised.value.request_id


@pytest.mark.proves("sdk.anthropic", "stream.never-clean")
async def test_an_error_within_a_stream_is_raised_after_what_came_before_it(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["anthropic"].says("one two three four five six", cut="reset")
    texts: list[str] = []

    async def read() -> None:
        async with gateway.anthropic().messages.stream(**ask()) as stream:
            async for text in stream.text_stream:
                texts.append(text)  # noqa: PERF401 - what came before the error counts

    with pytest.raises(anthropic.APIStatusError) as raised:
        await read()
    assert "".join(texts).startswith("one two")
    assert raised.value.type == "api_error"
    assert raised.value.request_id == (await gateway.told())["request_id"]


@pytest.mark.proves("sdk.anthropic", "G18")
async def test_leaving_a_stream_ends_the_call_upstream(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["anthropic"].says("one two", gate=NEVER)
    async with gateway.anthropic().messages.stream(**ask()) as stream:
        await anext(aiter(stream))
    await upstreams["anthropic"].disconnected()
    assert (await gateway.told())["outcome"] == "interrupted"


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
@pytest.mark.proves("sdk.anthropic", "failover")
async def test_the_second_target_of_a_route_takes_over(gateway: Gateway, upstreams: dict[str, Upstream], streamed: bool) -> None:
    upstreams["anthropic"].answers(529, {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}})
    upstreams["spare"].says("here I am")
    assert await said(gateway, streamed=streamed, model="smart") == "here I am"
    assert upstreams["spare"].calls[0].json()["model"] == "claude-haiku"
