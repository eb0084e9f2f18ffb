"""What a caller's key says of models and end users, in the path of a call."""

import json

import pytest

from tests.fakes.scripted import Answer, Gateway, Outlet
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.errors import UpstreamDown, UpstreamGarbled
from trunkline.model.caller import Caller, EndUsers
from trunkline.providers.compatible import PROVIDER as COMPATIBLE_KIND
from trunkline.surfaces import Endpoint, FollowUp

WHOLE = b'{"choices":[{"index":0,"message":{"content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2}}'
KEPT = FollowUp("/v1/kept/", OPENAI_CHAT, {"": frozenset({"GET"})})


@pytest.fixture
def gateway() -> Gateway:
    gateway = Gateway(COMPATIBLE_KIND, Endpoint("/v1/chat/completions", "chat", OPENAI_CHAT))
    for name in "ab":
        gateway.upstream.script(f"{name}/m", *(Answer(WHOLE) for _ in range(3)))
    return gateway


def ann(gateway: Gateway, models: tuple[str, ...] | None = None, end_users: EndUsers = "key") -> None:
    gateway.door.caller = Caller(
        id="key_a", kind="service", name="ann", scopes=frozenset({"inference"}), models=models, end_users=end_users
    )


def error(outlet: Outlet) -> dict[str, str]:
    return json.loads(outlet.body)["error"]


def asks(model: str, **fields: object) -> bytes:
    return json.dumps({"model": model, "messages": [{"role": "user", "content": "hi"}], **fields}).encode()


# --------------------------------------------------------------------------------------------------------------- models
async def test_a_key_that_has_a_routes_name_has_all_of_its_targets(gateway: Gateway) -> None:
    ann(gateway, ("fast",))
    gateway.upstream.script("a/m", UpstreamDown("down"))
    assert (await gateway.carry(asks("fast"))).status == 200
    assert gateway.upstream.calls == ["a/m", "b/m"]


async def test_a_key_that_has_single_targets_has_no_others_of_a_route(gateway: Gateway) -> None:
    ann(gateway, ("a/*",))
    gateway.upstream.script("a/m", UpstreamGarbled("nonsense"))
    assert (await gateway.carry(asks("fast"))).status == 502
    assert gateway.upstream.calls == ["a/m"]
    gateway.upstream.calls.clear()
    ann(gateway, ("b/m",))
    assert (await gateway.carry(asks("fast"))).status == 200
    assert gateway.upstream.calls == ["b/m"]


async def test_a_model_that_a_key_has_not_is_refused_and_both_are_named(gateway: Gateway) -> None:
    ann(gateway, ("b/*", "other"))
    for model in ("one", "a/m", "a/anything"):
        outlet = await gateway.carry(asks(model))
        assert (outlet.status, error(outlet)["code"]) == (403, "denied")
        assert f"`{model}`" in error(outlet)["message"]
        assert "`ann`" in error(outlet)["message"]
    assert gateway.upstream.calls == []
    assert [exchange.outcome for exchange in gateway.told] == ["denied"] * 3


async def test_a_name_that_nobody_knows_tells_a_bound_key_no_other(gateway: Gateway) -> None:
    ann(gateway, ("b/*",))
    outlet = await gateway.carry(asks("fats"))
    assert outlet.status == 404
    assert "fast" not in error(outlet)["message"]
    ann(gateway)
    assert "`fast`" in error(await gateway.carry(asks("fats")))["message"]


# ------------------------------------------------------------------------------------------------------------ end users
async def test_whom_a_request_names_is_noted_and_nobodys_identity(gateway: Gateway) -> None:
    await gateway.carry(asks("one", user="u1"))
    [exchange] = gateway.told
    assert (exchange.client_user, exchange.end_user, exchange.caller.user) == ("u1", "", None)
    assert gateway.door.end_users == []


async def test_a_key_that_acts_for_end_users_takes_whom_the_request_names(gateway: Gateway) -> None:
    ann(gateway, end_users="request")
    gateway.door.known = {"u1": "usr_a"}
    assert (await gateway.carry(asks("one", user="u1"))).status == 200
    assert (await gateway.carry(asks("one", user="u2"), headers=[(b"x-trunkline-user", b"u1")])).status == 200
    for exchange in gateway.told:
        assert (exchange.end_user, exchange.client_user, exchange.caller.user, exchange.caller.id) == ("u1", "", "usr_a", "key_a")


async def test_an_end_user_whom_nobody_knows_is_refused_and_no_provider_is_asked(gateway: Gateway) -> None:
    ann(gateway, end_users="request")
    outlet = await gateway.carry(asks("one", user="u1"))
    assert (outlet.status, error(outlet)["code"]) == (403, "denied")
    outlet = await gateway.carry(asks("one", user="u\n1"))
    assert (outlet.status, error(outlet)["code"]) == (400, "bad_request")
    assert gateway.upstream.calls == []
    assert gateway.told[0].end_user == "u1", "the log has whom"


async def test_a_call_that_names_nobody_is_the_keys_own(gateway: Gateway) -> None:
    ann(gateway, end_users="request")
    assert (await gateway.carry(asks("one"))).status == 200
    assert gateway.told[0].end_user == ""
    assert gateway.door.end_users == []


async def test_a_question_about_what_is_kept_is_held_to_its_header(gateway: Gateway) -> None:
    ann(gateway, end_users="request")
    outlet = await gateway.follow(KEPT, "GET", "resp_a~1", headers=[(b"x-trunkline-user", b"u1")])
    assert outlet.status == 403
    assert gateway.upstream.calls == []
