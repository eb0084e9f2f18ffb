"""What an author writes: one class for one provider."""

from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from trunkline_sdk.daemon.messages import (
    Authorization,
    Credential,
    Flow,
    Loss,
    ModelInfo,
    OAuthStartRequest,
    PollResult,
    ProviderInfo,
    Record,
)
from trunkline_sdk.daemon.server.failures import Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One operation.

    Attributes:
        surface: the format of the body, such as `chat_completions`; always one that the provider lists.
        model: what to ask for. A model in the body is the product's word for it and may look otherwise.
        body: the surface's request, unchanged.
        content_type: of the body; may be empty.
        credential: what the product sends for this call, or none. It is not to be kept or logged.
        timeout: seconds to wait for the beginning of the answer, and then between its pieces; never for the whole. The server sees to it;
            none is no bound.
        request_id: of the product's, or a new one.
    """

    surface: str
    model: str
    body: bytes = field(repr=False)
    content_type: str
    credential: Credential | None = field(repr=False)
    timeout: float | None
    request_id: str

    def outgoing(self) -> bytes:
        """The JSON body for an upstream: with the model asked for, and without the fields that products keep to themselves (`_…`).

        All other values are the same bytes.

        Raises:
            Failure: 400 where it is no JSON object.
        """
        fields = {name: value for name, value in self._fields().items() if not name.startswith("_")}
        return msgspec.json.encode({**fields, "model": self.model})

    def private(self) -> dict[str, Any]:
        """Fields that a product adds for the daemon alone, such as `_max_output_tokens` and `_llmgw_preamble` (daemon contract, B1).

        Raises:
            Failure: 400 where the body is no JSON object.
        """
        return {name: msgspec.json.decode(value) for name, value in self._fields().items() if name.startswith("_")}

    def _fields(self) -> dict[str, msgspec.Raw]:
        try:
            return msgspec.json.decode(self.body, type=dict[str, msgspec.Raw])
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise Failure(400, "the request's body is not a JSON object") from None


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer, or one whose body is still coming in; `content_type` reaches the caller as it is."""

    body: bytes | AsyncIterable[bytes] = field(repr=False)
    content_type: str = "application/json"
    losses: Sequence[Loss] = ()


@dataclass(frozen=True, slots=True)
class Stream:
    """Server-sent events, as bytes cut anywhere: an upstream's body may be given as it comes.

    It ends well when the iterator ends. An error breaks the transport, so that no product takes it for the end. If the iterator has an
    `aclose`, that is called whatever happens.
    """

    body: AsyncIterable[bytes] = field(repr=False)
    losses: Sequence[Loss] = ()


class Backend(Protocol):
    """One provider. Derive from it, set `info`, and write the methods that it has use for.

    A method that cannot do its work raises `Failure`; a `TimeoutError` is told as 504, an error of `trunkline_sdk.http1` as 502 or 504,
    and any other error as 500, without its text. A product that leaves cancels the method at once, at whatever it waits for, and so does
    `Call.timeout`; only `refresh` is never cancelled for either.
    """

    info: ProviderInfo
    """What is served. `oauth_methods` and `has_refresh` say which of the last four methods are asked for."""

    async def models(self, credential: Credential | None) -> Sequence[ModelInfo]:
        """The catalogue. A row that names no surfaces serves all of the provider's; see `serving`."""
        raise Failure(404, "this provider has no list of models")

    async def invoke(self, call: Call) -> Reply:
        """Answer in one piece."""
        raise Failure(400, "this provider only streams")

    async def stream(self, call: Call) -> Stream:
        """Answer as it comes. What fails before this returns is told with a status; the head goes out when it does."""
        raise Failure(400, "this provider does not stream")

    async def refresh(self, record: Record) -> Record:
        """Ask once for new tokens; the expiry is absolute.

        Raises:
            GrantRefused: the provider refuses the refresh token, for good or not.
            Failure: any other trouble.
        """
        raise Failure(400, "this provider's credentials are not refreshed")

    async def oauth_start(self, request: OAuthStartRequest) -> Authorization:
        """Begin a sign-in. All that the later steps need has to be in the answer's `secrets`."""
        raise Failure(400, "this provider has no sign-in")

    async def oauth_poll(self, flow: Flow) -> PollResult:
        """Ask the provider once; denial and expiry are statuses, an error is for the moment."""
        raise Failure(400, "this provider has no device sign-in")

    async def oauth_exchange(self, code: str, flow: Flow) -> Record:
        """Exchange a code, once."""
        raise Failure(400, "this provider has no sign-in with a code")
