"""OpenAI's SDK against a Trunkline, as its users use it."""

import asyncio
import json
from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.fakes.replies import ToolCall
from tests.fakes.upstream import NEVER, Upstream
from tests.wire.gateway import PROMPT, Gateway

MESSAGES: list[Any] = [{"role": "user", "content": PROMPT}]
WEATHER: list[Any] = [
    {
        "type": "function",
        "function": {"name": "weather", "parameters": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}},
    }
]
CALLS = [
    ToolCall(id="call_a", name="weather", arguments='{"town": "Çanakkale"}'),
    ToolCall(id="call_b", name="weather", arguments='{"town": "東京"}'),
]


@pytest.mark.proves("sdk.openai")
async def test_a_reply_comes_whole_with_its_usage_and_our_request_id(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["openai"].says("hello kåş 🛰")
    completion = await gateway.openai().chat.completions.create(model="gpt-mini", messages=MESSAGES)
    line = await gateway.told()
    assert completion.choices[0].message.content == "hello kåş 🛰"
    assert completion.choices[0].finish_reason == "stop"
    assert completion.usage is not None
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (12, 3)
    assert completion._request_id == line["request_id"]
    assert line["tokens"] == {"input": 12, "output": 3}
    assert line["attempts"][0].startswith("openai/gpt-mini ok ")


@pytest.mark.proves("sdk.openai")
async def test_a_stream_comes_in_pieces_while_it_is_written(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    gate = asyncio.Event()
    upstreams["openai"].says("one two three four", gate=gate)
    stream = await gateway.openai().chat.completions.create(model="openai/gpt-mini", messages=MESSAGES, stream=True)
    texts: list[str] = []
    async for chunk in stream:
        assert chunk.usage is None, "the caller did not ask for it"
        texts += [choice.delta.content for choice in chunk.choices if choice.delta.content]
        gate.set()  # the last half is not written before the first has arrived
    assert texts == ["one", " two", " three", " four"]
    assert (await gateway.told())["tokens"] == {"input": 12, "output": 4}


@pytest.mark.proves("sdk.openai")
async def test_the_usage_of_a_stream_comes_where_it_is_asked_for(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["openai"].says("one two")
    stream = await gateway.openai().chat.completions.create(
        model="gpt-mini", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert [chunk.usage is not None for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 2


@pytest.mark.proves("sdk.openai")
async def test_the_synchronous_client_works_too(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["openai"].says("one two", times=2)

    def ask() -> tuple[str | None, str]:
        with OpenAI(base_url=f"{gateway.base_url}/v1/", api_key=gateway.key, max_retries=0, timeout=10) as client:
            whole = client.chat.completions.create(model="gpt-mini", messages=MESSAGES)
            stream = client.chat.completions.create(model="gpt-mini", messages=MESSAGES, stream=True)
            return whole.choices[0].message.content, "".join(chunk.choices[0].delta.content or "" for chunk in stream)

    assert await asyncio.to_thread(ask) == ("one two", "one two")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.proves("sdk.openai")
async def test_parallel_tool_calls_go_round_and_come_back_with_their_results(
    gateway: Gateway, upstreams: dict[str, Upstream], stream: bool
) -> None:
    upstreams["openai"].says(tool_calls=CALLS)
    upstreams["openai"].says("warm in both")
    client = gateway.openai()
    messages = list(MESSAGES)

    async def turn() -> Any:
        if not stream:
            completion = await client.chat.completions.create(model="gpt-mini", messages=messages, tools=WEATHER)
        else:
            async with client.chat.completions.stream(model="gpt-mini", messages=messages, tools=WEATHER) as events:
                async for _ in events:
                    pass
                completion = await events.get_final_completion()
        return completion.choices[0]

    asked = await turn()
    calls = asked.message.tool_calls
    assert asked.finish_reason == "tool_calls"
    assert [(call.id, call.function.name, call.function.arguments) for call in calls] == [(c.id, c.name, c.arguments) for c in CALLS]
    messages.append(asked.message.model_dump(include={"role", "content", "tool_calls"}))
    messages += [{"role": "tool", "tool_call_id": call.id, "content": json.dumps({"celsius": 20})} for call in calls]
    assert (await turn()).message.content == "warm in both"
    second = upstreams["openai"].calls[1].json()["messages"]
    assert [message["role"] for message in second] == ["user", "assistant", "tool", "tool"]
    assert second[1]["tool_calls"][1]["function"]["arguments"] == CALLS[1].arguments
    assert (await gateway.told())["tool_calls"] == 2
    assert "tool_calls" not in await gateway.told()


@pytest.mark.proves("sdk.openai")
async def test_models_are_listed_and_read_by_their_names(gateway: Gateway) -> None:
    client = gateway.openai()
    listed = [model.id async for model in client.models.list()]
    assert listed == ["fast", "deep", "smart", "openai/gpt-mini", "anthropic/claude-sonnet", "echo/echo", "pro/o9"]
    assert (await client.models.retrieve("fast")).owned_by == "trunkline"
    assert (await client.models.retrieve("openai/gpt-mini")).owned_by == "openai"
    with pytest.raises(openai.NotFoundError, match=r"Did you mean `openai/gpt-mini`"):
        await client.models.retrieve("openai/gpt-mni")


# ---------------------------------------------------------------------------------------------------------- errors
async def refused(gateway: Gateway, kind: type[openai.APIStatusError], **over: Any) -> Any:
    """The SDK's exception for a call, which carries our request id."""
    with pytest.raises(kind) as raised:
        await gateway.openai().chat.completions.create(**{"model": "gpt-mini", "messages": MESSAGES, **over})
    assert type(raised.value) is kind
    line = await gateway.told()
    assert raised.value.request_id == line["request_id"]
    assert raised.value.status_code == line["status"]
    return raised.value


@pytest.mark.proves("sdk.openai", "errors.native")
async def test_an_unknown_model_is_not_found_and_the_nearest_is_named(gateway: Gateway) -> None:
    error = await refused(gateway, openai.NotFoundError, model="gpt-mni")
    assert error.code == "not_found"
    assert error.type == "not_found_error"
    assert "Did you mean `gpt-mini`?" in error.message


@pytest.mark.proves("sdk.openai", "errors.native")
async def test_a_wrong_key_is_an_authentication_error(gateway: Gateway) -> None:
    with pytest.raises(openai.AuthenticationError) as raised:
        await gateway.openai(api_key="sk-wrong").chat.completions.create(model="gpt-mini", messages=MESSAGES)
    assert raised.value.code == "unauthenticated"
    assert raised.value.request_id == (await gateway.told())["request_id"]


@pytest.mark.parametrize(
    ("over", "field"),
    [({"model": ""}, "model"), ({"stream": "yes"}, "stream"), ({"max_tokens": -1}, "max_tokens"), ({"extra_body": {"model": 5}}, "model")],
)
@pytest.mark.proves("sdk.openai", "errors.native")
async def test_a_body_that_cannot_be_read_is_a_bad_request_that_names_the_field(gateway: Gateway, over: dict[str, Any], field: str) -> None:
    error = await refused(gateway, openai.BadRequestError, **over)
    assert error.code == "bad_request"
    assert f"`{field}`" in error.message


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("status", "kind"), [(400, openai.BadRequestError), (404, openai.NotFoundError), (422, openai.UnprocessableEntityError)]
)
@pytest.mark.proves("sdk.openai", "errors.native")
async def test_what_the_provider_says_of_the_request_is_handed_on(
    gateway: Gateway, upstreams: dict[str, Upstream], status: int, kind: type[openai.APIStatusError], stream: bool
) -> None:
    said = {"message": "messages[0]: too long", "type": "invalid_request_error", "param": "messages[0]", "code": "context_length_exceeded"}
    upstreams["openai"].answers(status, {"error": said})
    error = await refused(gateway, kind, model="fast", stream=stream)
    assert error.body == said
    assert (error.code, error.param) == ("context_length_exceeded", "messages[0]")
    assert upstreams["home"].calls == [], "no other target can help a request that is wrong"


@pytest.mark.parametrize("status", [401, 402, 403])
@pytest.mark.proves("sdk.openai", "errors.native")
async def test_what_the_provider_says_of_our_credential_is_not_for_the_caller(
    gateway: Gateway, upstreams: dict[str, Upstream], status: int
) -> None:
    upstreams["openai"].answers(status, {"error": {"message": "Incorrect API key provided: acme corp", "code": "invalid_api_key"}})
    error = await refused(gateway, openai.InternalServerError)
    assert (error.status_code, error.code) == (502, "upstream_denied")
    assert "acme" not in str(error)
    assert "invalid_api_key" not in str(error.body)


@pytest.mark.proves("sdk.openai", "errors.native")
async def test_a_rate_limit_is_one_and_says_how_long_to_wait(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["openai"].answers(429, {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}, retry_after=7)
    error = await refused(gateway, openai.RateLimitError)
    assert error.response.headers["retry-after"] == "7"
    assert error.code == "upstream_busy"
    assert "slow down" in error.message


@pytest.mark.parametrize(
    ("status", "told", "code"),
    [(500, 502, "upstream_down"), (502, 502, "upstream_down"), (503, 503, "upstream_busy"), (529, 529, "upstream_busy")],
)
@pytest.mark.proves("sdk.openai", "errors.native")
async def test_a_failing_provider_is_a_server_error_with_our_code(
    gateway: Gateway, upstreams: dict[str, Upstream], status: int, told: int, code: str
) -> None:
    upstreams["openai"].answers(status, {"error": {"message": "it broke"}}, times=None)
    error = await refused(gateway, openai.InternalServerError)
    assert (error.status_code, error.code, error.type) == (told, code, "server_error")
    assert "it broke" in error.message


@pytest.mark.proves("sdk.openai", "errors.native")
async def test_a_path_that_is_not_there_is_not_found_in_this_sdks_shape(gateway: Gateway) -> None:
    with pytest.raises(openai.NotFoundError) as raised:
        await gateway.openai().get("/nothing/here", cast_to=object)
    assert raised.value.code == "not_found"
    assert raised.value.request_id


@pytest.mark.proves("sdk.openai", "stream.never-clean")
async def test_an_error_within_a_stream_is_raised_after_what_came_before_it(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["openai"].says("one two three four", cut="reset")
    stream = await gateway.openai().chat.completions.create(model="gpt-mini", messages=MESSAGES, stream=True)
    texts: list[str] = []

    async def read() -> None:
        async for chunk in stream:
            texts.append(chunk.choices[0].delta.content or "")  # noqa: PERF401 - what came before the error counts

    with pytest.raises(openai.APIError) as raised:
        await read()
    assert "".join(texts).startswith("one two")
    assert raised.value.code == "upstream_down"


# ---------------------------------------------------------------------------------------------------- cancellation
@pytest.mark.proves("sdk.openai", "G18")
async def test_closing_a_stream_ends_the_call_upstream(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["openai"].says("one two", gate=NEVER)
    async with await gateway.openai().chat.completions.create(model="gpt-mini", messages=MESSAGES, stream=True) as stream:
        await anext(aiter(stream))
    await upstreams["openai"].disconnected()
    assert (await gateway.told())["outcome"] == "interrupted"


@pytest.mark.proves("sdk.openai", "G18")
async def test_cancelling_a_call_ends_it_upstream(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["openai"].hangs()
    async with asyncio.TaskGroup() as group:
        call = group.create_task(gateway.openai().chat.completions.create(model="gpt-mini", messages=MESSAGES))
        await upstreams["openai"].called()
        call.cancel()
    await upstreams["openai"].disconnected()
    assert (await gateway.told())["outcome"] == "interrupted"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.proves("sdk.openai", "failover")
async def test_the_second_target_of_a_route_takes_over(gateway: Gateway, upstreams: dict[str, Upstream], stream: bool) -> None:
    upstreams["openai"].answers(500, {"error": {"message": "it broke"}})
    upstreams["home"].says("here I am")
    client = gateway.openai()
    if stream:
        chunks = await client.chat.completions.create(model="fast", messages=MESSAGES, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in chunks])
    else:
        text = (await client.chat.completions.create(model="fast", messages=MESSAGES)).choices[0].message.content or ""
    assert text == "here I am"
    assert upstreams["home"].calls[0].json()["model"] == "org/qwen3"
    assert [attempt.rpartition(" ")[0] for attempt in (await gateway.told())["attempts"]] == [
        "openai/gpt-mini upstream_down",
        "home/org/qwen3 ok",
    ]
