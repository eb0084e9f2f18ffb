"""Leases by the kernel's file locks: exclusive over all processes on one data folder, and free the moment their holder dies.

Each name has a file, which stays: it holds the last token. The lock belongs to the open file, not to the process (flock(2)), so two
tasks of one process exclude each other, too. The folder has to be on a local file system.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from trunkline.base.clock import Clock
from trunkline.errors import StoreUnavailable
from trunkline.store.disk import unavailable
from trunkline.store.shared.contract import checked_name, next_token

FIRST_LOOK, LAST_LOOK = 0.005, 0.25
"""Seconds between two looks at a lock that somebody else has; each is twice as long as the one before, up to the last."""


class FileLease:
    """A lease that its holder has as long as it lives."""

    def __init__(self, token: int) -> None:
        self.token = token
        self.lost = asyncio.Event()

    @property
    def held(self) -> bool:
        """Whether the block that has it still runs."""
        return not self.lost.is_set()


class FileLeases:
    """Leases by locks on files.

    Args:
        folder: where the files are; made when it is needed, for its owner alone.
        clock: the time.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock

    @asynccontextmanager
    async def held(self, name: str) -> AsyncGenerator[FileLease]:
        """See `Leases`."""
        path = self._folder / f"{checked_name(name)}.lease"
        file = await self._locked(path)
        try:
            lease = FileLease(self._token(path, file))
            try:
                yield lease
            finally:
                lease.lost.set()
        finally:
            os.close(file)

    async def _locked(self, path: Path) -> int:
        """The descriptor of the file, locked."""
        look = FIRST_LOOK
        while True:
            file = self._opened(path)
            try:
                while not _lock(file):
                    await self._clock.sleep(look)
                    look = min(2 * look, LAST_LOOK)
                if _is_at(file, path):
                    return file
            except OSError as error:
                os.close(file)
                raise _unavailable(path, error) from error
            except BaseException:
                os.close(file)
                raise
            os.close(file)  # somebody removed the file while we waited for its lock, so that others would wait for another one

    def _opened(self, path: Path) -> int:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unavailable(path, error) from error

    def _token(self, path: Path, file: int) -> int:
        try:
            text = os.pread(file, 32, 0).partition(b"\n")[0]
            token = next_token(int(text) if text.isdigit() else 0, self._clock.now())
            os.pwrite(file, b"%020d\n" % token, 0)
        except OSError as error:
            raise _unavailable(path, error) from error
        return token


def _lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _unavailable(path: Path, error: OSError) -> StoreUnavailable:
    return unavailable(
        error, f"the lease's file `{path}` cannot be used", hint=f"Let this process write to `{path.parent}`, on a local disk."
    )
