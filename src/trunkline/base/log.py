"""The log: one structured line per event, secrets masked, written beside the event loop."""

import logging
import os
import re
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Generic, Literal, TextIO, TypeVar, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger

from trunkline.base import codec
from trunkline.base.clock import SystemClock
from trunkline.base.codec import Meta, Record

T = TypeVar("T")
Level = Literal["debug", "info", "warning", "error"]
Logger = FilteringBoundLogger

QUEUED = 10_000  # lines that may wait for a slow reader before further ones are dropped and counted
TOGETHER = 0.05  # seconds in which lines are gathered after one was written

_SECRETS = re.compile(
    r"""(?P<before>[?&][\w.-]*(?:key|token|secret|password|signature|sig)=|\b(?:bearer|basic)\s+)[^\s&"'\\]+"""
    r"""|(?P<user>://[^\s/:@"']*:)[^\s/@"']+(?=@)"""
    r"""|\bswb_[A-Za-z0-9]{8,}|\b(?:sk|gsk|xai|pk|rk)-[A-Za-z0-9_-]{12,}""",
    re.IGNORECASE,
)
# No secret without one of these, and nearly no line with one: looking for them first takes 1 µs instead of 30.
_SIGNS = ("=", "bearer", "basic", "swb_", "sk-", "xai-", "pk-", "rk-", "@")

_STEERING = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069]")


class LogSettings(Record, frozen=True):
    """What is logged, and how it looks."""

    level: Annotated[Level, Meta(description="The least severe lines that are written.")] = "info"
    format: Annotated[
        Literal["auto", "json", "console"], Meta(description="`auto` writes for people on a terminal, and JSON elsewhere.")
    ] = "auto"


def mask(line: str) -> str:
    """A line without what looks like a credential. A second net: no line is given one in the first place."""
    if not _may_hold_secrets(line):
        return line
    return _SECRETS.sub(lambda found: f"{found['before'] or found['user'] or ''}***", line)


def _may_hold_secrets(text: str) -> bool:
    small = text.lower()
    return any(sign in small for sign in _SIGNS)


def printable(text: str, most: int) -> str:
    """Somebody else's text for one line: so many characters of it, and none that steers a terminal or begins another line."""
    cut = text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"
    return _STEERING.sub(lambda found: repr(found[0])[1:-1], cut)


class Writer(Generic[T]):
    """Renders lines, masks and writes them in a thread of its own, so that a slow terminal or pipe never holds up a request.

    A line is written at once when none was for a while, and else together with those that follow it: a thread that woke for each would
    take the interpreter's lock from the event loop each time.
    """

    def __init__(self, stream: TextIO, render: Callable[[T], str]) -> None:
        self._stream = stream
        self._render = render
        self._lines: deque[T] = deque()
        self._dropped = 0
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def write(self, line: T) -> None:
        """Queue a line."""
        if len(self._lines) < QUEUED:
            self._lines.append(line)
        else:
            self._dropped += 1
        if not self._wake.is_set():
            self._wake.set()

    def close(self) -> None:
        """Write what is queued, and end."""
        self._closing.set()
        self._wake.set()
        self._thread.join(timeout=2)

    def _run(self) -> None:
        with suppress(OSError, ValueError):  # the reader is gone; there is nobody left to tell
            while self._wake.wait():
                self._write_queued()
                if self._closing.wait(TOGETHER):
                    self._write_queued()
                    return
                if not self._lines:
                    self._wake.clear()
                    if self._lines:  # it came before the event was cleared, and nobody will set it for that one
                        self._wake.set()

    def _write_queued(self) -> None:
        lines = [f"{self._render(self._lines.popleft())}\n" for _ in range(len(self._lines))]
        text = "".join(lines)
        if _may_hold_secrets(text):  # hardly ever, so that all are looked at together first
            text = "".join(map(mask, lines))
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            text += f"{codec.text({'event': 'log lines dropped', 'level': 'warning', 'count': dropped})}\n"
        try:
            self._stream.write(text)
        except UnicodeEncodeError:  # the stream's encoding has fewer letters than our callers
            self._stream.write(text.encode("ascii", "replace").decode())
        self._stream.flush()


class _Sink:
    """What structlog calls with the finished event."""

    def __init__(self, writer: Writer[EventDict]) -> None:
        self._write = writer.write

    def msg(self, **event: object) -> None:
        self._write(event)

    debug = info = warning = error = critical = exception = msg


class _Bridge(logging.Handler):
    """Lines of libraries that use the standard library's logging."""

    def __init__(self, log: Logger) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        level = min(record.levelno // 10 * 10, logging.CRITICAL)  # libraries may have levels of their own in between
        self._log.log(level, record.getMessage(), logger=record.name, exc_info=record.exc_info)


def open_log(settings: LogSettings, stream: TextIO) -> tuple[Logger, Writer[EventDict]]:
    """A logger, and the writer behind it, which the caller closes at the end."""
    for_people = settings.format == "console" or (settings.format == "auto" and stream.isatty())
    writer = Writer[EventDict](stream, _for_people(colors=_colours(stream)) if for_people else _json)
    log = structlog.wrap_logger(
        _Sink(writer),
        processors=[structlog.processors.add_log_level, _stamp, structlog.processors.format_exc_info],
        wrapper_class=structlog.make_filtering_bound_logger(settings.level),
    )
    bound = cast(Logger, log.bind())
    root = logging.getLogger()
    root.handlers[:] = [_Bridge(bound)]
    return bound, writer


def _stamp(_logger: object, _method: str, event: EventDict) -> EventDict:
    event["timestamp"] = SystemClock.now()
    return event


def _json(event: EventDict) -> str:
    line = {"time": _time(event.pop("timestamp")), "level": event.pop("level"), "event": event.pop("event"), **event}
    try:
        return codec.text(line)
    except TypeError:  # a value that JSON has no word for
        return codec.text({name: str(value) for name, value in line.items()})


def _colours(stream: TextIO) -> bool:
    """Whether it is a terminal that has colours, and nobody said that they want none (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _for_people(*, colors: bool) -> Callable[[EventDict], str]:
    console = structlog.dev.ConsoleRenderer(colors=colors)
    return lambda event: str(console(None, "", {**event, "timestamp": _time(event["timestamp"])}))


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
