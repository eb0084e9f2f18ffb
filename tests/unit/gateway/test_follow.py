"""Questions about what a provider keeps: they go home, and what comes is told under the ids that callers know."""

import asyncio
import json

import pytest

from tests.fakes.scripted import REQUEST_ID, Answer, Gateway, Outlet, Pause
from trunkline.dialects.openai_responses import DIALECT as OPENAI_RESPONSES
from trunkline.errors import TrunklineError, Unauthenticated, UpstreamDown, UpstreamRefused
from trunkline.gateway.pipeline import FollowUpCall
from trunkline.model.caller import Caller
from trunkline.providers.openai import PROVIDER as OPENAI_KIND
from trunkline.surfaces import Endpoint
from trunkline.surfaces.openai import SURFACE

[KEPT] = SURFACE.follow_ups
JSON = [(b"content-type", b"application/json"), (b"request-id", b"req_up"), (b"set-cookie", b"a=1")]
EVENTS = [(b"content-type", b"text/event-stream")]
RESPONSE = b'{ "id":"resp_1", "object":"response","previous_response_id":"resp_0" ,"x":1.0}'


@pytest.fixture
def gateway() -> Gateway:
    return Gateway(OPENAI_KIND, Endpoint("/v1/responses", "chat", OPENAI_RESPONSES))


def error_of(outlet: Outlet) -> dict[str, object]:
    return json.loads(outlet.body)["error"]


async def test_what_is_kept_is_told_under_our_ids_and_nothing_else_of_it_changes(gateway: Gateway) -> None:
    answer = Answer(RESPONSE, headers=JSON)
    gateway.upstream.script("a", answer)
    outlet = await gateway.follow(KEPT, "GET", "resp_a~resp_1")
    assert outlet.body == RESPONSE.replace(b'"resp_', b'"resp_a~resp_')
    assert outlet.headers == {
        b"content-type": b"application/json",
        b"x-upstream-request-id": b"req_up",
        b"x-request-id": REQUEST_ID.encode(),
        b"request-id": REQUEST_ID.encode(),
        b"content-length": str(len(outlet.body)).encode(),
    }
    assert gateway.upstream.calls == ["a GET resp_1"]
    [exchange] = gateway.told
    assert (exchange.outcome, exchange.status, exchange.sent) == ("ok", 200, len(outlet.body))
    assert answer.closed


async def test_the_stream_of_what_is_kept_comes_piece_by_piece(gateway: Gateway) -> None:
    begun = b'event: response.in_progress\ndata: {"type":"response.in_progress","response":{"id":"resp_1"}}\n\n'
    end = b'event: response.completed\ndata: {"type":"response.completed","response":{"id":"resp_1"}}\n\n'
    gateway.upstream.script("a", Answer(begun, end, headers=EVENTS))
    outlet = await gateway.follow(KEPT, "GET", "resp_a~resp_1", query="?stream=true")
    assert gateway.upstream.calls == ["a GET resp_1?stream=true"]
    assert outlet.body == (begun + end).replace(b'"id":"resp_1"', b'"id":"resp_a~resp_1"')
    assert len(outlet.parts) == 2
    assert gateway.told[0].outcome == "ok"


async def test_the_stream_of_what_is_kept_that_breaks_ends_with_an_error(gateway: Gateway) -> None:
    begun = b'event: response.in_progress\ndata: {"type":"response.in_progress","response":{"id":"resp_1"}}\n\n'
    answer = Answer(begun, UpstreamDown("cut"), headers=EVENTS)
    gateway.upstream.script("a", answer)
    outlet = await gateway.follow(KEPT, "GET", "resp_a~resp_1", query="?stream=true")
    assert outlet.ended
    assert b"response.completed" not in outlet.body
    assert gateway.told[0].outcome == "upstream_down"
    assert answer.closed


@pytest.mark.parametrize(
    "error",
    [UpstreamRefused("x", upstream_status=404, body=b'{"error":{"message":"no such response"}}'), UpstreamDown("x")],
    ids=lambda error: error.code,
)
async def test_what_the_provider_says_is_handed_on_and_no_other_is_asked(gateway: Gateway, error: TrunklineError) -> None:
    gateway.upstream.script("a", error)
    outlet = await gateway.follow(KEPT, "DELETE", "resp_a~resp_1")
    assert outlet.status == error.http_status
    if isinstance(error, UpstreamRefused):
        assert outlet.body == error.body
    assert gateway.upstream.calls == ["a DELETE resp_1"]
    assert gateway.told[0].outcome == error.code


@pytest.mark.proves("deny")
async def test_who_may_not_call_models_may_not_ask_about_their_replies(gateway: Gateway) -> None:
    gateway.door.caller = Caller(id="key_a", kind="service", name="monitor", scopes=frozenset({"metrics"}))
    assert (await gateway.follow(KEPT, "GET", "resp_a~resp_1")).status == 403
    gateway.door.refuses = Unauthenticated("no key")
    assert (await gateway.follow(KEPT, "GET", "resp_a~resp_1")).status == 401
    assert gateway.upstream.calls == []


@pytest.mark.proves("G18")
async def test_a_caller_that_leaves_ends_its_question(gateway: Gateway) -> None:
    pause = Pause()
    answer = Answer(RESPONSE[:9], pause, headers=JSON)
    gateway.upstream.script("a", answer)
    exchange = gateway.exchange()
    call = FollowUpCall(endpoint=KEPT, method="GET", told="resp_a~resp_1", action="", query="", headers=[], address="")
    asking = asyncio.get_running_loop().create_task(gateway.pipeline.follow(exchange, call, Outlet()))
    await asyncio.wait_for(pause.reached.wait(), 5)
    exchange.interrupt()
    await asyncio.wait_for(asking, 5)
    assert answer.closed
    assert gateway.told[0].outcome == "interrupted"
    assert len(gateway.exchanges) == 0


async def test_a_request_that_goes_on_from_what_is_kept_goes_home_and_nowhere_else(gateway: Gateway) -> None:
    gateway.upstream.script("b/m", Answer(b'{"id":"resp_2","object":"response","output":[],"status":"completed"}'))
    asked = {"model": "fast", "input": "so?", "previous_response_id": "resp_b~resp_1"}
    outlet = await gateway.carry(json.dumps(asked).encode())
    assert gateway.upstream.calls == ["b/m"]
    assert json.loads(gateway.upstream.bodies[0])["previous_response_id"] == "resp_1"
    assert json.loads(outlet.body)["id"] == "resp_b~resp_2"

    lost = await gateway.carry(json.dumps({**asked, "model": "one"}).encode())
    assert (lost.status, error_of(lost)["code"]) == (404, "not_found")
    assert "`b/…`" in str(error_of(lost)["message"])
    assert gateway.upstream.calls == ["b/m"]
