"""Whose the data folder is: one server's at a time; and where that one is found."""

import fcntl
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from trunkline.errors import Conflict, StoreUnavailable

PID_FILE = "trunkline.pid"
URL_FILE = "trunkline.url"


@contextmanager
def sole_user(data: Path) -> Generator[None]:
    """Hold the data folder's lock, with this process's id in it for `trunkline reload`; the folder is made if need be, for its owner alone.

    Raises:
        Conflict: another process holds it.
        StoreUnavailable: the folder cannot be made or written to.
    """
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = (data / PID_FILE).open("a+", encoding="ascii")
    except OSError as error:
        raise StoreUnavailable(
            f"the data folder `{data}` cannot be used: {error.strerror}",
            hint="Let this process write to it, or name another one with `--data`.",
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise Conflict(
                f"another Trunkline (process {file.read().strip() or '?'}) uses the data folder `{data}`",
                hint="Stop it, or give this one another folder with `--data`.",
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def user(data: Path) -> int | None:
    """The process that has the data folder now, if one has.

    The lock says so, and not the file, which a killed process leaves behind: its id may be anybody's by now.
    """
    try:
        with (data / PID_FILE).open(encoding="ascii") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read())
    except (OSError, ValueError):
        pass
    return None


@dataclass(frozen=True, slots=True)
class Place:
    """Where the folder's server listens.

    Attributes:
        url: its address.
        pin: SHA-256 of its certificate (DER), in hexadecimal digits; empty without TLS.
    """

    url: str
    pin: str = ""


@contextmanager
def listening(data: Path, urls: Sequence[str], pin: str = "") -> Generator[None]:
    """Tell the command line where the folder's server listens, while it does, and by which certificate it is known."""
    path = data / URL_FILE
    try:
        path.touch(mode=0o600)
        path.write_text("".join(f"{url} {pin}".rstrip() + "\n" for url in urls), encoding="ascii")
    except OSError as error:
        raise StoreUnavailable(
            f"the data folder `{data}` cannot be written to: {error.strerror}", hint="Let this process write to it."
        ) from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def place_of(data: Path) -> Place | None:
    """Where the folder's server listens; nowhere, if none runs."""
    if user(data) is None:
        return None
    try:
        lines = (data / URL_FILE).read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((Place(*line.split()) for line in lines), None)
