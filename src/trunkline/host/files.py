"""Files of one folder, for whoever may name a path in it but nothing outside: no link leads out, at any moment, also to what is not there yet.

On Linux 5.6 and later the kernel resolves the whole path (openat2(2): beneath, no links); elsewhere each part is opened by itself, without
following links. Names are compared nowhere: a check of a string and the opening after it would be two moments.
"""

import ctypes
import errno
import os
import stat
from secrets import token_hex
from types import TracebackType
from typing import Self

from trunkline.errors import PermissionDenied, TooLarge
from trunkline.host.sandbox.inside.kernel import call

BENEATH, NO_LINKS, NO_MAGIC_LINKS = 0x08, 0x04, 0x02  # RESOLVE_*
OUTSIDE = {errno.ELOOP, errno.EXDEV, errno.EMLINK}
"""What the kernel says to a link, to a way out, and (some of the BSDs) to a link that is not to be followed."""
MOST = 64 << 20  # bytes
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Folder:
    """A folder that is there. Paths are relative to it, with `/`; `.`, `..`, empty parts, NUL and what is no text are refused.

    Every method raises `PermissionDenied` for a path that leads out of the folder, or to what is no plain file, and `OSError` as the system does.
    """

    def __init__(self, path: str, *, walks: bool | None = None) -> None:
        self._place = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._walks = not _resolves(self._place) if walks is None else walks

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._place)

    def read(self, path: str, *, most: int = MOST) -> bytes:
        """A file's content. Raises: `TooLarge`, over so many bytes."""
        place = self._open(path, os.O_RDONLY | os.O_NONBLOCK)  # a FIFO would be waited for
        if not stat.S_ISREG(os.fstat(place).st_mode):
            os.close(place)
            raise PermissionDenied(f"`{path}` is no plain file")
        with open(place, "rb") as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise TooLarge(f"`{path}` is larger than {most} bytes")
        return content

    def write(self, path: str, content: bytes) -> None:
        """Put a file there, whole or not at all, in the place of one that may be there."""
        *above, name = _parts(path)
        parent = self._folder(above, path)
        draft = f".{token_hex(8)}"
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent), "wb") as file:
                try:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                    os.rename(draft, name, src_dir_fd=parent, dst_dir_fd=parent)
                except BaseException:
                    os.unlink(draft, dir_fd=parent)
                    raise
        finally:
            os.close(parent)

    def make(self, path: str) -> None:
        """Make a folder, and those above it that are missing."""
        made: list[str] = []
        for part in _parts(path):
            parent = self._folder(made, path)
            try:
                os.mkdir(part, 0o700, dir_fd=parent)
            except FileExistsError:
                pass  # whether it is a folder is seen by whoever looks into it
            finally:
                os.close(parent)
            made.append(part)
        os.close(self._folder(made, path))

    def names(self, path: str = "") -> list[str]:
        """What is in a folder, sorted; by default in the whole."""
        place = self._folder(_parts(path) if path else [], path)
        try:
            return sorted(os.listdir(place))
        finally:
            os.close(place)

    def remove(self, path: str) -> None:
        """Remove a file, or a link itself."""
        *above, name = _parts(path)
        parent = self._folder(above, path)
        try:
            os.unlink(name, dir_fd=parent)
        finally:
            os.close(parent)

    def _folder(self, parts: list[str], told: str) -> int:
        return self._open_parts(parts, FOLDER, told) if parts else os.open(".", FOLDER, dir_fd=self._place)

    def _open(self, path: str, flags: int) -> int:
        return self._open_parts(_parts(path), flags | os.O_NOFOLLOW | os.O_CLOEXEC, path)

    def _open_parts(self, parts: list[str], flags: int, told: str) -> int:
        try:
            if not self._walks:
                return _beneath(self._place, "/".join(parts), flags)
            return self._walk(parts, flags)
        except OSError as error:
            if error.errno in OUTSIDE or (error.errno == errno.ENOTDIR and self._has_link(parts)):
                raise PermissionDenied(f"`{told}` leads over a link", hint="Name the file itself.") from None
            raise

    def _walk(self, parts: list[str], flags: int) -> int:
        *above, name = parts
        place = os.dup(self._place)
        try:
            for part in above:
                below = os.open(part, FOLDER, dir_fd=place)
                os.close(place)
                place = below
            return os.open(name, flags, dir_fd=place)
        finally:
            os.close(place)

    def _has_link(self, parts: list[str]) -> bool:
        """Whether a link is why a part is no folder (O_DIRECTORY and O_NOFOLLOW together say the same of both); for the message alone."""
        place = os.dup(self._place)
        try:
            for part in parts:
                if stat.S_ISLNK(os.stat(part, dir_fd=place, follow_symlinks=False).st_mode):
                    return True
                below = os.open(part, FOLDER, dir_fd=place)
                os.close(place)
                place = below
        except OSError:
            return False
        finally:
            os.close(place)
        return False


def _parts(path: str) -> list[str]:
    parts = path.split("/")
    if "\0" in path or any(part in {"", ".", ".."} for part in parts) or not _is_text(path):
        raise PermissionDenied(
            f"`{path}` is no path within the folder", hint="Use names and `/` alone: no `..`, nothing before the first name."
        )
    return parts


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:  # half of a pair of surrogates, which JSON can bring
        return False
    return True


def _beneath(place: int, path: str, flags: int) -> int:
    return call("openat2", place, path.encode(), _How(flags, 0, BENEATH | NO_LINKS | NO_MAGIC_LINKS), ctypes.sizeof(_How))


def _resolves(place: int) -> bool:
    """Whether the kernel has openat2(2), and lets us call it."""
    try:
        os.close(_beneath(place, ".", FOLDER))
    except OSError:
        return False
    return True


class _How(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]
