"""How a failure reads on the wire, and what follows from it (daemon contract, A5, D2, D3)."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from trunkline_sdk.daemon.errors import AGAIN, FAILOVER, CallFailed, Classification, Kind
from trunkline_sdk.daemon.gojson import Unreadable, convert, encode, parse
from trunkline_sdk.daemon.messages import ErrorDetail, ErrorResponse, Wire
from trunkline_sdk.daemon.protocol import headers as fields
from trunkline_sdk.daemon.protocol.fixes import Fixes
from trunkline_sdk.daemon.protocol.headers import Headers

REASON_LETTERS = 512

TERMINAL_CODES = frozenset(
    {
        "invalid_grant",
        "invalid_token",
        "token_reused",
        "refresh_token_reused",
        "refresh_token_invalidated",
        "expired_token",
        "refresh_token_expired",
    }
)
"""The OAuth error codes, in lower case, for which a daemon says `terminal` (D3)."""

_SECONDS = re.compile(rb"[0-9]{1,15}")
_SHORTEST_SECRET = 6


class _Plain(Wire, frozen=True, kw_only=True):
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Which call failed, for the text, and what must not stand in it."""

    route: str
    provider: str = ""
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Where({self.label})"

    @property
    def label(self) -> str:
        """`extension codex invoke`."""
        return f"extension {self.provider} {self.route}" if self.provider else f"extension {self.route}"

    def text(self, status: int, reason: str) -> str:
        """What is said of an answer that is a failure."""
        return f"{self.label} failed: {reason}" if reason else f"{self.label} failed (HTTP {status})"


def body(message: str, status: int, *, kind: str = "", retryable: bool | None = None, upstream_status: int = 0) -> bytes:
    """The body of a failure that a daemon sends; what is beyond `message` and `status` is ours, and optional (K15)."""
    detail = ErrorDetail(message=clean(message), code=status, type=kind, retryable=retryable, upstream_status=upstream_status)
    return encode(ErrorResponse(error=detail))


def clean(text: str, secrets: Iterable[str] = ()) -> str:
    """One line of at most 512 letters, and `...` behind them if there were more; none of the secrets stands in it."""
    for secret in sorted(secrets, key=len, reverse=True):  # one may be a part of another
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "***")
    text = " ".join(text.split())
    return text if len(text) <= REASON_LETTERS else text[:REASON_LETTERS] + "..."


def reason(data: bytes, secrets: Iterable[str] = ()) -> str:
    """Why a daemon says that it failed, from either shape of an error body, cleaned; empty where it says nothing."""
    try:
        tree = parse(data)
    except Unreadable:
        return ""
    try:
        return clean(convert(_Plain, tree).error, secrets)
    except Unreadable:
        pass
    try:
        said = convert(ErrorResponse, tree)
    except Unreadable as fault:
        said = fault.partial
    return clean(said.error.message, secrets) if isinstance(said, ErrorResponse) else ""


def retry_after(raw: bytes | None, now: datetime) -> float:
    """Seconds until the moment that `Retry-After` names; 0 for none, a past one, or what cannot be read."""
    if raw is None:
        return 0.0
    if _SECONDS.fullmatch(raw):
        return float(raw)
    try:
        moment = parsedate_to_datetime(raw.decode("ascii"))
    except (ValueError, OverflowError, UnicodeDecodeError):
        return 0.0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max((moment - now).total_seconds(), 0.0)


def classify(status: int, headers: Headers, now: datetime, fixes: Fixes) -> tuple[Kind, Classification]:
    """What an answer that is no 2xx means (the table of D2)."""
    if fixes.wrong_secret_is_configuration and fields.is_wrong_secret(status, headers):
        return "configuration", Classification(status=status, failover=True)
    wait = retry_after(fields.find(headers, b"retry-after"), now)
    match status:
        case 401:
            return "auth", Classification(status=status)
        case 403:
            return "forbidden", Classification(status=status)
        case 429:
            return "rate_limited", Classification(status=status, retryable=True, failover=True, retry_after=wait)
        case _ if status == 408 or status >= 500:
            heeded = wait if fixes.overload_cools_down and status in {503, 529} else 0.0
            return "upstream", Classification(status=status, retryable=True, failover=True, circuit=True, retry_after=heeded)
        case _:
            neutral = fixes.definitive_refusals_are_neutral and 400 <= status < 500
            return "upstream", Classification(status=status, circuit=not neutral)


def refused(where: Where, status: int, headers: Headers, data: bytes, now: datetime, fixes: Fixes) -> CallFailed:
    """The error for an answer that is no 2xx; `data` is empty where its body was too large or broke off."""
    kind, classification = classify(status, headers, now, fixes)
    said = reason(data, where.secrets)
    return CallFailed(where.text(status, said), kind, classification, reason=said)


def unanswered(where: Where, late: str = "") -> CallFailed:
    """Nothing came back, or an invoke's answer broke off; `late` says how long was waited for what, where that was too long."""
    said = f": waited {late}" if late else ""
    return CallFailed(f"{where.label} got no answer from the daemon{said}", "transport", AGAIN, timed_out=bool(late))


def out_of_time(where: Where, *, own: bool, fixes: Fixes) -> CallFailed:
    """A deadline for the whole call passed: our built-in one (`own`) or the caller's."""
    again = own and fixes.own_deadlines_are_retryable
    return CallFailed(f"{where.label} took too long", "transport", AGAIN if again else Classification(), timed_out=True)


def unusable(where: Where, status: int = 0) -> CallFailed:
    """A success that cannot be used: no JSON, wrong types, too large."""
    return CallFailed(f"{where.label} got an answer that cannot be used", "upstream", Classification(status=status))


def broken(where: Where, why: str = "broke off") -> CallFailed:
    """A stream that had opened did not come to its end."""
    return CallFailed(f"{where.label} {why}", "transport", FAILOVER)


def silent(where: Where) -> CallFailed:
    """A stream that had opened said nothing for too long."""
    return CallFailed(f"{where.label} was silent for too long", "transport", FAILOVER, timed_out=True)


def bad_provider(where: Where) -> CallFailed:
    """The provider's id cannot be part of a path; it is not repeated, since it may be anything."""
    return CallFailed(f"extension {where.route}: the provider's id is not valid", "configuration", FAILOVER)
