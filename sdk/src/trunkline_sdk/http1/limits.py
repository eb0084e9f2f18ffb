"""How long to wait and how much to take."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds for each wait; there is none for a whole exchange.

    `connect` covers resolving, TCP and TLS. `first_byte` runs from the request's last byte, and anew after each informational
    (`1xx`) answer. `silence` is the longest time between two reads, and for the peer to take what was written. `pool` is for a free
    connection. The time a caller's body iterator or a slow reader takes is the caller's own.
    """

    connect: float = 10.0
    first_byte: float = 300.0
    silence: float = 120.0
    pool: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of heads and bodies, then of one origin's connections. Sizes are bytes, times are seconds.

    `requests`, `idle_seconds` and `age_seconds` end a connection's reuse; an age also brings changed addresses of a name into use.
    """

    head_bytes: int = 64 * 1024
    fields: int = 200
    informational: int = 8
    buffer_bytes: int = 64 * 1024
    unfolded_bytes: int = 64 * 1024 * 1024
    connections: int = 512
    waiters: int = 1024
    requests: int = 10_000
    idle_seconds: float = 60.0
    age_seconds: float = 600.0


DEFAULT_TIMEOUTS = Timeouts()
DEFAULT_LIMITS = Limits()
