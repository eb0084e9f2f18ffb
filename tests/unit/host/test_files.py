import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from trunkline.errors import PermissionDenied, TooLarge
from trunkline.host.files import Folder

SECRET = b"canary"
ROUNDS = 3_000
PATIENCE = 30.0


@pytest.fixture(params=[False, True], ids=["the kernel resolves", "part by part"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Folder]:
    (tmp_path / "inside" / "deep").mkdir(parents=True)
    (tmp_path / "inside" / "deep" / "file").write_bytes(b"content")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(SECRET)
    with Folder(str(tmp_path / "inside"), walks=True if request.param else None) as folder:
        yield folder


def test_files_are_read_written_listed_and_removed(folder: Folder) -> None:
    assert folder.read("deep/file") == b"content"
    folder.write("deep/file", b"new")
    folder.write("deep/other", b"")
    assert folder.read("deep/file") == b"new"
    assert folder.names("deep") == ["file", "other"]
    assert folder.names() == ["deep"]
    folder.make("deep/a/b/c")
    folder.make("deep/a/b/c")
    folder.write("deep/a/b/c/file", b"x")
    folder.remove("deep/a/b/c/file")
    assert folder.names("deep/a/b/c") == []
    with pytest.raises(FileNotFoundError):
        folder.read("deep/none")
    with pytest.raises(FileNotFoundError):
        folder.write("none/file", b"x")


@pytest.mark.proves("host.files")
@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../outside/secret",
        "deep/../../outside/secret",
        "",
        ".",
        "deep/",
        "deep//file",
        "./deep/file",
        "a\0b",
        "a\udcff",
        "\ud83d",
    ],
)
def test_what_is_no_path_within_is_refused(folder: Folder, path: str) -> None:
    for attempt in (folder.read, folder.remove, folder.make, lambda path: folder.write(path, b"x")):
        with pytest.raises(PermissionDenied, match="is no path within"):
            attempt(path)


@pytest.mark.proves("host.files")
def test_links_lead_nowhere_whatever_they_point_to(folder: Folder, tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    (inside / "file").symlink_to(outside / "secret")
    (inside / "folder").symlink_to(outside)
    (inside / "near").symlink_to("deep")
    (inside / "dangling").symlink_to(outside / "new")
    (inside / "process").symlink_to("/proc/self/root")
    for path in ("file", "folder/secret", "near/file", "dangling", "process/etc/passwd"):
        with pytest.raises(PermissionDenied, match="leads over a link"):
            folder.read(path)
    for path in ("folder/new", "near/new"):
        with pytest.raises(PermissionDenied, match="leads over a link"):
            folder.write(path, b"x")
        with pytest.raises(PermissionDenied, match="leads over a link"):
            folder.make(path)
    with pytest.raises(PermissionDenied, match="leads over a link"):
        folder.names("folder")
    with pytest.raises(PermissionDenied, match="leads over a link"):
        folder.remove("folder/secret")
    with pytest.raises(PermissionDenied, match="leads over a link"):
        folder.make("dangling")
    assert [path.name for path in outside.iterdir()] == ["secret"]


@pytest.mark.proves("host.files")
def test_writing_to_a_link_replaces_the_link(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "inside" / "file").symlink_to(tmp_path / "outside" / "secret")
    folder.write("file", b"mine")
    assert folder.read("file") == b"mine"
    assert (tmp_path / "outside" / "secret").read_bytes() == SECRET
    (tmp_path / "inside" / "new").symlink_to(tmp_path / "outside" / "made")
    folder.write("new", b"mine")
    folder.remove("new")
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["secret"]


@pytest.mark.proves("host.files")
def test_links_that_come_and_go_meanwhile_lead_nowhere(folder: Folder, tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    (outside / "file").write_bytes(SECRET)
    stopped = threading.Event()

    def swap() -> None:
        (inside / "link").symlink_to(outside)
        while not stopped.is_set():
            for old, new in (("deep", "away"), ("link", "deep"), ("deep", "link"), ("away", "deep")):
                (inside / old).rename(inside / new)

    swapping = threading.Thread(target=swap)
    swapping.start()
    seen: set[bytes] = set()
    refused = 0
    try:
        number, deadline = 0, time.monotonic() + PATIENCE
        while number < ROUNDS or not (seen and refused):  # on a busy machine one thread may have all the rounds for itself
            assert time.monotonic() < deadline
            number += 1
            try:
                seen.add(folder.read("deep/file"))
                folder.write(f"deep/{number}", b"x")
            except (PermissionDenied, FileNotFoundError, NotADirectoryError):
                refused += 1
    finally:
        stopped.set()
        swapping.join()
    assert seen == {b"content"}
    assert refused
    assert sorted(path.name for path in outside.iterdir()) == ["file", "secret"]


def test_what_is_no_plain_file_is_not_waited_for(folder: Folder, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "inside" / "pipe")
    with pytest.raises(PermissionDenied, match="no plain file"):
        folder.read("pipe")
    with pytest.raises(PermissionDenied, match="no plain file"):
        folder.read("deep")


def test_a_file_that_is_too_large_is_refused(folder: Folder) -> None:
    with pytest.raises(TooLarge, match="larger than 6 bytes"):
        folder.read("deep/file", most=6)
    assert folder.read("deep/file", most=7) == b"content"


def test_a_write_that_fails_leaves_what_was_there(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        folder.write("deep/file", b"new")
    assert folder.read("deep/file") == b"content"
    assert folder.names("deep") == ["file"]
