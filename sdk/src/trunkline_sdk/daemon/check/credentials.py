"""Refresh and sign-in of the fixture providers of section J."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any, cast

from trunkline_sdk.daemon.check.probe import Answer, Check, Missed, Probe, refused, tree
from trunkline_sdk.daemon.errors import RefreshRefused, StepRefused
from trunkline_sdk.daemon.gojson import decode
from trunkline_sdk.daemon.messages import Flow, OAuthExchangeResponse, OAuthStartRequest, Record, RefreshRequest, encode
from trunkline_sdk.daemon.protocol.routes import OAUTH_EXCHANGE, OAUTH_START, REFRESH

_EXPIRED = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2)))
_JSON = [(b"content-type", b"application/json")]


def _record(refresh_token: str) -> Record:
    return Record(
        access_token="access-1",  # noqa: S106 - a fixture
        refresh_token=refresh_token,
        token_type="Bearer",  # noqa: S106 - a fixture
        account_id="account-1",
        expiry=_EXPIRED,
        metadata={"project": "p-1"},
    )


async def renewal(probe: Probe) -> str:
    """A good refresh token brings a new record, that has not expired."""
    fresh = await probe.client.refresh(probe.provider.id, _record("refresh-1"))
    if not fresh.access_token or fresh.access_token == "access-1":  # noqa: S105 - a fixture
        raise Missed("no new access token came")
    if fresh.expiry is not None and fresh.expiry <= datetime.now(UTC):  # noqa: TID251 - the tool has no clock of the server's
        raise Missed("the new record has expired")
    if fresh.account_id not in {"", "account-1"}:
        raise Missed("the account changed")
    return ""


async def spelling(probe: Probe) -> str:
    """Records are written as Go names fields, and read in any case, with `null` and what is unknown passed over."""
    answer = await probe.send("POST", probe.path(REFRESH), encode(RefreshRequest(record=_record("refresh-1"))), _JSON)
    record: Any = tree(answer.body).get("record")
    if answer.status != 200 or not isinstance(record, dict) or "AccessToken" not in record:
        raise Missed(f"HTTP {answer.status}: no `record.AccessToken`")
    lower = b'{"RECORD":{"refreshtoken":"refresh-1","METADATA":null,"expiry":"2026-01-01T00:00:00.5+02:00","odd":[1]},"more":1}'
    answer = await probe.send("POST", probe.path(REFRESH), lower, _JSON)
    if answer.status != 200:
        raise Missed(f"HTTP {answer.status} for a record in lower case")
    return ""


async def dead(probe: Probe) -> str:
    """A dead refresh token is a 4xx that says `terminal` and why."""
    try:
        await probe.client.refresh(probe.provider.id, _record("dead"))
    except RefreshRefused as error:
        if not (error.terminal and error.reason and 400 <= error.status < 500):
            raise Missed(f"HTTP {error.status}, terminal {error.terminal}, reason `{error.reason}`") from None
        return error.reason
    raise Missed("it was renewed")


async def busy(probe: Probe) -> str:
    """Trouble for the moment ends no login."""
    try:
        await probe.client.refresh(probe.provider.id, _record("busy"))
    except RefreshRefused as error:
        if error.terminal or error.status != 503:
            raise Missed(f"HTTP {error.status}, terminal {error.terminal}") from None
        return error.reason
    raise Missed("it was renewed")


async def keyless(probe: Probe) -> str:
    """A provider without refresh says so with 400, and ends no login."""
    answer = await probe.send("POST", probe.path(REFRESH, probe.daemon.speech), encode(RefreshRequest(record=_record("refresh-1"))), _JSON)
    if tree(answer.body).get("terminal"):
        raise Missed("it says `terminal`")
    return refused(answer, "refresh", 400)


async def device(probe: Probe) -> str:
    """A device sign-in: all that its owner needs, durations in nanoseconds, approved at the first or second poll."""
    body = encode(OAuthStartRequest(method="device", params={"client_id": "client-1"}))
    answer = await probe.send("POST", probe.path(OAUTH_START), body, _JSON)
    begun: Any = tree(answer.body).get("authorization")
    if answer.status != 200 or not isinstance(begun, dict):
        raise Missed(f"HTTP {answer.status}: no `authorization`")
    for name in ("Interval", "ExpiresIn"):
        count = cast(dict[str, Any], begun).get(name)
        if type(count) is not int or count < 1_000_000:
            raise Missed(f"`{name}` is no count of nanoseconds")
    start = await probe.client.oauth_start(probe.provider.id, OAuthStartRequest(method="device", params={"client_id": "client-1"}))
    if not (start.user_code and start.verification_uri and start.secrets.device_code):
        raise Missed("a user code, an address or the device code is missing")
    polled = [await probe.client.oauth_poll(probe.provider.id, Flow(secrets=start.secrets)) for _ in range(2)]
    if not any(one.status == "approved" and one.record.access_token for one in polled):
        raise Missed(f"the polls said {', '.join(one.status for one in polled)}")
    return ""


async def manual(probe: Probe) -> str:
    """A sign-in with a pasted code: an address with a state, and the code's credential."""
    start = await probe.client.oauth_start(probe.provider.id, OAuthStartRequest(method="manual"))
    if not (start.authorization_url and start.secrets.state and start.secrets.verifier):
        raise Missed("an address, the state or the verifier is missing")
    record = await probe.client.oauth_exchange(probe.provider.id, Flow(method="manual", secrets=start.secrets), "code-1")
    if not record.access_token:
        raise Missed("no access token came")
    return ""


async def wrong_code(probe: Probe) -> str:
    """A wrong code is refused with a reason."""
    try:
        await probe.client.oauth_exchange(probe.provider.id, Flow(), "wrong-code")
    except StepRefused as error:
        if not error.reason:
            raise Missed(f"HTTP {error.status} without a reason") from None
        return error.reason
    raise Missed("it was exchanged")


async def empty_flow(probe: Probe) -> str:
    """A flow in which nothing is set can be read: it is judged, not failed at."""
    answer = await probe.send("POST", probe.path(OAUTH_EXCHANGE), b'{"code":"code-1","flow":{}}', _JSON)
    if answer.status >= 500 or not (decode(OAuthExchangeResponse, answer.body).record.access_token or answer.reason):
        raise Missed(f"HTTP {answer.status}, reason `{answer.reason}`")
    return f"HTTP {answer.status}"


async def browser(probe: Probe) -> str:
    """A method that the provider does not list is a 400 with a string `error`."""
    answer = await probe.send("POST", probe.path(OAUTH_START), encode(OAuthStartRequest(method="browser")), _JSON)
    return _plain(answer)


def _plain(answer: Answer) -> str:
    said = refused(answer, "oauth/start", 400)
    if not isinstance(tree(answer.body).get("error"), str):
        raise Missed("`error` is no string")
    return said


CHECKS = (
    Check(group="I.12", name="refresh: a new record", level="must", run=renewal),
    Check(group="I.12", name="refresh: Go's spelling", level="must", run=spelling),
    Check(group="I.12", name="refresh: a dead token is terminal", level="must", run=dead),
    Check(group="I.12", name="refresh: trouble is not", level="must", run=busy),
    Check(group="I.12", name="refresh: a provider without it", level="must", run=keyless),
    Check(group="I.14", name="sign-in: device", level="must", run=device),
    Check(group="I.14", name="sign-in: manual", level="must", run=manual),
    Check(group="I.14", name="sign-in: a wrong code is refused", level="must", run=wrong_code),
    Check(group="I.14", name="sign-in: an empty flow is read", level="must", run=empty_flow),
    Check(group="I.14", name="sign-in: a method that is not served", level="must", run=browser),
)
