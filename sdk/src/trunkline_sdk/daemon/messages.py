"""Every record that travels as JSON between a product and a daemon, and the credential that travels in headers (daemon contract, A9).

`decode(kind, data)` and `encode(record)` are their codec. Tuples are lists on the wire. What may hold secrets shows in its repr only which
fields are set.
"""

from datetime import timedelta
from typing import Annotated, Any, Literal, Self

import msgspec

from trunkline_sdk.daemon.gojson import OMIT, Duration, Support, Time, Unreadable, convert, decode, encode, parse

__all__ = [
    "Authorization",
    "Caller",
    "Capabilities",
    "Credential",
    "Duration",
    "ErrorDetail",
    "ErrorResponse",
    "Flow",
    "Freshness",
    "InfoResponse",
    "Inputs",
    "Limits",
    "Loss",
    "ModelInfo",
    "ModelsResponse",
    "OAuthExchangeRequest",
    "OAuthExchangeResponse",
    "OAuthPollRequest",
    "OAuthPollResponse",
    "OAuthStartRequest",
    "OAuthStartResponse",
    "Operations",
    "PollResult",
    "Progress",
    "Provenance",
    "ProviderInfo",
    "Record",
    "RefreshRequest",
    "RefreshResponse",
    "Secrets",
    "Support",
    "Surfaces",
    "Time",
    "Unreadable",
    "convert",
    "decode",
    "encode",
    "parse",
]

CredentialKind = Literal["oauth", "token", "none", ""]
OMITTED_TEXT = Annotated[str, OMIT]
OMITTED_FLAG = Annotated[bool, OMIT]
OMITTED_TEXTS = Annotated[tuple[str, ...], OMIT]


def go_name(name: str) -> str:
    """`account_id` as an untagged Go field: `AccountID`."""
    return "".join(part.upper() if part in {"id", "url", "uri"} else part.capitalize() for part in name.split("_"))


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """A record whose keys are those of its fields."""


class Private(msgspec.Struct, frozen=True, kw_only=True):
    """A record that may hold secrets: its text says which fields are set, and no value."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._set())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(name, ...) for name in self._set()]

    def _set(self) -> list[str]:
        empty = type(self)()
        return [name for name in self.__struct_fields__ if getattr(self, name) != getattr(empty, name)]


class GoPrivate(Private, frozen=True, kw_only=True, rename=go_name):
    """The same with keys as Go names fields; every key is always written."""


# ------------------------------------------------------------------------------------------------ what a daemon serves
class ProviderInfo(Wire, frozen=True, kw_only=True):
    """One provider of a daemon.

    `surfaces` are ids such as `chat_completions` (B1), `credential` one of `oauth`, `token`, `none`, `oauth_methods` of `browser`,
    `device`, `manual`; what is none of these is kept as it came.
    """

    id: str = ""
    name: str = ""
    surfaces: tuple[str, ...] = ()
    has_oauth: bool = False
    has_refresh: bool = False
    credential: OMITTED_TEXT = ""
    oauth_methods: OMITTED_TEXTS = ()

    @property
    def credential_kind(self) -> str:
        """`oauth`, `token`, `none`, or empty where an older daemon does not say (A9)."""
        return self.credential or ("oauth" if self.has_oauth else "")


class InfoResponse(Wire, frozen=True, kw_only=True):
    """`version` is the daemon program's own. The last three are additions of ours that other clients pass over (K14).

    `limits` counts bytes and operations: `request_bytes`, `control_bytes`, `operations`.
    """

    version: str = ""
    providers: tuple[ProviderInfo, ...] = ()
    protocol: Annotated[int, OMIT] = 0
    features: OMITTED_TEXTS = ()
    limits: Annotated[dict[str, int], OMIT] = {}


class Operations(Wire, frozen=True, kw_only=True):
    """What a model can be asked for."""

    chat: Support = "unknown"
    embeddings: Support = "unknown"
    image: Support = "unknown"
    audio_in: Support = "unknown"
    audio_out: Support = "unknown"
    video: Support = "unknown"
    token_count: Support = "unknown"  # noqa: S105 - no password


class Surfaces(Wire, frozen=True, kw_only=True):
    """The chat surfaces that a model serves."""

    chat_completions: Support = "unknown"
    responses: Support = "unknown"
    messages: Support = "unknown"


class Inputs(Wire, frozen=True, kw_only=True):
    """What a model takes in."""

    text: Support = "unknown"
    image: Support = "unknown"


class Limits(Wire, frozen=True, kw_only=True):
    """Tokens; None is unknown."""

    context_tokens: Annotated[int | None, OMIT] = None
    max_output_tokens: Annotated[int | None, OMIT] = None


class Provenance(Wire, frozen=True, kw_only=True):
    """`source`: `upstream_reported`, `registry_static`, `models_dev`, `inferred`, `operator_override`; `confidence`: `low` to `high`."""

    source: str = ""
    confidence: str = ""


class Freshness(Wire, frozen=True, kw_only=True):
    """Expired at `expires_at`; without it nobody knows."""

    discovered_at: Annotated[Time, OMIT] = None
    verified_at: Annotated[Time, OMIT] = None
    expires_at: Annotated[Time, OMIT] = None


class Capabilities(Wire, frozen=True, kw_only=True):
    """What a model can do, `schema_version` 1."""

    schema_version: int = 0
    operations: Operations = Operations()
    surfaces: Surfaces = Surfaces()
    inputs: Inputs = Inputs()
    tools: Support = "unknown"
    reasoning: Support = "unknown"
    structured_output: Support = "unknown"
    streaming: Support = "unknown"
    stateful_responses: Support = "unknown"
    limits: Limits = Limits()
    provenance: Provenance = Provenance()
    freshness: Freshness = Freshness()


class ModelInfo(Wire, frozen=True, kw_only=True):
    """One row of a provider's catalogue; `created` is in Unix seconds. `supported_apis` are paths such as `/v1/chat/completions` (B1)."""

    id: str = ""
    object: str = ""
    created: int = 0
    owned_by: str = ""
    description: OMITTED_TEXT = ""
    tags: OMITTED_TEXTS = ()
    display_name: OMITTED_TEXT = ""
    vendor: OMITTED_TEXT = ""
    free: OMITTED_FLAG = False
    api_eligible: OMITTED_FLAG = False
    api_visibility: OMITTED_TEXT = ""
    supported_apis: OMITTED_TEXTS = ()
    capabilities: Annotated[Capabilities | None, OMIT] = None
    legacy_capabilities: Annotated[dict[str, Any], OMIT] = {}


class ModelsResponse(Wire, frozen=True, kw_only=True):
    """The catalogue of one provider, whole."""

    models: tuple[ModelInfo, ...] = ()


class ErrorDetail(Wire, frozen=True, kw_only=True):
    """`code` is the HTTP status. The last three are additions of ours (K15)."""

    message: str = ""
    code: Annotated[int, OMIT] = 0
    type: OMITTED_TEXT = ""
    retryable: Annotated[bool | None, OMIT] = None
    upstream_status: Annotated[int, OMIT] = 0


class ErrorResponse(Wire, frozen=True, kw_only=True):
    """The body of a failure (A5); a daemon may also say `{"error": "…"}`."""

    error: ErrorDetail = ErrorDetail()


class Loss(Wire, frozen=True, kw_only=True):
    """What was changed on the way to the provider (B4).

    `path` is dot-separated; `change` (its key is `class`) is `unsupported`, `dropped`, `approximated` or `renamed`; `severity` is
    `material` or `advisory`; other strings are kept.
    """

    path: str = ""
    change: str = msgspec.field(name="class", default="")
    severity: str = ""
    detail: str = ""


# ------------------------------------------------------------------------------------------------ credentials
class Record(GoPrivate, frozen=True, kw_only=True):
    """A stored credential; an `expiry` of None never expires."""

    revision: str = ""
    access_token: str = ""
    refresh_token: str = ""
    id_token: str = ""
    token_type: str = ""
    expiry: Time = None
    account_id: str = ""
    metadata: dict[str, str] = {}


class Credential(Private, frozen=True, kw_only=True):
    """What one operation goes out with, in headers (A3): `token`, or the static `api_key` where there is none."""

    token: str = ""
    api_key: str = ""
    account_id: str = ""
    token_type: str = ""
    metadata: dict[str, str] = {}

    @classmethod
    def of(cls, record: Record) -> Self:
        """From a stored record, without what only a refresh may carry (E2)."""
        is_key = record.token_type == "api_key"  # noqa: S105 - the name of a kind
        return cls(
            token="" if is_key else record.access_token,
            api_key=record.access_token if is_key else "",
            account_id=record.account_id,
            token_type=record.token_type,
            metadata=dict(record.metadata),
        )


class RefreshRequest(Private, frozen=True, kw_only=True):
    """The whole record, the refresh token included."""

    record: Record = Record()


class RefreshResponse(Private, frozen=True, kw_only=True):
    """`terminal`: the refresh token is dead for ever; then `error` says why and the status is 4xx (D3)."""

    record: Annotated[Record, OMIT] = Record()
    terminal: OMITTED_FLAG = False
    error: OMITTED_TEXT = ""


# ------------------------------------------------------------------------------------------------ signing in
class Caller(Wire, frozen=True, kw_only=True):
    """Whose flow it is; `kind` is `human`, `service`, `anonymous` or `local`."""

    id: str = ""
    kind: str = ""
    project_id: OMITTED_TEXT = ""


class Secrets(GoPrivate, frozen=True, kw_only=True):
    """All that a daemon needs back at the next step of a flow; it keeps nothing itself."""

    verifier: str = ""
    state: str = ""
    device_code: str = ""
    redirect_uri: str = ""
    driver_data: dict[str, str] = {}
    params: dict[str, str] = {}


class Authorization(GoPrivate, frozen=True, kw_only=True):
    """How a flow begins (G1): for `device` a code and an address to type it at, for `browser` and `manual` an address to visit."""

    authorization_url: str = ""
    user_code: str = ""
    verification_uri: str = ""
    verification_uri_complete: str = ""
    interval: Duration = timedelta()
    expires_in: Duration = timedelta()
    secrets: Secrets = Secrets()


class Progress(GoPrivate, frozen=True, kw_only=True):
    """The product's own notes."""

    interval: Duration = timedelta()
    next_poll_at: Time = None
    outcome: str = ""
    credential_key: str = ""


class Flow(GoPrivate, frozen=True, kw_only=True):
    """A sign-in under way. A daemon reads `method` and `secrets`, and needs nothing else (G1)."""

    id: str = ""
    caller: Caller = Caller()
    instance: str = ""
    method: str = ""
    created_at: Time = None
    expires_at: Time = None
    revision: str = ""
    consumed_at: Time = None
    authorization_url: str = ""
    user_code: str = ""
    verification_uri: str = ""
    verification_uri_complete: str = ""
    progress: Progress = Progress()
    secrets: Secrets = Secrets()


class PollResult(GoPrivate, frozen=True, kw_only=True):
    """`status`: `pending`, `slow_down`, `approved`, `denied`, `expired`; the record comes with `approved` only."""

    status: str = ""
    record: Record = Record()


class OAuthStartRequest(Private, frozen=True, kw_only=True):
    """`method`: `browser`, `device` or `manual`."""

    method: str = ""
    redirect_uri: OMITTED_TEXT = ""
    params: Annotated[dict[str, str], OMIT] = {}


class OAuthStartResponse(Private, frozen=True, kw_only=True):
    """The beginning, or why there is none."""

    authorization: Annotated[Authorization, OMIT] = Authorization()
    error: OMITTED_TEXT = ""


class OAuthPollRequest(Private, frozen=True, kw_only=True):
    """Asks once how a device flow stands."""

    flow: Flow = Flow()


class OAuthPollResponse(Private, frozen=True, kw_only=True):
    """How it stands; an error here is for the moment, denial and expiry are statuses (D4)."""

    result: Annotated[PollResult, OMIT] = PollResult()
    error: OMITTED_TEXT = ""


class OAuthExchangeRequest(Private, frozen=True, kw_only=True):
    """The code that the provider gave, and the flow it belongs to."""

    code: str = ""
    flow: Flow = Flow()


class OAuthExchangeResponse(Private, frozen=True, kw_only=True):
    """The credential, or why there is none."""

    record: Annotated[Record, OMIT] = Record()
    error: OMITTED_TEXT = ""
