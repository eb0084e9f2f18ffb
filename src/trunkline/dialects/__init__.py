"""The wire formats: each is one package without I/O, seen from both sides.

```text
               we serve the format             we call the format
request        read_request, read_chat         forward (same dialect), write_chat
reply          write_reply                     read_reply
stream         write_events                    read_events
refusal        write_error(_event)             read_error
```

Two dialects are the same when they are equal values, fields included. Between the same a call is forwarded: its bytes stay, but for
what must change. Between others it is read and written, with a list of what could not be carried.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

from trunkline.base.codec import Raw, Value
from trunkline.dialects._names import UNCHANGED, Names
from trunkline.errors import BadRequest, TrunklineError, UpstreamError
from trunkline.model.card import Card
from trunkline.model.chat import Chat
from trunkline.model.event import Event, Reply
from trunkline.model.loss import Loss
from trunkline.model.request import Operation, Request
from trunkline_sdk import sse

Repair = Literal["first_role", "message_start"]
"""What a provider's record may have mended in its streams: a first chunk without a role, a stream without its start event."""


class Written(Value, frozen=True):
    """A request as it goes out.

    Attributes:
        body: the bytes.
        usage_added: we asked for a usage chunk that the caller did not ask for; the reader takes it out again.
        losses: what could not be carried.
        names: the tools' names as they were sent, to be turned back in the reply.
    """

    body: bytes
    usage_added: bool = False
    losses: tuple[Loss, ...] = ()
    names: Names = UNCHANGED


class Frame(Value, frozen=True):
    """One event of a stream on its way through.

    Attributes:
        raw: what a caller of the same dialect gets: the bytes as they came, or mended, or nothing.
        events: what it says.
        visible: whether it is, or ends, a part of the reply. Frames before the first visible one may still be withdrawn.
    """

    raw: bytes
    events: Sequence[Event] = ()
    visible: bool = True


class EventReader(ABC):
    """Reads one stream, event by event, and holds it to the format's grammar."""

    @abstractmethod
    def read(self, event: sse.Event) -> Frame:
        """What the next event says.

        Raises:
            UpstreamGarbled: it breaks the grammar.
        """

    @abstractmethod
    def end(self) -> Frame:
        """The stream has ended: the closing that it still lacks, where the reply itself is complete, or the failure that it told of.

        Raises:
            UpstreamDown: the reply is not complete, and nobody said why.
        """


class EventWriter(ABC):
    """Writes one stream."""

    @abstractmethod
    def write(self, event: Event) -> bytes:
        """The bytes that say this event; none where the format has no word for it, or says it later."""


class Dialect(ABC):
    """One wire format, both directions, no I/O. Members are frozen records, so relatives differ by fields."""

    name: ClassVar[str]
    reply_prefix: ClassVar[str] = "rpl"
    stored_field: ClassVar[str] = ""
    """The field by which a request goes on from what its provider keeps."""
    keep_alive: ClassVar[bytes] = b": keep-alive\n\n"
    opaque: ClassVar[bool] = False
    """A reply that is no stream of events is bytes that nobody here reads, of any type and length: it passes as it arrives."""

    def same(self, other: "Dialect", request: Request) -> bool:
        """Whether a request of this dialect can be forwarded to another as it is: where they are equal, as far as this request goes."""
        return self == other

    @abstractmethod
    def read_request(self, body: bytes, operation: Operation) -> Request:
        """Read what the gateway needs to know. Raises: `BadRequest`, naming the field and the value."""

    @abstractmethod
    def forward(self, request: Request, model: str, *, ask_usage: bool) -> Written:
        """The request for a provider of the same dialect that calls the model `model`; all else stays as it came, to the byte.

        Args:
            request: as `read_request` gave it.
            model: the provider's own name for the model.
            ask_usage: add what makes the provider tell the usage of a stream, where the caller did not.
        """

    def translatable(self, request: Request) -> None:  # noqa: B027 - most formats have nothing of the kind
        """Refuse what only a provider of this dialect can do, such as going on from what it keeps. Raises: `BadRequest`."""

    def read_chat(self, request: Request) -> Chat:
        """All of a request, in no vendor's words. Raises: `BadRequest`, naming the field and the value."""
        raise BadRequest(
            f"a request in the format `{self.name}` cannot be translated", hint="Ask a model whose provider speaks this format."
        )

    def write_chat(self, chat: Chat, request: Request, model: str, card: Card, *, same: bool, ask_usage: bool) -> Written:
        """The request for a provider of this dialect.

        Args:
            chat: what is asked.
            request: what it was read from.
            model: the provider's own name for the model.
            card: what is known of the model.
            same: it was read from this dialect, so what only this dialect knows is written back.
            ask_usage: ask the provider to tell the usage of a stream.
        """
        raise BadRequest(f"nothing can be translated into the format `{self.name}`", hint="Ask a model whose provider speaks your format.")

    def keeps(self, request: Request) -> bool:
        """Whether the provider keeps the reply, so that its id will be asked for."""
        return False

    def repeatable(self, request: Request) -> bool:
        """Whether a provider that broke off may be asked the same once more: it did nothing that counts twice (daemon contract, F)."""
        return True

    def tell_ids(self, body: bytes, tell: Callable[[str], str]) -> bytes:
        """A kept object with the ids that callers know; all else stays as it came."""
        return body

    def read_kept(self, tell: Callable[[str], str], clean: Callable[[bytes], bytes]) -> EventReader:
        """A reader for the stream of a kept object, wherever that begins.

        Args:
            tell: gives the ids that callers know.
            clean: takes out of the object, which may tell of a failure, what no caller may see.
        """
        raise BadRequest(f"nothing that is kept in the format `{self.name}` comes as a stream")

    @abstractmethod
    def read_reply(self, body: bytes, operation: Operation) -> Reply:
        """Read a whole reply. Raises: `UpstreamGarbled`, or the `UpstreamError` that it tells."""

    @abstractmethod
    def write_reply(self, reply: Reply, operation: Operation) -> tuple[bytes, tuple[Loss, ...]]:
        """A whole reply as its clients expect it, and what could not be carried."""

    @abstractmethod
    def read_events(
        self, *, request: Request, written: Written, repairs: frozenset[Repair], tell: Callable[[str], str] | None = None
    ) -> EventReader:
        """A reader for the reply to one request; `tell` gives the id under which callers know one that is kept."""

    @abstractmethod
    def write_events(self, request: Request) -> EventWriter:
        """A writer for the reply to one request of this dialect."""

    @abstractmethod
    def read_error(self, status: int, body: bytes, retry_after: float | None) -> UpstreamError:
        """What a provider's error answer means."""

    @abstractmethod
    def write_error(self, error: TrunklineError, request_id: str) -> bytes:
        """An error as the body of an answer."""

    @abstractmethod
    def write_error_event(self, error: TrunklineError, request_id: str) -> bytes:
        """An error inside a stream, as its clients expect it; the stream ends with it."""


def is_said(request: Request, name: str) -> Raw | None:
    """A top-level field of a request, unless it is null."""
    raw = request.fields.get(name)
    return None if raw is None or bytes(raw) == b"null" else raw
