"""A sealed file opens whole, unchanged and in order, or not at all."""

import errno
import io
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trunkline.base.secret import Secret
from trunkline.errors import BackupUnusable, Conflict, StoreFull, StoreReadOnly, StoreUnavailable
from trunkline.store import sealed
from trunkline.store.sealed import CHUNK, MAGIC, Seal, new_file, unsealed

PASSPHRASE = Secret("correct horse battery staple")
CHEAP = 2
PLAIN = b"".join(b"canary %07d\n" % number for number in range(4 * CHUNK // 15 + 1000))


def seal(plain: bytes, passphrase: Secret = PASSPHRASE, *, pieces: int = 1000) -> bytes:
    file = io.BytesIO()
    writer = Seal(file, passphrase, cost=CHEAP)
    for start in range(0, len(plain), pieces):
        writer.write(plain[start : start + pieces])
    writer.finish()
    return file.getvalue()


def opened(data: bytes, passphrase: Secret = PASSPHRASE) -> bytes:
    return b"".join(unsealed(io.BytesIO(data), passphrase))


def parts(data: bytes) -> list[bytes]:
    """The head, then each chunk with its length."""
    at = len(MAGIC) + 4 + struct.unpack_from(">I", data, len(MAGIC))[0]
    found = [data[:at]]
    while at < len(data):
        end = at + 4 + struct.unpack_from(">I", data, at)[0]
        found.append(data[at:end])
        at = end
    return found


SEALED = seal(PLAIN, pieces=10_000)
PARTS = parts(SEALED)


def test_the_example_has_several_chunks() -> None:
    assert len(PARTS) == 6
    assert opened(SEALED) == PLAIN


@given(st.binary(max_size=3000), st.integers(1, 400))
def test_what_was_sealed_opens_however_it_was_written(plain: bytes, pieces: int) -> None:
    assert opened(seal(plain, pieces=pieces)) == plain


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 7])
def test_any_size_opens_and_ends_with_its_last_chunk(size: int) -> None:
    data = seal(bytes(size), pieces=CHUNK)
    assert opened(data) == bytes(size)
    assert len(parts(data)) - 1 == max(1, -(-size // CHUNK))


def test_nothing_of_what_was_sealed_can_be_read_in_the_file() -> None:
    assert b"canary" not in SEALED
    assert PASSPHRASE.reveal().encode() not in SEALED
    assert seal(PLAIN) != seal(PLAIN), "each has a key of its own"


@pytest.mark.parametrize("passphrase", ["correct horse battery stapl", "Correct horse battery staple", "", "x" * 10_000])
def test_another_passphrase_does_not_open_it(passphrase: str) -> None:
    with pytest.raises(BackupUnusable, match="passphrase") as caught:
        opened(SEALED, Secret(passphrase))
    assert caught.value.hint


@pytest.mark.proves("backup.sealed")
@pytest.mark.parametrize("number", range(1, len(PARTS)))
@pytest.mark.parametrize("where", ["length", "beginning", "middle", "end"])
def test_a_byte_that_changed_in_any_chunk_is_noticed(number: int, where: str) -> None:
    at = (
        sum(map(len, PARTS[:number]))
        + {"length": 3, "beginning": 4, "middle": len(PARTS[number]) // 2, "end": len(PARTS[number]) - 1}[where]
    )
    data = bytearray(SEALED)
    data[at] ^= 1
    with pytest.raises(BackupUnusable):
        opened(bytes(data))


@pytest.mark.proves("backup.sealed")
@given(st.data())
@settings(max_examples=300)
def test_no_bit_of_a_file_can_change_and_no_end_be_missing(data: st.DataObject) -> None:
    whole = bytearray(seal(b"some rows " * 10))
    if data.draw(st.booleans()):
        del whole[data.draw(st.integers(0, len(whole) - 1)) :]
    else:
        whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(BackupUnusable):
        opened(bytes(whole))


@pytest.mark.proves("backup.sealed")
@pytest.mark.parametrize("number", range(1, len(PARTS)))
def test_a_file_that_is_cut_anywhere_is_noticed(number: int) -> None:
    before = b"".join(PARTS[:number])
    for rest in (b"", PARTS[number][:2], PARTS[number][:4], PARTS[number][:-1], PARTS[number][:-16]):
        with pytest.raises(BackupUnusable):
            opened(before + rest)


OTHER = parts(seal(PLAIN))
SHUFFLED: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "two changed places": lambda all_: [all_[0], all_[2], all_[1], *all_[3:]],
    "one is missing": lambda all_: [*all_[:2], *all_[3:]],
    "the first is missing": lambda all_: [all_[0], *all_[2:]],
    "one is there twice": lambda all_: [*all_[:3], all_[2], *all_[3:]],
    "the last is there twice": lambda all_: [*all_, all_[-1]],
    "the last is first": lambda all_: [all_[0], all_[-1], *all_[1:-1]],
    "only the last is left": lambda all_: [all_[0], all_[-1]],
    "none is left": lambda all_: [all_[0]],
    "something follows": lambda all_: [*all_, b"x"],
    "one of another file with the same passphrase": lambda all_: [*all_[:2], OTHER[2], *all_[3:]],
    "the head of another file": lambda all_: [OTHER[0], *all_[1:]],
    "a chunk without anything in it": lambda all_: [*all_, struct.pack(">I", 0)],
    "a chunk that is too long": lambda all_: [*all_[:2], struct.pack(">I", 1 << 31), *all_[3:]],
}


@pytest.mark.proves("backup.sealed")
@pytest.mark.parametrize("how", SHUFFLED)
def test_chunks_that_are_not_in_their_places_are_noticed(how: str) -> None:
    with pytest.raises(BackupUnusable):
        opened(b"".join(SHUFFLED[how](PARTS)))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"SQLite format 3\0" + bytes(100),
        MAGIC,
        MAGIC + struct.pack(">I", 1 << 31) + b"{}",
        MAGIC + struct.pack(">I", 2) + b"{}",
        *(
            MAGIC + struct.pack(">I", len(head)) + head + bytes(100)
            for head in (
                b'{"salt":"AAAAAAAAAAAAAAAAAAAAAA==","n":1073741824}',
                b'{"salt":"AAAAAAAAAAAAAAAAAAAAAA==","n":131072,"r":1000000}',
                b'{"salt":"AAAAAAAAAAAAAAAAAAAAAA==","n":131072,"p":1000000}',
                b'{"salt":"AAAAAAAAAAAAAAAAAAAAAA==","n":3}',
                b'{"salt":"","n":2}',
            )
        ),
    ],
)
def test_what_is_no_backup_or_would_take_all_memory_is_refused_at_once(data: bytes) -> None:
    with pytest.raises(BackupUnusable) as caught:
        opened(data)
    assert caught.value.hint


def test_the_cost_of_a_guess_is_what_the_field_recommends() -> None:
    """OWASP, Password Storage Cheat Sheet: scrypt with N = 2^17, r = 8, p = 1."""
    file = io.BytesIO()
    Seal(file, PASSPHRASE).finish()
    assert b'"n":131072' in file.getvalue()
    assert opened(file.getvalue()) == b""


# ------------------------------------------------------------------------------------------------------------ the file
def test_a_new_file_is_for_its_owner_alone_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with new_file(path) as file:
        file.write(b"x")
        assert not path.exists(), "not before it is whole"
        [beside] = tmp_path.iterdir()
        assert beside.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes() == b"x"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_was_not_finished_is_not_there(tmp_path: Path) -> None:
    def interrupted() -> None:
        with new_file(tmp_path / "file") as file:
            file.write(b"x")
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("names", [True, False], ids=["with links", "without links"])
def test_nothing_is_replaced(tmp_path: Path, names: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not names:

        def refuse(*_: object) -> None:
            raise PermissionError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)
        with new_file(tmp_path / "new") as file:
            file.write(b"new")
        assert (tmp_path / "new").read_bytes() == b"new"
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(Conflict, match="exists already"), new_file(tmp_path / "file") as file:
        file.write(b"x")
    assert (tmp_path / "file").read_bytes() == b"mine"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("number", "kind"),
    [(errno.ENOSPC, StoreFull), (errno.EROFS, StoreReadOnly), (errno.EACCES, StoreReadOnly), (errno.EIO, StoreUnavailable)],
)
def test_what_the_disk_refuses_has_its_code(
    tmp_path: Path, number: int, kind: type[StoreUnavailable], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(sealed.os, "fsync", refuse)
    with pytest.raises(StoreUnavailable) as caught, new_file(tmp_path / "file") as file:
        file.write(b"x")
    assert type(caught.value) is kind
    assert str(tmp_path / "file") in caught.value.message
    assert list(tmp_path.iterdir()) == []
