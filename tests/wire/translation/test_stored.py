"""Responses that a provider keeps: their ids lead home, whatever is asked of them."""

import asyncio
import json
from typing import Any

import openai
import pytest

from tests.fakes import replies
from tests.fakes.replies import Reply
from tests.fakes.upstream import Upstream
from tests.wire.gateway import PROMPT, Gateway
from tests.wire.sides import RESPONSES
from tests.wire.translation.sides import ask

KEPT = replies.whole("openai_responses", Reply("hi"))
TOLD = "resp_pro~resp_fake"
pytestmark = pytest.mark.proves("stored")


async def test_the_id_of_a_whole_response_says_whose_it_is(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["openai"].says("hi")
    response = await gateway.openai().responses.create(model="pro/o9", input=PROMPT)
    assert response.id == TOLD
    assert response.output_text == "hi"


async def test_all_of_a_whole_response_but_its_id_stays_as_it_came(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["openai"].answers(200, b' {"object" : "response", "id": "resp_fake" ,"output":[], "status":"completed","n": 1.50}')
    got = await ask(gateway, RESPONSES)
    assert got.body == b' {"object" : "response", "id": "resp_pro~resp_fake" ,"output":[], "status":"completed","n": 1.50}'


async def test_every_event_of_a_stream_has_the_same_id(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["openai"].says("one two")
    got = await ask(gateway, RESPONSES, stream=True)
    told = RESPONSES.grammar(got.body)
    assert {event["response"]["id"] for event in told if "response" in event} == {TOLD}
    upstreams["openai"].says("one two")
    async with gateway.openai().responses.stream(model="pro/o9", input=PROMPT) as events:
        response = await events.get_final_response()
    assert (response.id, response.output_text) == (TOLD, "one two")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_what_is_not_to_be_kept_stays_as_it_came(gateway: Gateway, upstreams: dict[str, Upstream], stream: bool) -> None:
    sent = [*replies.events("openai_responses", Reply("one two", model="o9"))]
    upstreams["openai"].says("one two")
    got = await ask(gateway, RESPONSES, stream=stream, store=False)
    if stream:
        assert got.body == b"".join(sent)
    else:
        assert got.json()["id"] == "resp_fake"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_response_is_gone_on_from_at_its_own_provider_under_its_own_id(
    gateway: Gateway, upstreams: dict[str, Upstream], stream: bool
) -> None:
    upstreams["openai"].says("hi")
    got = await ask(gateway, RESPONSES, model="either", previous_response_id=TOLD, stream=stream)
    assert got.status == 200
    assert upstreams["openai"].calls[0].json()["previous_response_id"] == "resp_fake"
    assert upstreams["anthropic"].calls == []


async def test_what_a_response_went_on_from_is_told_under_the_id_that_the_caller_knows(
    gateway: Gateway, upstreams: dict[str, Upstream]
) -> None:
    upstreams["openai"].answers(200, KEPT | {"id": "resp_2", "previous_response_id": "resp_fake"})
    got = await ask(gateway, RESPONSES, previous_response_id=TOLD)
    assert (got.json()["id"], got.json()["previous_response_id"]) == ("resp_pro~resp_2", TOLD)


@pytest.mark.parametrize("model", ["anthropic/claude-sonnet", "home/m", "openai/gpt-mini"])
async def test_another_providers_model_cannot_go_on_from_a_response_and_is_refused_with_a_hint(
    gateway: Gateway, upstreams: dict[str, Upstream], model: str
) -> None:
    got = await ask(gateway, RESPONSES, model=model, previous_response_id=TOLD)
    kind, code, message = RESPONSES.error(got.json())
    assert (got.status, kind, code) == (404, "not_found_error", "not_found")
    assert "kept by `pro`" in message
    assert "`pro/…`" in message
    assert all(upstream.calls == [] for upstream in upstreams.values())


@pytest.mark.parametrize("model", ["anthropic/claude-sonnet", "home/m"])
async def test_a_providers_own_id_that_did_not_come_from_here_cannot_be_gone_on_from_elsewhere(gateway: Gateway, model: str) -> None:
    got = await ask(gateway, RESPONSES, model=model, previous_response_id="resp_fake")
    assert (got.status, RESPONSES.error(got.json())[1]) == (400, "bad_request")
    assert "`previous_response_id` names what another provider keeps" in RESPONSES.error(got.json())[2]


# ------------------------------------------------------------------------------------------------------------ follow-ups
async def test_a_stored_response_is_read_cancelled_listed_and_deleted_at_home(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstream = upstreams["openai"]
    items = {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}
    for answer in (KEPT, KEPT | {"status": "cancelled"}, items, {"id": "resp_fake", "object": "response", "deleted": True}):
        upstream.answers(200, answer)
    client = gateway.openai().responses
    assert (await client.retrieve(TOLD, include=["reasoning.encrypted_content"])).id == TOLD
    assert (await client.cancel(TOLD)).status == "cancelled"
    assert (await client.input_items.list(TOLD, limit=2)).data == []
    await client.delete(TOLD)
    assert [(call.method, call.path) for call in upstream.calls] == [
        ("GET", "/v1/responses/resp_fake?include%5B%5D=reasoning.encrypted_content"),
        ("POST", "/v1/responses/resp_fake/cancel"),
        ("GET", "/v1/responses/resp_fake/input_items?limit=2"),
        ("DELETE", "/v1/responses/resp_fake"),
    ]
    lines = [await gateway.told() for _ in range(4)]
    assert [line["outcome"] for line in lines] == ["ok"] * 4


async def test_what_is_read_or_deleted_is_told_under_the_id_that_the_caller_knows(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["openai"].answers(200, KEPT)
    upstreams["openai"].answers(200, {"id": "resp_fake", "object": "response", "deleted": True})
    assert (await gateway.get(f"/v1/responses/{TOLD}")).json() == KEPT | {"id": TOLD}
    deleted = await gateway.open("DELETE", f"/v1/responses/{TOLD}")
    assert json.loads(await deleted.read()) == {"id": TOLD, "object": "response", "deleted": True}


UNKNOWN = ["resp_fake", "resp_pro~", "resp_~resp_fake", "resp_nobody~resp_fake", "resp_anthropic~resp_fake", "pro~resp_fake", "resp_home~x"]


@pytest.mark.parametrize("told", UNKNOWN)
async def test_an_id_that_leads_nowhere_is_not_found_in_this_sdks_shape(
    gateway: Gateway, upstreams: dict[str, Upstream], told: str
) -> None:
    with pytest.raises(openai.NotFoundError) as raised:
        await gateway.openai().responses.retrieve(told)
    assert (raised.value.code, raised.value.type) == ("not_found", "not_found_error")
    assert raised.value.request_id == (await gateway.told())["request_id"]
    assert all(upstream.calls == [] for upstream in upstreams.values())


async def test_what_the_provider_says_of_an_id_is_handed_on(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    said = {"message": "Response with id 'resp_fake' not found.", "type": "invalid_request_error", "param": "id", "code": None}
    upstreams["openai"].answers(404, {"error": said})
    with pytest.raises(openai.NotFoundError) as raised:
        await gateway.openai().responses.retrieve(TOLD)
    assert raised.value.body == said
    assert (await gateway.told())["outcome"] == "upstream_refused"


async def test_only_what_can_be_done_with_a_response_is_done(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    wrong = await gateway.post(f"/v1/responses/{TOLD}", {})
    assert (wrong.status, wrong.headers["allow"]) == (405, "DELETE, GET")
    unknown = await gateway.get(f"/v1/responses/{TOLD}/output")
    assert (unknown.status, RESPONSES.error(unknown.json())[1]) == (404, "not_found")
    stranger = await gateway.get(f"/v1/responses/{TOLD}", [("authorization", "Bearer swb_wrong")])
    assert stranger.status == 401
    assert upstreams["openai"].calls == []


async def test_a_stored_response_can_be_watched(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    """A background response is watched by `GET …?stream=true`."""

    upstreams["openai"].streams([*replies.events("openai_responses", Reply("one two"))])
    got = await gateway.get(f"/v1/responses/{TOLD}?stream=true")
    assert got.headers["content-type"].startswith("text/event-stream")
    told: list[Any] = RESPONSES.grammar(got.body)
    assert {event["response"]["id"] for event in told if "response" in event} == {TOLD}
    assert (await gateway.told())["outcome"] == "ok"


async def test_a_stored_response_is_watched_while_it_is_written(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    gate = asyncio.Event()
    events = [*replies.events("openai_responses", Reply("one two"))]
    upstreams["openai"].streams([*events[:3], gate, *events[3:]])
    response = await gateway.open("GET", f"/v1/responses/{TOLD}?stream=true&starting_after=0")
    begun = b""
    while not begun.endswith(events[2]):
        begun += await anext(response.body)
    gate.set()
    assert (await response.read()).startswith(b"".join(events[3:-1]))
    assert upstreams["openai"].calls[0].path == "/v1/responses/resp_fake?stream=true&starting_after=0"


@pytest.mark.proves("stream.never-clean")
async def test_a_stored_response_whose_stream_breaks_ends_with_an_error(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["openai"].streams([*replies.events("openai_responses", Reply("one two"))][:-1])
    got = await gateway.get(f"/v1/responses/{TOLD}?stream=true")
    assert RESPONSES.failure(got.body)[1] == "upstream_down"
    assert (await gateway.told())["outcome"] == "upstream_down"


@pytest.mark.parametrize("form", ["whole", "error event", "failed event"])
@pytest.mark.proves("G19")
async def test_a_key_that_stands_in_a_stored_response_is_taken_out(gateway: Gateway, upstreams: dict[str, Upstream], form: str) -> None:
    error = {"code": "server_error", "message": f"no route to {gateway.secrets['openai']}, see there"}
    failed = KEPT | {"status": "failed", "error": error}
    begun = [*replies.events("openai_responses", Reply("hi"))][:2]
    match form:
        case "whole":
            upstreams["openai"].answers(200, failed)
        case "error event":
            upstreams["openai"].streams([*begun, {"type": "error", "sequence_number": 98, **error, "error": error}])
        case _:
            upstreams["openai"].streams([replies.named({"type": "response.failed", "sequence_number": 98, "response": failed})])
    got = await gateway.get(f"/v1/responses/{TOLD}")
    assert got.status == 200
    assert b"no route to" in got.body
    assert gateway.secrets["openai"].encode() not in got.body


# ------------------------------------------------------------------------------------------------------ what is not kept
async def test_a_translated_response_is_kept_nowhere_and_says_so(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["anthropic"].says("hi")
    response = await gateway.openai().responses.create(model="anthropic/claude-sonnet", input=PROMPT)
    assert response.store is False
    assert "~" not in response.id
    with pytest.raises(openai.NotFoundError, match="only providers that speak this format themselves keep replies"):
        await gateway.openai().responses.retrieve(response.id)


async def test_a_foreign_call_is_not_kept_at_a_provider_of_responses(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["openai"].says("hi")
    message = await gateway.anthropic().messages.create(model="pro/o9", max_tokens=64, messages=[{"role": "user", "content": PROMPT}])
    assert "~" not in message.id
    assert upstreams["openai"].calls[0].json()["store"] is False
