import json
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trunkline.base import codec
from trunkline.base.codec import (
    Decoder,
    Malformed,
    Meta,
    Raw,
    Record,
    Wire,
    decode,
    decode_halves,
    decode_raw,
    encode,
    field,
    nearest,
    parse,
    pretty,
    schema,
    text,
    whole_pairs,
)
from trunkline.base.secret import Secret
from trunkline.errors import BadRequest, ConfigInvalid

CANARY = "sk-canary-0123456789"


class Target(Record, frozen=True):
    model: Annotated[str, Meta(pattern="^[^/]+/.+", description="`provider/model`.")]
    weight: Annotated[int, Meta(ge=1)] = 1


class Route(Record, frozen=True):
    targets: Annotated[list[Target], Meta(min_length=1)]
    fallback: Target | None = None


class Settings(Record, frozen=True):
    """All of it."""

    port: int = 8484
    level: Literal["info", "debug"] = "info"
    level_of: Annotated[dict[str, Literal["info", "debug"] | None], Meta(description="By module.")] = {}
    api_key: Annotated[Annotated[str, Meta(pattern="^(env|file):.+")] | None, Meta(description="`env:NAME` or `file:PATH`.")] = None
    routes: Annotated[dict[str, Route], Meta(description="Names of your own.")] = {}
    log_format: str = field(name="log-format", default="auto")
    nets: list[list[int]] = []


def refusal(value: object, *, at: str = "") -> ConfigInvalid:
    with pytest.raises(ConfigInvalid) as error:
        parse(value, Settings, at=at)
    return error.value


def test_a_tree_of_plain_values_becomes_a_record() -> None:
    tree = {"port": 1, "log-format": "json", "routes": {"fast": {"targets": [{"model": "a/b"}], "fallback": {"model": "c/d", "weight": 2}}}}
    settings = parse(tree, Settings)
    assert settings == Settings(
        port=1, log_format="json", routes={"fast": Route(targets=[Target(model="a/b")], fallback=Target(model="c/d", weight=2))}
    )
    assert parse({}, Settings) == Settings()


@pytest.mark.parametrize(
    ("tree", "place", "close"),
    [
        ({"prot": 1}, "`prot`", "port"),
        ({"log_format": "x"}, "`log_format`", "log-format"),
        ({"routes": {"fast": {"target": []}}}, "`routes.fast.target`", "targets"),
        ({"routes": {"fast": {"targets": [{"model": "a/b"}, {"model": "a/b", "wieght": 1}]}}}, "`routes.fast.targets[1].wieght`", "weight"),
        ({"routes": {"fast": {"targets": [], "fallback": {"modl": "a/b"}}}}, "`routes.fast.fallback.modl`", "model"),
    ],
)
def test_an_unknown_key_is_named_with_its_place_and_the_nearest_known_one(tree: object, place: str, close: str) -> None:
    error = refusal(tree)
    assert error.message == f"{place} is not a setting"
    assert error.hint == f"Did you mean `{close}`?"


def test_an_unknown_key_that_resembles_nothing_is_told_what_is_known() -> None:
    assert refusal({"routes": {"fast": {"zzz": 1}}}).hint == "Known here: fallback, targets."


@pytest.mark.parametrize(
    ("tree", "place"),
    [
        ({"port": "x"}, "`port`"),
        ({"port": True}, "`port`"),
        ({"level": "loud"}, "`level`"),
        ({"nets": [[1], [2, "x"]]}, "`nets[1][1]`"),
        ({"routes": []}, "`routes`"),
        ({"routes": {"fast": 7}}, "`routes.fast`"),
        ({"routes": {"fast": {}}}, "`routes.fast`"),
        ({"routes": {"fast": {"targets": []}}}, "`routes.fast.targets`"),
        ({"routes": {"fast": {"targets": {"model": "a/b"}}}}, "`routes.fast.targets`"),
        ({"routes": {"fast": {"targets": [{"model": "a/b"}, {"model": "ab"}]}}}, "`routes.fast.targets[1].model`"),
        (
            {"routes": {"ok": {"targets": [{"model": "a/b"}]}, "a.b": {"targets": [{"model": "a/b", "weight": 0}]}}},
            "`routes.a.b.targets[0].weight`",
        ),
        (7, "`the top`"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(tree: object, place: str) -> None:
    assert refusal(tree).message.startswith(f"{place}: ")


@pytest.mark.parametrize(
    ("tree", "hint"),
    [
        ({"api_key": CANARY}, "`env:NAME` or `file:PATH`."),
        ({"level": "loud"}, "One of `debug`, `info`."),
        ({"level_of": {"store": "loud"}}, "One of `debug`, `info`."),
        ({"level_of": 7}, "By module."),
        ({"routes": {"fast": 7}}, ""),
        ({"routes": {"fast": {"targets": [{"model": "a/b"}, {"model": "ab"}]}}}, "`provider/model`."),
        ({"routes": {"fast": {"targets": [{"model": "a/b"}], "fallback": {"model": "ab"}}}}, "`provider/model`."),
        ({"routes": {"fast": {"targets": [{}]}}}, "`provider/model`."),
        ({"nets": [["x"]]}, ""),
    ],
)
def test_a_wrong_value_is_told_with_what_is_right_there(tree: object, hint: str) -> None:
    assert refusal(tree).hint == hint


def test_what_is_missing_is_named_where_it_should_stand() -> None:
    assert refusal({"routes": {"fast": {}}}).message == "`routes.fast`: `targets` is missing"
    with pytest.raises(ConfigInvalid, match=r"^`model` is missing$"):
        parse({}, Target)


def test_the_place_begins_where_the_tree_stands() -> None:
    assert refusal({"prot": 1}, at="providers.x").message.startswith("`providers.x.prot` ")
    assert refusal({"port": "x"}, at="providers.x").message.startswith("`providers.x.port`: ")
    assert refusal({"routes": {"fast": 7}}, at="providers.x").message.startswith("`providers.x.routes.fast`: ")
    assert refusal(7, at="providers.x").message.startswith("`providers.x`: ")


@pytest.mark.proves("G19")
@pytest.mark.parametrize(
    "tree",
    [
        {"api_key": CANARY},
        {"api_key": [CANARY]},
        {"api_key": {"env": CANARY}},
        {"port": CANARY},
        {"routes": {"fast": {"targets": [{"model": CANARY}]}}},
        {"routes": CANARY},
        {"unknown": CANARY},
    ],
)
def test_a_secret_that_stands_where_it_should_not_is_not_repeated(tree: object) -> None:
    assert CANARY not in refusal(tree).sentence


@given(st.text(max_size=12))
def test_the_nearest_name_is_a_known_one_or_none(name: str) -> None:
    assert nearest(name, ["openai", "anthropic"]) in {"", "openai", "anthropic"}


def test_the_nearest_name_is_the_one_that_resembles_most() -> None:
    assert nearest("opnai", ["anthropic", "openai", "open"]) == "openai"
    assert nearest("zzzz", ["anthropic", "openai"]) == ""
    assert nearest("x", []) == ""


def test_what_programs_send_may_have_more_than_we_know() -> None:
    class Part(Wire, frozen=True):
        a: int = 0

    assert decode(b'{"a": 1, "b": [2]}', Part) == Part(a=1)
    assert encode(Part()) == b"{}"


@pytest.mark.parametrize(
    "data", [b"", b"{", b'{"a": "x"}', b"[]", b'{"a": 1} x', b"\xff", b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"]
)
def test_what_cannot_be_read_is_a_bad_request(data: bytes) -> None:
    class Part(Wire, frozen=True):
        a: int = 0

    with pytest.raises(BadRequest, match=r"^the JSON cannot be read: "):
        decode(data, Part)
    with pytest.raises(Malformed):
        decode_raw(data, Part)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_what_is_encoded_is_json_that_others_read(value: Any) -> None:
    assert json.loads(encode(value)) == value
    assert json.loads(text(value)) == value
    assert json.loads(pretty(value)) == value
    assert "\n" not in text(value)
    assert encode(Raw(b'{"a":  1}')) == b'{"a":  1}'


def test_the_schema_judges_as_parse_does_and_keeps_the_descriptions() -> None:
    whole = schema(Settings)
    good = {"port": 1, "routes": {"fast": {"targets": [{"model": "a/b"}]}}}
    jsonschema.Draft202012Validator.check_schema(whole)
    jsonschema.validate(good, whole)
    for bad in ({"prot": 1}, {"port": "x"}, {"api_key": CANARY}, {"routes": {"fast": {"targets": []}}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(bad, whole)
    assert whole["$defs"]["Settings"]["description"] == "All of it."
    assert whole["$defs"]["Settings"]["properties"]["routes"]["description"] == "Names of your own."
    assert whole["$defs"]["Target"]["properties"]["model"]["description"] == "`provider/model`."


@given(st.text(st.one_of(st.characters(), st.sampled_from("\\u/d8\ud83d\udef0\ud800\udfff")), max_size=12))
@example("\ud83d")
@example("\udef0\ud83d\\ud83d \ud83d\ud83d\udef0")
def test_halves_of_characters_read_as_unknown_ones_and_all_else_as_it_is(said: str) -> None:
    whole = said.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert decode_halves(Decoder(str).decode, json.dumps(said).encode()) == whole


def test_a_text_of_halves_alone_costs_no_time_and_stays_malformed() -> None:
    halves = rb"\ud83d" * 1000
    assert whole_pairs(halves) == rb"\ufffd" * 1000
    assert whole_pairs(b"".join([halves, b"\\n" * 9, halves, halves])).count(rb"\ud83d") >= 1000
    with pytest.raises(Malformed):
        decode_halves(Decoder(str).decode, b'"%b"' % (halves * 3))


def test_what_is_no_json_at_all_stays_malformed() -> None:
    for data in (b'"\\ud83d', b'"\\ud8"', b'{"a": \\ud83d}'):
        with pytest.raises(Malformed):
            decode_halves(Decoder(str).decode, data)


# --------------------------------------------------------------------------------------------------------------- take
class Inner(codec.Record, frozen=True):
    secret: Secret
    note: str = ""


class Outer(codec.Record, frozen=True):
    number: Annotated[int, codec.Meta(ge=1)] = 1
    inner: Inner | None = None
    many: list[Inner] = []
    named: dict[str, Annotated[int, codec.Meta(le=9)]] = {}
    hidden: dict[str, Secret] = {}
    kept: Annotated[str, codec.Meta(min_length=2)] | codec.UnsetType | None = codec.UNSET


def test_what_a_caller_sends_is_a_record() -> None:
    taken = codec.take({"number": 2, "many": [{"secret": "abc"}], "kept": None}, Outer)
    assert (taken.number, taken.many[0].secret.reveal(), taken.kept, taken.inner) == (2, "abc", None, None)
    assert codec.take({}, Outer).kept is codec.UNSET
    assert codec.take({"number": "3"}, Outer, lax=True).number == 3
    assert "abc" not in repr(taken)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"number": 0}, "`number` is `0`: Expected `int` >= 1"),
        ({"number": "x" * 100}, f'`number` is `"{"x" * 59}…`: Expected `int`, got `str`'),
        ({"number": None}, "`number` is `null`: Expected `int`, got `null`"),
        ({"numbr": 0}, "`numbr` is not a field"),
        ({"inner": {"note": "x"}}, "`inner`: `secret` is missing"),
        ({"inner": {"secret": "x", "note": 1}}, "`inner.note` is `1`: Expected `str`, got `int`"),
        ({"many": [{"secret": "x"}, {"secret": "y", "nte": 1}]}, "`many[1].nte` is not a field"),
        ({"named": {"a": 1, "b": 10}}, "`named.b` is `10`: Expected `int` <= 9"),
        ({"kept": "a"}, '`kept` is `"a"`: Expected `str` of length >= 2'),
        ([], "`the top`: Expected `object`, got `array`"),
    ],
    ids=repr,
)
def test_what_is_wrong_is_told_with_its_value(value: object, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        codec.take(value, Outer)
    assert caught.value.message == message


@given(
    st.recursive(
        st.just("canary") | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=4
    )
)
def test_a_wrong_secret_is_never_told(wrong: object) -> None:
    if isinstance(wrong, str):
        return
    for value in ({"inner": {"secret": wrong}}, {"many": [{"secret": wrong}]}, {"many": [{"secret": "canary", "note": 7}]}):
        with pytest.raises(BadRequest) as caught:
            codec.take(value, Outer)
        assert "canary" not in caught.value.message
        with pytest.raises(BadRequest) as caught:
            codec.take({"hidden": {"a": wrong}}, Outer)
        assert "canary" not in caught.value.message
    for long in ("", "canary" * 20_000):
        with pytest.raises(BadRequest) as caught:
            codec.take({"inner": {"secret": long}}, Outer)
        assert "canary" not in caught.value.message


def test_a_secret_is_write_only_in_a_schema() -> None:
    [_], named = codec.schemas([Outer], "#/x/{name}")
    assert named["Inner"]["properties"]["secret"]["writeOnly"] is True
