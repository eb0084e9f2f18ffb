"""Where the vault's keys are: a file, the environment, or the system's keyring. Never the database.

What is read is never repeated in an error.
"""

import importlib
import os
import stat
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, cast

from trunkline.access.vault_key import HEAD, MAKE, VaultKey, VaultSettings, read_keys, write_keys
from trunkline.errors import VaultUnavailable

FILE_NAME = "vault.key"
MOST_BYTES = 1 << 16
ENTRY = "vault"
"""The user name of the keyring's entry."""


class KeySource(Protocol):
    """A place for keys."""

    @property
    def where(self) -> str:
        """The place, for people."""
        ...

    @property
    def changeable(self) -> bool:
        """Whether this program can put keys there; else only the operator can."""
        ...

    def read(self) -> tuple[VaultKey, ...]:
        """The keys, the current one first; none where none was made yet. Raises: `VaultUnavailable`."""
        ...

    def make(self, key: VaultKey) -> None:
        """Put the first key there. Raises: `VaultUnavailable`, also where another one is there by now."""
        ...

    def write(self, keys: Sequence[VaultKey]) -> None:
        """Put these keys there in place of what is there, in one step. Raises: `VaultUnavailable`, and then nothing has changed."""
        ...


def key_source(settings: VaultSettings, data: Path, environment: Mapping[str, str] = os.environ) -> KeySource:
    """The place that the configuration names; by default a file in the data folder."""
    place, _, name = (settings.key or f"file:{data / FILE_NAME}").partition(":")
    match place:
        case "env":
            return EnvironmentSource(name, environment)
        case "keyring":
            return KeyringSource(name)
        case _:
            return FileSource(Path(name).expanduser())


class FileSource:
    """A file for its owner alone: one that others may read or write is refused."""

    changeable = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self.where = f"the file `{path}`"

    def read(self) -> tuple[VaultKey, ...]:
        """The keys. Raises: `VaultUnavailable`."""
        try:
            # Not held up by a pipe of that name; and what is judged is what is read.
            with os.fdopen(os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                state = os.fstat(file.fileno())
                self._judge(state)
                text = file.read(MOST_BYTES).decode("ascii")
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise self._failed("read", error) from None
        except UnicodeDecodeError:
            raise VaultUnavailable(f"{self.where} holds something else than the vault's keys", hint="Put back a copy of it.") from None
        keys = read_keys(text, self.where)
        if not keys:
            raise VaultUnavailable(f"{self.where} holds no key", hint="Put back a copy of it; if there never was one, remove the file.")
        return keys

    def make(self, key: VaultKey) -> None:
        """Put the first key there; a file that is there already stays. Raises: `VaultUnavailable`."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            name = self._written([key], self._path)
            try:
                os.link(name, self._path)  # unlike a renaming, it never takes another file's place
            finally:
                Path(name).unlink()
            _sync(self._path.parent)
        except OSError as error:
            raise self._failed("made", error) from None

    def write(self, keys: Sequence[VaultKey]) -> None:
        """Replace the file, whole. Raises: `VaultUnavailable`."""
        try:
            path = self._path.resolve()  # a link stays one
            name = self._written(keys, path)
            try:
                Path(name).replace(path)
            except BaseException:
                with suppress(OSError):
                    Path(name).unlink()
                raise
            _sync(path.parent)
        except OSError as error:
            raise self._failed("written", error) from None

    def _judge(self, state: os.stat_result) -> None:
        if not stat.S_ISREG(state.st_mode):
            raise VaultUnavailable(f"{self.where} is no regular file", hint="Name another one in `vault.key`.")
        if state.st_mode & 0o077:
            raise VaultUnavailable(
                f"others can read {self.where} (mode {stat.S_IMODE(state.st_mode):04o}), so that it is not used",
                hint=f"`chmod 600 {self._path}`; if somebody may have read it, `trunkline vault rotate`, and replace the credentials.",
            )

    def _written(self, keys: Sequence[VaultKey], path: Path) -> str:
        """A new file beside the path, 0600 from its first byte, on the disk."""
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                os.fchmod(descriptor, 0o600)  # the umask may have left less
                file.write(HEAD + write_keys(keys))
                file.flush()
                os.fsync(descriptor)
        except BaseException:
            Path(name).unlink()
            raise
        return name

    def _failed(self, what: str, error: OSError) -> VaultUnavailable:
        return VaultUnavailable(
            f"{self.where} cannot be {what}: {error.strerror}",
            hint="Let the user of this process do that, or name another place in `vault.key`.",
        )


class EnvironmentSource:
    """A variable, which only the operator changes."""

    changeable = False

    def __init__(self, name: str, environment: Mapping[str, str]) -> None:
        self._name = name
        self._environment = environment
        self.where = f"the environment variable `{name}`"

    def read(self) -> tuple[VaultKey, ...]:
        """The keys. Raises: `VaultUnavailable`."""
        keys = read_keys(self._environment.get(self._name, ""), self.where)
        if not keys:
            raise VaultUnavailable(f"{self.where} holds no key, and `vault.key` names it", hint=f"Make one with `{MAKE}`.")
        return keys

    def make(self, key: VaultKey) -> None:
        """Never possible. Raises: `VaultUnavailable`."""
        self.write([key])

    def write(self, keys: Sequence[VaultKey]) -> None:  # noqa: ARG002 - there is nowhere to put them
        """Never possible. Raises: `VaultUnavailable`."""
        raise VaultUnavailable(
            f"{self.where} can be changed by nobody but you",
            hint=f"Put a new key (`{MAKE}`) before the present one, with a comma between, restart the servers, and ask again.",
        )


class _Keyring(Protocol):
    """What is used of the library `keyring` (https://keyring.readthedocs.io)."""

    def get_password(self, service: str, user: str) -> str | None: ...

    def set_password(self, service: str, user: str, password: str) -> None: ...


class KeyringSource:
    """An entry of the system's keyring, by the library `keyring`."""

    changeable = True

    def __init__(self, service: str) -> None:
        self._service = service
        self.where = f"the entry `{service}` of the system's keyring"

    def read(self) -> tuple[VaultKey, ...]:
        """The keys. Raises: `VaultUnavailable`."""
        library = _keyring()
        try:
            text = library.get_password(self._service, ENTRY)
        except Exception as error:  # noqa: BLE001 - each of its backends has errors of its own
            raise self._failed("read", error) from None
        return read_keys(text or "", self.where)

    def make(self, key: VaultKey) -> None:
        """Put the first key there. Raises: `VaultUnavailable`."""
        self.write([key])

    def write(self, keys: Sequence[VaultKey]) -> None:
        """Replace the entry. Raises: `VaultUnavailable`."""
        library = _keyring()
        try:
            library.set_password(self._service, ENTRY, write_keys(keys))
        except Exception as error:  # noqa: BLE001 - each of its backends has errors of its own
            raise self._failed("written", error) from None

    def _failed(self, what: str, error: Exception) -> VaultUnavailable:
        if type(error).__name__ == "NoKeyringError":
            return VaultUnavailable(
                "this system has no keyring that `keyring` knows", hint="Use a file instead: leave `vault.key` out of the configuration."
            )
        return VaultUnavailable(  # its words may quote what it was given
            f"{self.where} cannot be {what} ({type(error).__name__})", hint="Unlock the keyring, or use a file: leave `vault.key` out."
        )


def _keyring() -> _Keyring:
    try:
        return cast(_Keyring, importlib.import_module("keyring"))
    except ImportError:
        raise VaultUnavailable(
            "`vault.key` names the system's keyring, and the library for it is not installed",
            hint='`pip install "trunkline[keyring]"`, or use a file: leave `vault.key` out of the configuration.',
        ) from None


def _sync(folder: Path) -> None:
    """Have a renaming on the disk, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
