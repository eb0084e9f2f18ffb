import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from trunkline.access import key_sources
from trunkline.access.key_sources import ENTRY, EnvironmentSource, FileSource, KeyringSource, key_source
from trunkline.access.vault_key import VaultKey, VaultSettings, new_key, write_keys
from trunkline.errors import VaultUnavailable

OLD, NEW = VaultKey(b"o" * 32), VaultKey(b"n" * 32)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def text(*keys: VaultKey) -> str:
    return write_keys(keys)


# ------------------------------------------------------------------------------------------------------------------ files
@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "vault.key"


@pytest.fixture
def file(path: Path) -> FileSource:
    return FileSource(path)


def test_a_file_that_is_not_there_yet_holds_no_key(file: FileSource) -> None:
    assert file.read() == ()


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o777])
@pytest.mark.proves("vault.key-alone")
def test_a_first_key_is_its_owners_alone_whatever_the_mask_says(file: FileSource, path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        file.make(NEW)
        assert mode(path) == 0o600
        file.write([OLD, NEW])
    finally:
        os.umask(before)
    assert mode(path) == 0o600
    assert file.read() == (OLD, NEW)
    assert [each.name for each in path.parent.iterdir()] == ["vault.key"], "nothing else is left there"


def test_a_missing_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    FileSource(tmp_path / "data" / "vault.key").make(NEW)
    assert mode(tmp_path / "data") == 0o700


def test_a_first_key_never_takes_another_ones_place(file: FileSource) -> None:
    file.make(OLD)
    with pytest.raises(VaultUnavailable, match="File exists"):
        file.make(NEW)
    assert file.read() == (OLD,)


@pytest.mark.parametrize("bits", [0o040, 0o020, 0o010, 0o004, 0o002, 0o001, 0o077])
@pytest.mark.proves("vault.key-alone")
def test_a_file_that_others_may_touch_is_refused_with_what_to_do(file: FileSource, path: Path, bits: int) -> None:
    file.make(NEW)
    path.chmod(0o600 | bits)
    with pytest.raises(VaultUnavailable) as caught:
        file.read()
    assert f"{0o600 | bits:04o}" in caught.value.message
    assert f"chmod 600 {path}" in caught.value.hint
    assert text(NEW).strip() not in caught.value.sentence
    path.chmod(0o400)
    assert file.read() == (NEW,)


def make_folder(path: Path) -> None:
    path.mkdir()


def make_pipe(path: Path) -> None:
    os.mkfifo(path, 0o600)


@pytest.mark.parametrize("make", [make_folder, make_pipe])
def test_what_is_no_file_is_refused_at_once(file: FileSource, path: Path, make: Callable[[Path], None]) -> None:
    make(path)
    with pytest.raises(VaultUnavailable):
        file.read()


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"canary", b"\xff\xfe canary"])
def test_a_file_without_a_key_is_no_reason_to_make_one(file: FileSource, path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(VaultUnavailable) as caught:
        file.read()
    assert "canary" not in caught.value.sentence


def test_a_link_stays_one_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    FileSource(real).make(OLD)
    link.symlink_to(real)
    FileSource(link).write([NEW])
    assert link.is_symlink()
    assert FileSource(real).read() == (NEW,)


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.proves("vault.rotation")
def test_a_file_that_cannot_be_replaced_stays_as_it_was(file: FileSource, path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    file.make(OLD)

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails) if step == "fsync" else monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(VaultUnavailable, match="No space left"):
        file.write([NEW])
    monkeypatch.undo()
    assert file.read() == (OLD,)
    assert [each.name for each in path.parent.iterdir()] == ["vault.key"]


# ------------------------------------------------------------------------------------------------------------ environment
def test_a_variable_holds_keys_the_first_one_being_current() -> None:
    assert EnvironmentSource("KEY", {"KEY": text(NEW, OLD).replace("\n", ",")}).read() == (NEW, OLD)


def test_a_variable_that_is_named_and_not_set_says_how_to_make_a_key() -> None:
    with pytest.raises(VaultUnavailable, match="`KEY` holds no key") as caught:
        EnvironmentSource("KEY", {}).read()
    assert "openssl rand -base64 32" in caught.value.hint


def test_a_variable_is_changed_by_nobody_but_the_operator() -> None:
    source = EnvironmentSource("KEY", {"KEY": text(OLD)})
    for change in (lambda: source.make(NEW), lambda: source.write([NEW, OLD])):
        with pytest.raises(VaultUnavailable) as caught:
            change()
        assert "before the present one" in caught.value.hint
    assert not source.changeable


# ---------------------------------------------------------------------------------------------------------------- keyring
class NoKeyringError(RuntimeError):
    """As the library calls it."""


class Keyring(ModuleType):
    """The library, with one of its backends."""

    def __init__(self) -> None:
        super().__init__("keyring")
        self.kept: dict[tuple[str, str], str] = {}
        self.fails: Exception | None = None

    def get_password(self, service: str, user: str) -> str | None:
        if self.fails:
            raise self.fails
        return self.kept.get((service, user))

    def set_password(self, service: str, user: str, password: str) -> None:
        if self.fails:
            raise self.fails
        self.kept[service, user] = password


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> Keyring:
    library = Keyring()
    monkeypatch.setitem(sys.modules, "keyring", library)
    return library


def test_a_keyring_keeps_keys_under_the_service_that_is_named(keyring: Keyring) -> None:
    source = KeyringSource("trunkline")
    assert source.read() == ()
    source.make(OLD)
    source.write([NEW, OLD])
    assert source.read() == (NEW, OLD)
    assert list(keyring.kept) == [("trunkline", ENTRY)]


@pytest.mark.parametrize("error", [NoKeyringError("no backend"), PermissionError("canary"), RuntimeError("canary")])
def test_a_keyring_that_does_not_work_is_told_without_its_words(keyring: Keyring, error: Exception) -> None:
    keyring.fails = error
    for use in (lambda: KeyringSource("trunkline").read(), lambda: KeyringSource("trunkline").make(NEW)):
        with pytest.raises(VaultUnavailable) as caught:
            use()
        assert "leave `vault.key` out" in caught.value.hint
        assert "canary" not in caught.value.sentence


def test_without_the_library_the_way_to_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(VaultUnavailable) as caught:
        KeyringSource("trunkline").read()
    assert "trunkline[keyring]" in caught.value.hint


# --------------------------------------------------------------------------------------------------------------- settings
@pytest.mark.parametrize(
    ("setting", "kind"),
    [
        (None, FileSource),
        ("file:/run/secrets/vault", FileSource),
        ("env:TRUNKLINE_VAULT_KEY", EnvironmentSource),
        ("keyring:trunkline", KeyringSource),
    ],
)
def test_the_setting_names_the_place(tmp_path: Path, setting: str | None, kind: type) -> None:
    source = key_source(VaultSettings(key=setting), tmp_path, {"TRUNKLINE_VAULT_KEY": text(OLD)})
    assert isinstance(source, kind)
    assert (setting.partition(":")[2] if setting else f"{tmp_path}/vault.key") in source.where


def test_by_default_the_key_is_in_the_data_folder(tmp_path: Path) -> None:
    key_source(VaultSettings(), tmp_path).make(new_key())
    assert (tmp_path / key_sources.FILE_NAME).is_file()
