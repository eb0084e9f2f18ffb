"""What a client may ask of a listener."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenLimits:
    """Bounds of one connection."""

    head_bytes: int = 128 * 1024
    """A request line with its headers; also chunk extensions and trailers in a row. More is 431."""

    head_seconds: float = 10.0
    """From the connection, and later from the first byte of a request, to the end of its head. More is 408."""

    idle_seconds: int = 75
    """A connection between two requests is closed after this time (more than the 60 s of common load balancers)."""

    linger_seconds: float = 1.0
    """What a client still sends after a refusal or an early answer is read and dropped for this time, so that it can read the answer
    (RFC 9112, section 9.6)."""
