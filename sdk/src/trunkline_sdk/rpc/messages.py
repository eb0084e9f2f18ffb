"""The records of the protocol, and how they are written and read."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from trunkline_sdk.rpc.errors import ErrorBody, RpcError
from trunkline_sdk.rpc.frames import FRAME_BYTES, MESSAGE, frame

VERSION = 1
"""Of the protocol. A side says which ones it speaks; the host chooses the highest that both do."""

Raw = msgspec.Raw
NOTHING = msgspec.Raw(b"null")
ABSENT = msgspec.Raw()

BRIEF_CHARACTERS = 500
"""Of the message of an error that cannot be told whole."""
_AROUND = 100  # bytes of a frame that are not its error

R = TypeVar("R", bound=msgspec.Struct)

Id = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]
StreamId = Annotated[int, msgspec.Meta(ge=1, le=2**32 - 1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31)]


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    """Unknown fields are passed over: a newer side may say more."""


class Limits(_Record, frozen=True):
    """What a side takes.

    Attributes:
        frame_bytes: of one frame's body; a larger one is passed over, and fails the call that it belongs to.
        calls: in flight at once.
        stream_messages: pieces of a stream that may be under way or unused.
        stream_bytes: the same in bytes; a piece has at most half of them.
        streams: open at once.
    """

    frame_bytes: Annotated[int, msgspec.Meta(ge=4096, le=64 * 1024 * 1024)] = FRAME_BYTES
    calls: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 64
    stream_messages: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 16
    stream_bytes: Annotated[int, msgspec.Meta(ge=1024, le=64 * 1024 * 1024)] = 256 * 1024
    streams: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 64


class Control(_Record, frozen=True):
    """One thing that a sandbox did to the worker before its code ran: `by` says by which means."""

    control: str
    by: str
    status: Literal["applied", "absent", "failed"]
    detail: str = ""


class Hello(_Record, frozen=True):
    """The worker's first word: which versions it speaks, what it is, and what was done to it."""

    versions: tuple[int, int] = (VERSION, VERSION)
    sdk: str = ""
    api: str = ""
    pid: int = 0
    controls: tuple[Control, ...] = ()
    limits: Limits = Limits()


class Welcome(_Record, frozen=True):
    """The host's answer to it."""

    version: int = VERSION
    limits: Limits = Limits()


class Refused(_Record, frozen=True):
    """The host's other answer, its last word."""

    reason: str


class Cancel(_Record, frozen=True):
    """Nobody waits for the answer any more."""

    id: Id
    reason: str = ""


class StreamOpen(_Record, frozen=True):
    """Pieces will follow. `call` is the receiver's call that they answer, with its sign changed; 0 for none."""

    stream: StreamId
    call: int = 0


class StreamCredit(_Record, frozen=True):
    """So much more may be sent."""

    stream: StreamId
    messages: Count
    bytes: Count


class StreamEnd(_Record, frozen=True):
    """No more pieces; an error says that they are not all."""

    stream: StreamId
    error: ErrorBody | None = None


class StreamCancel(_Record, frozen=True):
    """Nobody takes more pieces."""

    stream: StreamId
    reason: str = ""


class Message(_Record, frozen=True):
    """Any message, as it is read first."""

    id: Id | None = None
    method: str | None = None
    params: Raw = NOTHING
    result: Raw = ABSENT
    error: ErrorBody | None = None
    deadline_ms: Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)] | None = None
    during: Id | None = None
    context: Raw = ABSENT


_read = msgspec.json.Decoder(Message)
_encoder = msgspec.json.Encoder()
_HEAD = re.compile(rb'\s*\{\s*"id"\s*:\s*([1-9][0-9]{0,15})\s*,\s*"(method|result|error)"')


class Unreadable(ValueError):
    """The bytes are no message."""


_MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a decoder raises: not JSON, of another shape, or nested too deeply."""


def read(body: bytes) -> Message:
    """One message. Raises: `Unreadable`."""
    try:
        message = _read.decode(body)
    except _MALFORMED as error:
        raise Unreadable(str(error)) from None
    answers = (message.result is not ABSENT) + (message.error is not None)
    if message.method is None:
        if message.id is None or answers != 1:
            raise Unreadable("it is neither a call, nor an answer, nor a notification")
    elif answers:
        raise Unreadable("it is a call and an answer")
    return message


def params(raw: Raw, kind: type[R]) -> R:
    """What a notification of the protocol's own says. Raises: `Unreadable`."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except _MALFORMED as error:
        raise Unreadable(str(error)) from None


def head(body: bytes) -> tuple[int, bool] | None:
    """Which call the beginning of a message belongs to, and whether it is that call's answer; both sides write `id` first."""
    found = _HEAD.match(body)
    return None if found is None else (int(found[1]), found[2] != b"method")


def encode(value: object) -> bytes:
    """JSON of anything that has a JSON form. Raises: `TypeError`, `ValueError`."""
    return _encoder.encode(value)


def json(value: Any) -> bytes:
    """The same, where JSON goes as it is."""
    return bytes(value) if isinstance(value, Raw) else encode(value)


def call(number: int, method: str, params: bytes, *, deadline_ms: int | None, during: int | None, context: bytes) -> bytes:
    """A frame with a call."""
    parts = [b'{"id":%d,"method":%b,"params":%b' % (number, encode(method), params)]
    if deadline_ms is not None:
        parts.append(b',"deadline_ms":%d' % deadline_ms)
    if during is not None:
        parts.append(b',"during":%d' % during)
    if context:
        parts.append(b',"context":%b' % context)
    return frame(MESSAGE, b"".join([*parts, b"}"]))


def result(number: int, value: bytes) -> bytes:
    """A frame with a good answer."""
    return frame(MESSAGE, b'{"id":%d,"result":%b}' % (number, value))


def failure(number: int, error: RpcError, most: int = FRAME_BYTES) -> bytes:
    """A frame with an error, of so many bytes at most."""
    return frame(MESSAGE, b'{"id":%d,"error":%b}' % (number, _told(error, most)))


def stream_end(number: int, error: RpcError | None, most: int = FRAME_BYTES) -> bytes:
    """A frame with the end of a stream, likewise."""
    return frame(MESSAGE, b'{"method":"stream.end","params":{"stream":%d,"error":%b}}' % (number, _told(error, most) if error else b"null"))


def _told(error: RpcError, most: int) -> bytes:
    """An error as it travels; in brief where it is too large, or has no JSON form: whoever waits is told all the same."""
    try:
        told = encode(error.body)
    except (TypeError, ValueError, RecursionError):
        told = b""
    if 0 < len(told) <= most - _AROUND:
        return told
    message = str(error.message)[:BRIEF_CHARACTERS].encode(errors="backslashreplace").decode()
    return encode(RpcError(error.code, message, retryable=error.retryable, extension=error.extension).body)


def notification(method: str, params: msgspec.Struct | Mapping[str, Any] | bytes) -> bytes:
    """A frame with a notification."""
    body = params if isinstance(params, bytes) else encode(params)
    return frame(MESSAGE, b'{"method":%b,"params":%b}' % (encode(method), body))
