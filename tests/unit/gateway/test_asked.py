"""A request as each target gets it: forwarded where its dialect is the same as far as the request goes, else read and written."""

import json
from typing import Any

import pytest

from trunkline.dialects import Dialect
from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.dialects.openai_responses import DIALECT as OPENAI_RESPONSES
from trunkline.errors import BadRequest, LossRefused
from trunkline.gateway.asked import Asked
from trunkline.gateway.losses import DEFAULT, LossRule
from trunkline.gateway.router import Stop
from trunkline.gateway.stored import Stored
from trunkline.model.target import Target
from trunkline.providers import Kind, ModelSettings, Provider, Settings
from trunkline.providers.anthropic import PROVIDER as ANTHROPIC_KIND
from trunkline.providers.compatible import PROVIDER as COMPATIBLE_KIND
from trunkline.providers.openai import PROVIDER as OPENAI_KIND

TOOL = {"type": "function", "function": {"name": "files.read", "parameters": {"type": "object"}}}
HOSTED = {"type": "web_search_20250305", "name": "web_search"}


def asked(dialect: Dialect = OPENAI_CHAT, *, strict: bool = False, **fields: Any) -> Asked:
    limit = {"max_tokens": 9} if dialect == ANTHROPIC else {}
    body = {"model": "alias", **limit, "messages": [{"role": "user", "content": "hi"}], **fields}
    return Asked(dialect.read_request(json.dumps(body).encode(), "chat"), dialect, strict=strict)


def stop(kind: Kind, dialect: Dialect, *, losses: tuple[LossRule, ...] = DEFAULT, model: ModelSettings | None = None, **more: Any) -> Stop:
    settings = Settings(kind="x", models={"m": model or ModelSettings()}, **more)
    provider = Provider(name="up", kind=kind, settings=settings, base_url="http://up.test", api_key=None)
    wire = provider.wire(dialect, "chat")
    assert wire is not None
    return Stop(Target("up", "m"), provider, wire, losses)


def body_of(one: Asked, where: Stop) -> dict[str, Any]:
    return json.loads(one.written(where).body)


# ------------------------------------------------------------------------------------------------- forwarded or rewritten
@pytest.mark.proves("bytes.request")
@pytest.mark.parametrize(
    ("kind", "dialect", "fields"),
    [
        (COMPATIBLE_KIND, OPENAI_CHAT, {"max_tokens": 5, "odd": [1.0]}),
        (OPENAI_KIND, OPENAI_CHAT, {"max_completion_tokens": 5, "odd": [1.0]}),
        (OPENAI_KIND, OPENAI_CHAT, {"tools": [TOOL]}),
        (COMPATIBLE_KIND, OPENAI_CHAT, {"max_tokens": 5, "tools": [TOOL]}),
        (ANTHROPIC_KIND, ANTHROPIC, {"tools": [HOSTED], "odd": 1.0}),
    ],
)
def test_between_the_same_dialects_only_the_model_changes(kind: Kind, dialect: Dialect, fields: dict[str, Any]) -> None:
    one = asked(dialect, **fields)
    written = one.written(stop(kind, dialect))
    assert written.body == one.request.body.replace(b'"alias"', b'"m"')
    assert (written.losses, written.names.changed) == ((), False)
    assert one.passes(stop(kind, dialect), written)


@pytest.mark.proves("G13")
@pytest.mark.parametrize(
    ("kind", "given", "right"),
    [
        (OPENAI_KIND, "max_tokens", "max_completion_tokens"),
        (OPENAI_KIND, "max_completion_tokens", "max_completion_tokens"),
        (COMPATIBLE_KIND, "max_tokens", "max_tokens"),
        (COMPATIBLE_KIND, "max_completion_tokens", "max_tokens"),
    ],
)
def test_the_output_limit_arrives_under_the_name_that_the_provider_knows(kind: Kind, given: str, right: str) -> None:
    one, where = asked(**{given: 64}, odd=[1.0]), stop(kind, OPENAI_CHAT)
    body = body_of(one, where)
    assert (body["model"], body[right], body["odd"]) == ("m", 64, [1.0])
    assert {"max_tokens", "max_completion_tokens"} & body.keys() == {right}
    assert one.written(where).losses == ()
    assert one.passes(where, one.written(where))


def test_a_limit_of_null_is_no_limit_under_another_name() -> None:
    body = body_of(asked(max_tokens=None), stop(OPENAI_KIND, OPENAI_CHAT))
    assert body.get("max_completion_tokens") is None


@pytest.mark.parametrize(
    ("kind", "dialect"), [(COMPATIBLE_KIND, ANTHROPIC), (ANTHROPIC_KIND, OPENAI_CHAT), (ANTHROPIC_KIND, OPENAI_RESPONSES)]
)
def test_between_different_dialects_it_is_read_and_written(kind: Kind, dialect: Dialect) -> None:
    fields = {"input": "hi"} if dialect == OPENAI_RESPONSES else {}
    one, where = asked(dialect, **fields), stop(kind, dialect)
    written = one.written(where)
    assert where.wire.dialect.read_request(written.body, "chat").model == "m"
    assert not one.passes(where, written)


def test_it_is_read_once_for_all_targets_and_not_at_all_where_none_needs_it() -> None:
    one = asked(ANTHROPIC, messages="no list")
    one.written(stop(ANTHROPIC_KIND, ANTHROPIC))
    with pytest.raises(BadRequest, match="`messages`"):
        one.written(stop(COMPATIBLE_KIND, ANTHROPIC))
    good = asked(ANTHROPIC)
    assert good.chat is good.chat


@pytest.mark.parametrize("stream_usage", [True, False])
def test_the_usage_of_a_stream_is_asked_for_where_the_provider_takes_that(stream_usage: bool) -> None:
    where = stop(COMPATIBLE_KIND, ANTHROPIC, stream_usage=stream_usage)
    body = body_of(asked(ANTHROPIC, stream=True), where)
    assert body.get("stream_options") == ({"include_usage": True} if stream_usage else None)


@pytest.mark.parametrize(
    ("options", "stream_usage", "right", "hidden"),
    [
        (None, True, {"include_usage": True}, True),
        (None, False, None, False),
        ({"include_usage": False, "odd": 1}, True, {"include_usage": True, "odd": 1}, True),
        ({"include_usage": True, "odd": 1}, True, {"include_usage": True, "odd": 1}, False),
        ({"include_usage": True, "odd": 1}, False, {"include_usage": True, "odd": 1}, False),
        ({"odd": 1}, False, {"odd": 1}, False),
    ],
)
def test_a_relative_gets_the_stream_options_as_a_forwarded_call_would(
    options: dict[str, Any] | None, stream_usage: bool, right: dict[str, Any] | None, hidden: bool
) -> None:
    given = {} if options is None else {"stream_options": options}
    written = asked(max_tokens=5, stream=True, **given).written(stop(OPENAI_KIND, OPENAI_CHAT, stream_usage=stream_usage))
    assert (json.loads(written.body).get("stream_options"), written.usage_added) == (right, hidden)


# --------------------------------------------------------------------------------------------------------------- traits
@pytest.mark.proves("G13")
@pytest.mark.parametrize(("kind", "dialect"), [(COMPATIBLE_KIND, OPENAI_CHAT), (ANTHROPIC_KIND, ANTHROPIC), (ANTHROPIC_KIND, OPENAI_CHAT)])
def test_a_parameter_that_a_model_refuses_is_left_out_and_told_or_refused_in_strict(kind: Kind, dialect: Dialect) -> None:
    where = stop(kind, dialect, model=ModelSettings(forbidden=["temperature"]))
    written = asked(dialect, temperature=0.2, top_p=0.9).written(where)
    body = json.loads(written.body)
    assert "temperature" not in body
    assert body["top_p"] == 0.9
    assert [(loss.path, loss.change, loss.severity) for loss in written.losses if loss.path != "max_tokens"] == [
        ("temperature", "dropped", "material")
    ]
    with pytest.raises(LossRefused, match="`temperature` is dropped"):
        asked(dialect, temperature=0.2, strict=True).written(where)


@pytest.mark.parametrize("name", ["temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty", "seed"])
def test_every_parameter_that_can_be_forbidden_is_left_out(name: str) -> None:
    where = stop(COMPATIBLE_KIND, OPENAI_CHAT, model=ModelSettings(forbidden=[name]))
    written = asked(**{name: 1}).written(where)
    assert name not in json.loads(written.body)
    assert [loss.path for loss in written.losses] == [name]


def test_a_trait_that_a_request_does_not_touch_changes_no_byte() -> None:
    where = stop(COMPATIBLE_KIND, OPENAI_CHAT, model=ModelSettings(forbidden=["temperature"], tool_name_limit=16, thinking="none"))
    one = asked(top_p=0.9)
    assert one.written(where).body == one.request.body.replace(b'"alias"', b'"m"')


@pytest.mark.proves("G8")
def test_a_name_that_is_too_long_for_a_model_of_the_same_dialect_is_shortened_and_the_reply_does_not_pass_as_it_is() -> None:
    where = stop(COMPATIBLE_KIND, OPENAI_CHAT, model=ModelSettings(tool_name_limit=16))
    one = asked(tools=[{"type": "function", "function": {"name": "read_the_whole_file"}}])
    written = one.written(where)
    [tool] = json.loads(written.body)["tools"]
    assert len(tool["function"]["name"]) == 16
    assert written.names.original(tool["function"]["name"]) == "read_the_whole_file"
    assert not one.passes(where, written)


def test_a_model_that_does_not_think_is_not_told_to() -> None:
    where = stop(COMPATIBLE_KIND, OPENAI_CHAT, model=ModelSettings(thinking="none"))
    written = asked(reasoning_effort="high").written(where)
    assert "reasoning_effort" not in json.loads(written.body)
    assert [loss.path for loss in written.losses] == ["reasoning_effort"]


def test_a_models_own_output_limit_is_set_where_the_format_requires_one() -> None:
    assert body_of(asked(), stop(ANTHROPIC_KIND, OPENAI_CHAT, model=ModelSettings(max_output=777)))["max_tokens"] == 777


# --------------------------------------------------------------------------------------------------------------- losses
@pytest.mark.proves("losses.rules")
def test_a_loss_that_nobody_allowed_is_refused() -> None:
    one = asked(ANTHROPIC, tools=[HOSTED])
    with pytest.raises(LossRefused, match=r"`tools\.0` is unsupported"):
        one.written(stop(COMPATIBLE_KIND, ANTHROPIC))
    allowing = (LossRule(action="allow", path="tools.*"), *DEFAULT)
    assert [loss.path for loss in one.written(stop(COMPATIBLE_KIND, ANTHROPIC, losses=allowing)).losses] == ["tools.0"]


@pytest.mark.proves("losses.rules")
def test_a_caller_that_is_strict_is_not_overruled_by_a_route() -> None:
    allowing = (LossRule(action="allow"), *DEFAULT)
    with pytest.raises(LossRefused):
        asked(ANTHROPIC, tools=[HOSTED], strict=True).written(stop(COMPATIBLE_KIND, ANTHROPIC, losses=allowing))


def test_strict_minds_nothing_where_nothing_is_lost() -> None:
    assert asked(strict=True).written(stop(COMPATIBLE_KIND, OPENAI_CHAT)).losses == ()
    assert asked(ANTHROPIC, strict=True).written(stop(COMPATIBLE_KIND, ANTHROPIC)).losses == ()


# ---------------------------------------------------------------------------------------------------------- what is kept
def responses(**fields: Any) -> Asked:
    body = {"model": "alias", "input": "hi", **fields}
    return Asked(OPENAI_RESPONSES.read_request(json.dumps(body).encode(), "chat"), OPENAI_RESPONSES)


def test_a_request_that_goes_on_from_what_is_kept_has_a_home_and_the_id_that_is_known_there() -> None:
    one = responses(previous_response_id="resp_up~resp_1", odd=1.0)
    assert one.home == Stored("up", "resp_1")
    body = json.loads(one.request.body)
    assert (body["previous_response_id"], body["odd"]) == ("resp_1", 1.0)


@pytest.mark.parametrize("given", [None, 7, "", "resp_1", "resp_up~"])
def test_an_id_that_we_did_not_tell_leads_nowhere_and_stays(given: object) -> None:
    one = responses(previous_response_id=given)
    assert one.home is None
    assert json.loads(one.request.body)["previous_response_id"] == given


def test_what_is_kept_is_told_under_our_ids_and_nothing_else_is() -> None:
    same, translated = stop(OPENAI_KIND, OPENAI_RESPONSES), stop(COMPATIBLE_KIND, OPENAI_RESPONSES)
    tell = responses().tells(same)
    assert tell is not None
    assert tell("resp_1") == "resp_up~resp_1"
    assert responses(store=False).tells(same) is None
    assert responses().tells(translated) is None
    assert asked().tells(stop(COMPATIBLE_KIND, OPENAI_CHAT)) is None


@pytest.mark.parametrize("dialect", [OPENAI_CHAT, ANTHROPIC])
def test_a_format_that_keeps_nothing_has_no_field_for_it(dialect: Dialect) -> None:
    one = asked(dialect, **{"": "resp_up~resp_1", "previous_response_id": "resp_up~resp_1"})
    assert one.home is None
    assert json.loads(one.request.body)[""] == "resp_up~resp_1"
