"""What a daemon takes, and how long it waits."""

from dataclasses import dataclass

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonLimits:
    """Bounds of one daemon. Sizes are bytes, times are seconds.

    The defaults are those that the daemon contract advises (A3, A6, C1, K).
    """

    operation_bytes: int = 64 * _MIB
    """The body of an invoke or stream. More is 413."""

    control_bytes: int = _MIB
    """The body of a refresh or sign-in step. More is 413."""

    header_bytes: int = 96 * 1024
    """Names and values of a request's headers together. More is 431; the listener's own bound lies above it."""

    body_seconds: float = 60.0
    """The longest silence while a request's body arrives."""

    most_seconds: float = 3600.0
    """A longer `X-Timeout` is cut to this."""

    default_seconds: float | None = 600.0
    """Waits for the beginning of an answer, and between its pieces, where the product sets no `X-Timeout`; none is no bound."""

    control_seconds: float = 29.0
    """A list of models, or a step of a sign-in, in all: less than the 30 s after which products give up."""

    refresh_seconds: float = 25.0
    """How long a request waits for its refresh. The refresh itself goes on, and a repeated request gets what came of it."""

    remembered_seconds: float = 60.0
    """How long what came of a refresh is kept, in memory, for a product that lost the answer (K9)."""

    keepalive_seconds: float | None = 15.0
    """A stream that has been silent for this long gets a comment, which no client shows; none sends no comments."""

    record_bytes: int = 4 * _MIB
    """One record of a stream (A6). A longer one breaks the stream, as it would at the client."""

    operations: int = 1000
    """Operations under way at the same time. More is 503."""


DEFAULT_LIMITS = DaemonLimits()
