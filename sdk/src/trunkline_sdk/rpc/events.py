"""What came in, as a peer tells it."""

from typing import NamedTuple

from trunkline_sdk.rpc.errors import ProtocolBroken, RpcError
from trunkline_sdk.rpc.messages import Hello, Raw, Welcome


class Greeted(NamedTuple):
    """To a host: the worker said hello. Answer it with `Peer.welcome` or `Peer.refuse`."""

    hello: Hello


class Welcomed(NamedTuple):
    """To a worker: from here on calls may be made."""

    welcome: Welcome


class Turned(NamedTuple):
    """To a worker: the host does not want it."""

    reason: str


class Called(NamedTuple):
    """The other side calls. It gets exactly one `Peer.answer` or `Peer.fail`, also after a `Stopped`.

    Attributes:
        seconds: that are left for the answer.
        during: the own call that this one was made for; `None` for none.
        context: as the caller gave it, JSON or nothing.
    """

    id: int
    method: str
    params: Raw
    seconds: float
    during: int | None
    context: Raw


class Stopped(NamedTuple):
    """Nobody waits for the answer to a call of the other side: stop the work."""

    id: int
    reason: str


class Answered(NamedTuple):
    """The result of an own call."""

    id: int
    result: Raw


class Failed(NamedTuple):
    """The end of an own call without a result."""

    id: int
    error: RpcError


class Notified(NamedTuple):
    """A notification that is not the protocol's own."""

    method: str
    params: Raw


class Opened(NamedTuple):
    """The other side will send pieces.

    Attributes:
        call: the own call that they answer, with its sign changed; 0 for none.
    """

    stream: int
    call: int


class Came(NamedTuple):
    """A piece. When it was used, say so with `Peer.used`."""

    stream: int
    data: bytes


class Ended(NamedTuple):
    """The other side has sent all of its stream, or, with an error, will not send the rest."""

    stream: int
    error: RpcError | None


class Room(NamedTuple):
    """More of an own stream may be sent."""

    stream: int


class Unwanted(NamedTuple):
    """Nobody takes more of an own stream."""

    stream: int
    reason: str


class Violation(NamedTuple):
    """The other side said what it may not. It was passed over."""

    what: str


Event = Greeted | Welcomed | Turned | Called | Stopped | Answered | Failed | Notified | Opened | Came | Ended | Room | Unwanted | Violation


class Broken(ProtocolBroken):
    """The other side cannot be understood any more; `events` are what it said before that, and they count."""

    def __init__(self, why: str, events: list[Event]) -> None:
        super().__init__(why)
        self.events = events
