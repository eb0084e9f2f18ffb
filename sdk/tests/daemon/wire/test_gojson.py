"""Go's JSON habits: what a Go peer writes reads here, and what we write it would have written."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline_sdk.daemon.gojson import read_time, write_time
from trunkline_sdk.daemon.messages import (
    Authorization,
    Caller,
    Capabilities,
    ErrorDetail,
    ErrorResponse,
    Flow,
    Freshness,
    InfoResponse,
    Inputs,
    Limits,
    Loss,
    ModelInfo,
    ModelsResponse,
    OAuthExchangeRequest,
    OAuthPollResponse,
    OAuthStartRequest,
    OAuthStartResponse,
    Operations,
    PollResult,
    Progress,
    Provenance,
    ProviderInfo,
    Record,
    RefreshRequest,
    RefreshResponse,
    Secrets,
    Surfaces,
    Unreadable,
    decode,
    encode,
)

EMPTY_RECORD = (
    b'{"Revision":"","AccessToken":"","RefreshToken":"","IDToken":"","TokenType":"",'
    b'"Expiry":"0001-01-01T00:00:00Z","AccountID":"","Metadata":null}'
)

texts = st.text(st.characters(codec="utf-8"), max_size=8)
maps = st.dictionaries(texts, texts, max_size=3)
zones = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.none() | st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=zones)  # noqa: DTZ001 - hypothesis adds zones
spans = st.timedeltas(timedelta(days=-1000), timedelta(days=1000))
supports = st.sampled_from(["unknown", "supported", "unsupported"])
counts = st.none() | st.integers(-(2**63), 2**63 - 1)
names = st.tuples() | st.lists(texts, max_size=3).map(tuple)


def all_of(kind: type, strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(kind, **dict.fromkeys(kind.__struct_fields__, strategy))


records = st.builds(Record, access_token=texts, refresh_token=texts, id_token=texts, token_type=texts, expiry=moments, metadata=maps)
secrets = st.builds(Secrets, verifier=texts, state=texts, device_code=texts, redirect_uri=texts, driver_data=maps, params=maps)
authorizations = st.builds(Authorization, authorization_url=texts, user_code=texts, interval=spans, expires_in=spans, secrets=secrets)
flows = st.builds(
    Flow,
    id=texts,
    caller=st.builds(Caller, id=texts, kind=texts, project_id=texts),
    created_at=moments,
    progress=st.builds(Progress, interval=spans, next_poll_at=moments, outcome=texts),
    secrets=secrets,
)
capabilities = st.builds(
    Capabilities,
    schema_version=st.just(1),
    operations=all_of(Operations, supports),
    surfaces=all_of(Surfaces, supports),
    inputs=all_of(Inputs, supports),
    tools=supports,
    limits=all_of(Limits, counts),
    provenance=all_of(Provenance, texts),
    freshness=all_of(Freshness, moments),
)
rows = st.builds(
    ModelInfo,
    id=texts,
    created=st.integers(-(2**63), 2**63 - 1),
    tags=names,
    free=st.booleans(),
    supported_apis=names,
    capabilities=st.none() | capabilities,
    legacy_capabilities=st.dictionaries(texts, st.booleans() | texts | st.integers(-(2**53), 2**53) | st.none(), max_size=3),
)
everything = st.one_of(
    records,
    authorizations,
    flows,
    rows,
    st.builds(ModelsResponse, models=st.lists(rows, max_size=2).map(tuple)),
    st.builds(InfoResponse, version=texts, providers=st.lists(st.builds(ProviderInfo, id=texts, surfaces=names), max_size=2).map(tuple)),
    st.builds(RefreshRequest, record=records),
    st.builds(RefreshResponse, record=records, terminal=st.booleans(), error=texts),
    st.builds(OAuthStartRequest, method=texts, redirect_uri=texts, params=maps),
    st.builds(OAuthStartResponse, authorization=authorizations, error=texts),
    st.builds(OAuthPollResponse, result=st.builds(PollResult, status=texts, record=records)),
    st.builds(OAuthExchangeRequest, code=texts, flow=flows),
    st.builds(ErrorResponse, error=st.builds(ErrorDetail, message=texts, code=st.integers(0, 599), retryable=st.none() | st.booleans())),
    all_of(Loss, texts),
)


def keys_of(tree: Any, respell: Any) -> Any:
    """The tree with every key of a record respelt; keys of maps are data, and these records' maps are empty."""
    if isinstance(tree, dict):
        return {respell(key): keys_of(item, respell) for key, item in tree.items()}
    return [keys_of(item, respell) for item in tree] if isinstance(tree, list) else tree


@given(everything)
def test_what_is_written_is_read_back(record: Any) -> None:
    assert decode(type(record), encode(record)) == record


@given(everything)
def test_what_is_written_is_one_line_of_ascii_safe_html(record: Any) -> None:
    data = encode(record)
    assert not set(b"<>&\n") & set(data)
    assert json.loads(data) is not None


@given(flows, st.sampled_from([str.lower, str.upper, str.swapcase, str.title]))
def test_keys_match_in_any_case(flow: Flow, respell: Any) -> None:
    bare = Flow(id=flow.id, created_at=flow.created_at, progress=flow.progress, secrets=Secrets(verifier=flow.secrets.verifier))
    assert decode(Flow, json.dumps(keys_of(json.loads(encode(bare)), respell)).encode()) == bare


@given(st.binary(max_size=60))
def test_any_bytes_are_a_record_or_unreadable(data: bytes) -> None:
    try:
        read: object = decode(Flow, data)
    except Unreadable as fault:
        read = fault.partial
    assert isinstance(read, Flow)


def test_an_empty_record_is_what_a_go_peer_writes() -> None:
    assert encode(Record()) == EMPTY_RECORD
    assert decode(Record, EMPTY_RECORD) == Record()


@pytest.mark.parametrize("data", [b"null", b"{}", b' {"record":null} ', b'{"unknown":[1,{"a":2}]}'])
def test_null_and_missing_and_unknown_are_nothing(data: bytes) -> None:
    assert decode(RefreshResponse, data) == RefreshResponse()


@pytest.mark.parametrize("data", [b"", b"{", b"{} x", b"{}{}", b"not json", b"{'a':1}", b"\xef\xbb\xbf{}", b"[1,]"])
def test_what_is_no_json_is_unreadable(data: bytes) -> None:
    with pytest.raises(Unreadable) as fault:
        decode(RefreshResponse, data)
    assert fault.value.partial == RefreshResponse()


def test_of_a_repeated_key_the_last_counts() -> None:
    assert decode(RefreshResponse, b'{"error":"a","Error":"b","error":"c"}').error in {"b", "c"}
    assert decode(RefreshResponse, b'{"error":"a","ERROR":"b"}').error == "b"


def test_a_wrong_type_costs_its_field_alone_and_the_rest_is_read() -> None:
    with pytest.raises(Unreadable, match="`error` must be a string") as fault:
        decode(RefreshResponse, b'{"error":{"message":"canary"},"terminal":true,"record":{"AccessToken":"a"}}')
    assert fault.value.partial == RefreshResponse(terminal=True, record=Record(access_token="a"))
    assert "canary" not in str(fault.value)


def test_a_bad_time_ends_the_reading_there() -> None:
    with pytest.raises(Unreadable, match=r"`record\.Expiry` must be a time") as fault:
        decode(RefreshResponse, b'{"error":"x","record":{"AccessToken":"a","Expiry":"","AccountID":"b"},"terminal":true}')
    assert fault.value.partial == RefreshResponse(error="x", record=Record(access_token="a"))


@pytest.mark.parametrize("bad", [b"true", b"null", b'""', b'"yes"', b"1", b"{}"])
def test_a_support_value_is_one_of_three(bad: bytes) -> None:
    """I.11"""
    with pytest.raises(Unreadable):
        decode(ModelsResponse, b'{"models":[{"id":"m","capabilities":{"tools":' + bad + b"}}]}")


@pytest.mark.parametrize("bad", [b"5e9", b"5000000000.0", b'"5s"', b"true", b"1e3", b"9223372036854775808"])
def test_a_duration_is_an_integer_literal(bad: bytes) -> None:
    with pytest.raises(Unreadable):
        decode(Authorization, b'{"Interval":' + bad + b"}")


def test_durations_are_nanoseconds() -> None:
    """I.14"""
    assert b'"Interval":5000000000,' in encode(Authorization(interval=timedelta(seconds=5)))
    assert decode(Authorization, b'{"Interval":1500000001}').interval == timedelta(seconds=1.5)


TIMES = {
    "0001-01-01T00:00:00Z": None,
    "0001-01-01T01:00:00+01:00": None,
    "0000-12-31T23:00:00-01:00": None,
    "0001-01-01T00:00:00+23:59": datetime(1, 1, 1, microsecond=1, tzinfo=UTC),
    "0000-01-01T00:00:00Z": datetime(1, 1, 1, microsecond=1, tzinfo=UTC),
    "0001-01-01T00:00:00.000000001Z": datetime(1, 1, 1, microsecond=1, tzinfo=UTC),
    "0001-01-02T00:00:00Z": datetime(1, 1, 2, tzinfo=UTC),
    "2026-01-02T03:04:05Z": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    "2026-01-02T03:04:05.123456789Z": datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC),
    "2026-01-02T03:04:05.5+02:00": datetime(2026, 1, 2, 1, 4, 5, 500000, tzinfo=UTC),
    "9999-12-31T23:59:59-23:59": datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(-timedelta(hours=23, minutes=59))),
}


@pytest.mark.parametrize("text", TIMES)
def test_times_are_rfc_3339_with_year_1_for_unset(text: str) -> None:
    assert read_time(text) == TIMES[text]


@pytest.mark.parametrize(
    "text",
    ["", "0", "2026-01-02", "2026-01-02 03:04:05Z", "2026-01-02t03:04:05z", "2026-02-30T00:00:00Z", "2026-01-02T03:04:60Z",
     "2026-01-02T24:00:00Z", "2026-01-02T03:04:05", "2026-01-02T03:04:05,5Z", "2026-01-02T03:04:05+0100", "2026-01-02T03:04:05+24:00"],
)  # fmt: skip
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_time(text)


@pytest.mark.parametrize("bad", [b"1767225600", b'""', b"{}", b"false"])
def test_a_time_that_is_no_string_is_refused(bad: bytes) -> None:
    with pytest.raises(Unreadable):
        decode(Record, b'{"Expiry":' + bad + b"}")


@given(moments)
def test_a_time_comes_back_with_its_zone(moment: datetime | None) -> None:
    text = write_time(moment)
    assert read_time(text) == moment
    if moment is not None:
        assert "." not in text or not text.rstrip("Z").endswith("0") or text[-6] in "+-"


def test_a_time_without_a_zone_is_not_written() -> None:
    with pytest.raises(ValueError, match="zone"):
        encode(Record(expiry=datetime(2026, 1, 1)))  # noqa: DTZ001


def test_what_is_no_unicode_reads_as_replaced_and_is_not_written() -> None:
    assert decode(Record, b'{"AccessToken":"a\xffb"}').access_token == "a\ufffdb"
    assert decode(Record, rb'{"AccessToken":"a\ud800b\u00e4\ud83d\ude00"}').access_token == "a\ufffdbä😀"
    with pytest.raises(ValueError, match="JSON"):
        encode(Record(access_token="\ud800"))


def test_empty_objects_are_omitted_where_go_omits_them() -> None:
    assert encode(RefreshResponse()) == b"{}"
    assert encode(RefreshResponse(terminal=True, error="no")) == b'{"terminal":true,"error":"no"}'
    assert encode(OAuthStartResponse(error="method is not supported")) == b'{"error":"method is not supported"}'
    assert encode(ModelInfo(id="m", object="model")) == b'{"id":"m","object":"model","created":0,"owned_by":""}'


CANARY = "canary-7f3a"


@pytest.mark.parametrize(
    "record",
    [
        Record(access_token=CANARY, refresh_token=CANARY, id_token=CANARY, account_id=CANARY, metadata={CANARY: CANARY}),
        RefreshRequest(record=Record(refresh_token=CANARY)),
        RefreshResponse(record=Record(refresh_token=CANARY)),
        Secrets(verifier=CANARY, state=CANARY, device_code=CANARY, driver_data={"a": CANARY}, params={"a": CANARY}),
        Authorization(authorization_url=CANARY, secrets=Secrets(state=CANARY)),
        Flow(id=CANARY, secrets=Secrets(verifier=CANARY)),
        OAuthExchangeRequest(code=CANARY, flow=Flow(secrets=Secrets(verifier=CANARY))),
        OAuthStartRequest(method="device", params={"client_secret": CANARY}),
        PollResult(status="approved", record=Record(access_token=CANARY)),
    ],
)
def test_the_text_of_a_record_tells_what_is_set_and_no_value(record: Any) -> None:
    for text in (repr(record), str(record), f"{record}", f"{[record]}", str(record.__rich_repr__())):
        assert CANARY not in text
    assert "()" not in repr(record)
