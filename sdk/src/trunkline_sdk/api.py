"""What host and worker say to each other beside the protocol's own messages: the records, owned here and used by both ends.

| from | message | params | result |
| --- | --- | --- | --- |
| host | `call` | `{name, params}`, with a `Context` in `context` | the extension's own |
| worker | `network.fetch` | `Fetch` | `Fetched` |
| worker | `network.stream` | `Fetch` | `Streamed`, and then a stream of the body's bytes |
| worker | `log`, a notification | `LogLine` | |

Unknown fields are passed over. Bytes travel as base64. The time that a call may take is its `deadline_ms`.
"""

from typing import Annotated, Any, Literal

import msgspec

Headers = tuple[tuple[str, str], ...]
"""Names and values in their order; letters beyond ASCII as Latin-1 reads them."""


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the wire format."""


class Context(_Record, frozen=True):
    """The host's word on a call.

    Attributes:
        call_id: the call's name in the host's log.
        extension: who is called.
        user: for whom; `None` for nobody but the extension itself.
    """

    call_id: str
    extension: str
    user: str | None = None


class Fetch(_Record, frozen=True):
    """A request of HTTP.

    Attributes:
        url: absolute, `http` or `https`.
        method: a token in capitals.
        headers: without those that the host writes itself.
        body: the whole of it; what does not fit into a frame goes as an `upload`.
        upload: the number of a stream, opened before, that brings the body instead.
        redirect: whether to go on to where the answer leads, hand it over as it is, or fail.
    """

    url: Annotated[str, msgspec.Meta(max_length=16_384)]
    method: Annotated[str, msgspec.Meta(min_length=1, max_length=32)] = "GET"
    headers: Annotated[Headers, msgspec.Meta(max_length=100)] = ()
    body: bytes | None = None
    upload: Annotated[int, msgspec.Meta(ge=1, le=2**32 - 1)] | None = None
    redirect: Literal["follow", "manual", "error"] = "follow"


class Fetched(_Record, frozen=True):
    """A whole answer; `url` is where it came from in the end, and content encodings are undone."""

    url: str
    status: int
    headers: Headers
    body: bytes


class Streamed(_Record, frozen=True):
    """The head of an answer; its body comes as the stream of that number, which ends with an error where the body does not end well."""

    url: str
    status: int
    headers: Headers
    stream: int


class LogLine(_Record, frozen=True):
    """A line for the host's log; `call` is the number of the host's call that it was written in, if it was."""

    level: Literal["debug", "info", "warning", "error"]
    message: str
    fields: dict[str, Any] = {}
    call: int | None = None
