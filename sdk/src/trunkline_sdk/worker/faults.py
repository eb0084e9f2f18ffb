"""An exception in words: for the host, in one line, and whole for the extension's log."""

import sys
import traceback
from collections.abc import Iterator
from contextlib import suppress
from typing import Literal

from trunkline_sdk.rpc.errors import RpcError

Stage = Literal["import", "entry", "activate", "deactivate"]

MOST_CHARACTERS = 500

PASSING = frozenset({"deadline_exceeded", "cancelled", "rate_limited"})
"""What a host's answer may be once, and not again."""


def refusal(stage: Stage, error: BaseException, folder: str) -> RpcError:
    """Why an extension does not run, as the host is told.

    It would fail again, unless memory had run out, or the host had no time for it.
    """
    name, text, place = type(error).__name__, _text(error), _place(error, folder)
    told = f"{name}: {text}" if text else name
    details = {"stage": stage, "error": name, "at": place}
    retryable = isinstance(error, MemoryError) or (isinstance(error, RpcError) and (error.retryable or error.code in PASSING))
    return RpcError("failed", f"{told} ({place})" if place else told, retryable=retryable, details=details)


def show(error: BaseException) -> None:
    """Write it to stderr, with its stack; an exception of the extension's may not like to be printed, and its stderr may be gone."""
    try:
        traceback.print_exception(error)
    except Exception:  # noqa: BLE001 - as above
        say(f"{type(error).__name__}, which cannot be printed")


def say(text: str) -> None:
    """Write a line to the extension's log, if it has left that one open."""
    with suppress(Exception):
        print(text, file=sys.stderr)  # noqa: T201 - it is the extension's log


def _text(error: BaseException) -> str:
    try:
        text = str(error.msg if isinstance(error, SyntaxError) else error)
    except Exception:  # noqa: BLE001 - as above
        return ""
    return " ".join(text.split())[:MOST_CHARACTERS]


def _place(error: BaseException, folder: str) -> str:
    """The last line of the extension's own that it came through: `main.py:3`."""
    start = folder.rstrip("/") + "/"
    places = [(file.removeprefix(start), line) for file, line in _lines(error) if file.startswith(start)]
    return "{}:{}".format(*places[-1]) if places else ""


def _lines(error: BaseException) -> Iterator[tuple[str, int]]:
    for frame, line in traceback.walk_tb(error.__traceback__):
        yield frame.f_code.co_filename, line
    if isinstance(error, SyntaxError) and error.filename:
        yield error.filename, error.lineno or 0
