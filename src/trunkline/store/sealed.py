"""A sealed file: encrypted under a passphrase, and read back only whole, unchanged and in order.

    magic │ u32 length, head (JSON: how the key comes from the passphrase) │ chunk │ chunk │ …
    chunk = u32 length, AES-256-GCM of up to 64 KiB;  nonce = its number (11 bytes) and whether it is the last (1 byte)

The key is of this file alone (a random salt), so that numbers may be nonces. Magic and head are authenticated with every chunk. A
chunk that is missing, moved, doubled or changed, or that follows the last one, does not open.
"""

import os
import struct
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from trunkline.base.codec import Malformed, Wire, decode_raw, encode
from trunkline.base.secret import Secret
from trunkline.errors import BackupUnusable, Conflict
from trunkline.store.disk import unavailable

MAGIC = b"trunkline backup 1\n"
CHUNK = 64 << 10
TAG = 16
LONGEST_HEAD = 1024
COST = 1 << 17
"""scrypt's n: with r = 8 it takes 128 MiB and about half a second for each guess at the passphrase."""
HIGHEST_COST = 1 << 20

_LENGTH = struct.Struct(">I")


class _Head(Wire, frozen=True):
    """How the key comes from the passphrase (scrypt, RFC 7914)."""

    salt: bytes
    n: int
    r: int = 8
    p: int = 1


class Seal:
    """Writes a sealed file.

    Args:
        file: where to.
        passphrase: what opens it again.
        cost: scrypt's n.
    """

    def __init__(self, file: BinaryIO, passphrase: Secret, *, cost: int = COST) -> None:
        head = _Head(salt=os.urandom(16), n=cost)
        text = encode(head)
        self._file = file
        self._head = MAGIC + _LENGTH.pack(len(text)) + text
        self._cipher = _cipher(passphrase, head)
        self._pending = bytearray()
        self._number = 0
        file.write(self._head)

    def write(self, data: bytes) -> None:
        """Add plain bytes."""
        self._pending += data
        while len(self._pending) > CHUNK:  # the last one may be full, and is never empty but in an empty file
            self._seal(bytes(self._pending[:CHUNK]), last=False)
            del self._pending[:CHUNK]

    def finish(self) -> None:
        """Write the last chunk; without it, the file does not open."""
        self._seal(bytes(self._pending), last=True)
        self._pending.clear()

    def _seal(self, plain: bytes, *, last: bool) -> None:
        sealed = self._cipher.encrypt(_nonce(self._number, last=last), plain, self._head)
        self._file.write(_LENGTH.pack(len(sealed)) + sealed)
        self._number += 1


def unsealed(file: BinaryIO, passphrase: Secret) -> Iterator[bytes]:
    """The plain bytes of a sealed file, piece by piece. They are all of it only when the last piece has come.

    Raises:
        BackupUnusable: it is no such file, the passphrase is another one, or a chunk is missing, moved or changed.
    """
    head, raw = _read_head(file)
    cipher = _cipher(passphrase, head)
    number = 0
    following = _read_chunk(file, number)
    if following is None:
        raise _cut(number)
    while (sealed := following) is not None:
        following = _read_chunk(file, number + 1)
        try:
            plain = cipher.decrypt(_nonce(number, last=following is None), sealed, raw)
        except InvalidTag:
            if number:
                raise _cut(number) from None
            raise BackupUnusable(
                "the passphrase does not open this backup", hint="If it is the right one, the file was changed; take another copy."
            ) from None
        yield plain
        number += 1


@contextmanager
def new_file(path: Path) -> Generator[BinaryIO]:
    """A file (0600) that is at its path only when the block has ended well, whole and on the disk.

    Raises:
        Conflict: something is at the path already.
        StoreUnavailable: it cannot be written.
    """
    beside = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    try:
        with _opened(beside) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _put(beside, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        hint = f"Look at the space and the permissions of `{path.absolute().parent}`."
        raise unavailable(error, f"`{path}` cannot be written", hint=hint) from error
    finally:
        with suppress(OSError):
            beside.unlink()


def _put(beside: Path, path: Path) -> None:
    """Give a file its name, and replace nothing."""
    try:
        try:
            os.link(beside, path)
        except PermissionError:  # the file system has no second names: look first, then, a moment later, rename
            if path.exists():
                raise FileExistsError from None
            beside.rename(path)
    except FileExistsError:
        raise Conflict(f"`{path}` exists already", hint="Name another file, or move that one away.") from None


def _opened(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")


def _cipher(passphrase: Secret, head: _Head) -> AESGCM:
    return AESGCM(Scrypt(salt=head.salt, length=32, n=head.n, r=head.r, p=head.p).derive(passphrase.reveal().encode()))


def _nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(11) + bytes([last])


def _read_head(file: BinaryIO) -> tuple[_Head, bytes]:
    """How the key is made, and the bytes that say so."""
    raw = file.read(len(MAGIC) + _LENGTH.size)
    if not raw.startswith(MAGIC) or len(raw) < len(MAGIC) + _LENGTH.size:
        raise BackupUnusable("this is no backup of Trunkline", hint="`trunkline backup PATH` makes one.")
    (length,) = _LENGTH.unpack_from(raw, len(MAGIC))
    text = file.read(min(length, LONGEST_HEAD + 1))
    try:
        head = decode_raw(text, _Head)
    except Malformed:
        head = None
    # A head that asks for more than this is not ours: it would take all the memory there is.
    if head is None or len(text) != length or not _sensible(head):
        raise BackupUnusable("the beginning of this backup is damaged", hint="Take another copy of it.")
    return head, raw + text


def _sensible(head: _Head) -> bool:
    return 2 <= head.n <= HIGHEST_COST and head.n.bit_count() == 1 and head.r == 8 and head.p == 1 and len(head.salt) == 16


def _read_chunk(file: BinaryIO, number: int) -> bytes | None:
    """The next sealed chunk, or `None` at the end."""
    prefix = file.read(_LENGTH.size)
    if not prefix:
        return None
    length = _LENGTH.unpack(prefix)[0] if len(prefix) == _LENGTH.size else 0
    sealed = file.read(length) if TAG <= length <= CHUNK + TAG else b""
    if not sealed or len(sealed) != length:
        raise _cut(number)
    return sealed


def _cut(number: int) -> BackupUnusable:
    return BackupUnusable("this backup is cut or was changed", hint="Take another copy of it.", chunk=number)
