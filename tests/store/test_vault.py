import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, select, update

from tests.fakes.clock import FakeClock
from trunkline.access.credentials import CredentialRow, Credentials
from trunkline.access.key_sources import EnvironmentSource, FileSource
from trunkline.access.sealing import TAG
from trunkline.access.vault import BATCH, Rotation, Vault
from trunkline.access.vault_key import VaultKey, new_key, write_keys
from trunkline.base.secret import Secret
from trunkline.errors import VaultUnavailable
from trunkline.store.engine import file_of, open_engine, reading, writing
from trunkline.store.tables import metadata
from trunkline.store.tables.credentials import TABLE
from trunkline.store.tables.vault_keys import TABLE as COUNTS

CANARY = "sk-canary/0123456789+abcdef="


@pytest.fixture
def source(tmp_path: Path) -> FileSource:
    return FileSource(tmp_path / "vault.key")


@pytest.fixture
def vault(engine: Engine, source: FileSource) -> Vault:
    return Vault(engine, source)


@pytest.fixture
def credentials(engine: Engine, vault: Vault, clock: FakeClock) -> Credentials:
    return Credentials(engine, vault, clock)


def keep(credentials: Credentials, count: int = 1, *, prefix: str = "") -> list[CredentialRow]:
    return [
        credentials.create(provider="openai", name=f"{prefix}{number}", secret=Secret(f"{CANARY}{prefix}{number:03}"))
        for number in range(count)
    ]


def rows(engine: Engine) -> list[Any]:
    with reading(engine) as connection:
        return list(connection.execute(select(TABLE).order_by(TABLE.c.id)).mappings())


def change(engine: Engine, wanted: str, **columns: object) -> None:
    """What somebody does who has the database and not the key."""
    with writing(engine) as connection:
        connection.execute(update(TABLE).where(TABLE.c.id == wanted).values(**columns))


def opened(engine: Engine, source: FileSource) -> list[str]:
    """All secrets, as a process sees them that has just begun."""
    vault = Vault(engine, source)
    return sorted(vault.open(TABLE, row).reveal() for row in rows(engine))


# ------------------------------------------------------------------------------------------------------------ seal and open
def test_the_first_secret_makes_the_key_and_none_is_made_before(credentials: Credentials, source: FileSource, vault: Vault) -> None:
    assert (vault.status().keys, source.read()) == ((), ())
    keep(credentials)
    [key] = source.read()
    assert [(each.id, each.current, each.seals, each.secrets) for each in vault.status().keys] == [(key.id, True, 1, 1)]


@pytest.mark.proves("vault.sealed")
def test_a_secret_opens_to_what_it_was_and_its_row_tells_nothing(credentials: Credentials, engine: Engine, source: FileSource) -> None:
    keep(credentials, 3)
    assert opened(engine, source) == [f"{CANARY}{number:03}" for number in range(3)]
    for row in rows(engine):
        assert b"canary" not in row["sealed"]
        assert "canary" not in str(dict(row))
        assert len(row["sealed"]) == 13 + len(CANARY) + 3 + TAG


@pytest.mark.parametrize(
    ("column", "value"),
    [("account", "acc_b"), ("user", "usr_b"), ("provider", "evil"), ("name", "other"), ("id", "cred_other"), ("key_id", "vk_other")],
)
@pytest.mark.proves("vault.bound")
def test_a_row_that_somebody_changed_does_not_open(
    credentials: Credentials, engine: Engine, source: FileSource, column: str, value: str
) -> None:
    [row] = keep(credentials)
    change(engine, row.id, **{column: value})
    with pytest.raises(VaultUnavailable) as caught:
        opened(engine, source)
    assert "canary" not in caught.value.sentence
    assert value in caught.value.message or row.id in caught.value.message


@pytest.mark.proves("vault.bound")
def test_a_secret_that_is_copied_onto_another_row_does_not_open(credentials: Credentials, engine: Engine, vault: Vault) -> None:
    first, second = keep(credentials, 2)
    [stolen] = [row for row in rows(engine) if row["id"] == first.id]
    change(engine, second.id, sealed=stolen["sealed"], key_id=stolen["key_id"])
    assert vault.status().locked == (second.id,)


def test_a_key_that_has_sealed_often_enough_seals_no_more_until_there_is_another(
    engine: Engine, source: FileSource, clock: FakeClock
) -> None:
    vault = Vault(engine, source, most_seals=3)
    credentials = Credentials(engine, vault, clock)
    keep(credentials, 3)
    with pytest.raises(VaultUnavailable) as caught:
        keep(credentials, prefix="more")
    assert "3 times" in caught.value.message
    assert "trunkline vault rotate" in caught.value.hint
    assert len(rows(engine)) == 3
    Vault(engine, source).rotate()
    vault = Vault(engine, source, most_seals=4)
    keep(Credentials(engine, vault, clock), prefix="more")
    with reading(engine) as connection:
        assert sorted(connection.execute(select(COUNTS.c.seals)).scalars()) == [3, 4]


@pytest.mark.proves("vault.rotation")
def test_a_lost_key_is_never_replaced_while_something_needs_it(
    credentials: Credentials, engine: Engine, source: FileSource, tmp_path: Path
) -> None:
    keep(credentials, 2)
    (tmp_path / "vault.key").rename(tmp_path / "away")
    with pytest.raises(VaultUnavailable) as caught:
        keep(credentials, prefix="more")
    assert "2 secrets" in caught.value.message
    with pytest.raises(VaultUnavailable):
        Vault(engine, source).rotate()
    assert not (tmp_path / "vault.key").exists()
    state = Vault(engine, source).status()
    assert [(key.present, key.secrets) for key in state.keys] == [(False, 2)]
    assert len(state.locked) == 2
    (tmp_path / "away").rename(tmp_path / "vault.key")
    assert len(opened(engine, source)) == 2


class Forgetful:
    """A place that keeps nothing, as a keyring without a real backend."""

    where, changeable = "the forgetful place", True

    def read(self) -> tuple[VaultKey, ...]:
        return ()

    def make(self, key: VaultKey) -> None:
        pass

    write = make


def test_a_place_that_keeps_no_key_is_noticed_before_anything_is_sealed(engine: Engine, clock: FakeClock) -> None:
    with pytest.raises(VaultUnavailable, match="did not keep the key"):
        keep(Credentials(engine, Vault(engine, Forgetful()), clock))
    assert rows(engine) == []


# ----------------------------------------------------------------------------------------------------------------- rotation
@pytest.mark.proves("vault.rotation")
def test_a_rotation_seals_everything_anew_and_removes_the_old_key(
    credentials: Credentials, engine: Engine, source: FileSource, vault: Vault
) -> None:
    count = 2 * BATCH + 3
    keep(credentials, count)
    [old] = source.read()
    before = rows(engine)
    seen: list[tuple[int, int]] = []
    done = vault.rotate(lambda so_far, of: seen.append((so_far, of)))
    [new] = source.read()
    assert new != old
    assert done == Rotation(key=new.id, resumed=False, sealed=count, removed=(old.id,), removable=(), locked=())
    assert seen == [(0, count), (BATCH, count), (2 * BATCH, count), (count, count)]
    assert opened(engine, source) == [f"{CANARY}{number:03}" for number in range(count)]
    after = rows(engine)
    assert {row["key_id"] for row in after} == {new.id}
    unchanged = set(TABLE.c.keys()) - {"key_id", "sealed"}
    assert [{name: row[name] for name in unchanged} for row in after] == [{name: row[name] for name in unchanged} for row in before]


def test_a_rotation_of_an_empty_vault_changes_the_key_or_makes_the_first(vault: Vault, source: FileSource) -> None:
    first = vault.rotate()
    assert (first.sealed, first.removed) == (0, ())
    second = vault.rotate()
    assert (second.removed, [key.id for key in source.read()]) == ((first.key,), [second.key])


@pytest.mark.proves("vault.rotation")
def test_whoever_opened_before_opens_after_and_seals_with_the_new_key(
    credentials: Credentials, engine: Engine, source: FileSource, vault: Vault
) -> None:
    keep(credentials)
    assert vault.open(TABLE, rows(engine)[0]).reveal() == f"{CANARY}000"
    done = Vault(engine, source).rotate()
    assert vault.open(TABLE, rows(engine)[0]).reveal() == f"{CANARY}000"
    keep(credentials, prefix="more")
    assert {row["key_id"] for row in rows(engine)} == {done.key}


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def steps(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Everything that changes something outside the process is a step; `die_at` says before which one it ends."""
    left = [10**9]

    def step(*_: object) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Killed

    def before(real: Callable[..., Any]) -> Callable[..., Any]:
        def patched(*given: Any, **named: Any) -> Any:
            step()
            return real(*given, **named)

        return patched

    def statement(_connection: object, _cursor: object, text: str, *_: object) -> None:
        if not text.startswith("SELECT"):
            step()

    event.listen(engine, "before_cursor_execute", statement)
    event.listen(engine, "commit", step)
    monkeypatch.setattr(os, "fsync", before(os.fsync))
    monkeypatch.setattr(Path, "replace", before(Path.replace))

    def die_at(number: int) -> None:
        left[0] = number

    yield die_at
    event.remove(engine, "before_cursor_execute", statement)
    event.remove(engine, "commit", step)


@pytest.mark.proves("vault.rotation")
def test_a_rotation_that_is_killed_at_any_step_loses_nothing_and_goes_on(
    credentials: Credentials, engine: Engine, source: FileSource, steps: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.access.vault.BATCH", 2)
    keep(credentials, 5)
    wanted = [f"{CANARY}{number:03}" for number in range(5)]
    number = 0
    while True:
        number += 1
        [before] = source.read()
        steps(number)
        try:
            Vault(engine, source).rotate()
        except Killed:
            steps(10**9)
        else:
            break
        assert opened(engine, source) == wanted, f"killed at step {number}"
        done = Vault(engine, source).rotate()
        assert opened(engine, source) == wanted, f"killed at step {number}, and rotated again"
        assert [key.id for key in source.read()] == [done.key]
        assert before.id != done.key
    assert number > 20


KILLED = """
import os, signal, sys
from pathlib import Path
from trunkline.access.key_sources import FileSource
from trunkline.access.vault import Vault
from trunkline.store.engine import open_engine

url, key, until = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])

def progress(done, of):
    if done >= until:
        os.kill(os.getpid(), signal.SIGKILL)

Vault(open_engine(url), FileSource(key)).rotate(progress)
"""


@pytest.mark.parametrize("until", [0, BATCH, 2 * BATCH])
@pytest.mark.proves("vault.rotation")
def test_a_rotation_whose_process_is_killed_goes_on_in_another(
    credentials: Credentials, engine: Engine, source: FileSource, url: str, tmp_path: Path, until: int
) -> None:
    keep(credentials, 2 * BATCH)
    [old] = source.read()
    assert (
        subprocess.run([sys.executable, "-c", KILLED, url, str(tmp_path / "vault.key"), str(until)], check=False).returncode
        == -signal.SIGKILL
    )
    new, kept = source.read()
    assert kept == old
    wanted = [f"{CANARY}{number:03}" for number in range(2 * BATCH)]
    assert opened(engine, source) == wanted
    done = Vault(engine, source).rotate()
    assert (done.key, done.resumed, done.sealed, done.removed) == (new.id, True, 2 * BATCH - until, (old.id,))
    assert opened(engine, source) == wanted


@pytest.mark.proves("vault.rotation")
def test_credentials_may_be_added_and_two_may_rotate_at_once(
    engine: Engine, source: FileSource, url: str, tmp_path: Path, clock: FakeClock
) -> None:
    keep(Credentials(engine, Vault(engine, source), clock), 20)
    failures: list[BaseException] = []

    def run(work: Callable[[Engine], object]) -> None:
        own = open_engine(url)
        try:
            work(own)
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)
        finally:
            own.dispose()

    def rotate(own: Engine) -> None:
        for _ in range(5):
            Vault(own, FileSource(tmp_path / "vault.key")).rotate()

    def add(own: Engine) -> None:
        for number in range(20):
            keep(Credentials(own, Vault(own, FileSource(tmp_path / "vault.key")), clock), prefix=f"more {number} ")

    threads = [threading.Thread(target=run, args=(work,)) for work in (rotate, rotate, add)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(opened(engine, source)) == 40
    Vault(engine, source).rotate()
    assert len(source.read()) == 1
    assert len(opened(engine, source)) == 40


@pytest.mark.proves("vault.rotation")
def test_a_secret_that_does_not_open_keeps_its_key_and_is_told(
    credentials: Credentials, engine: Engine, source: FileSource, vault: Vault
) -> None:
    _, broken, last = keep(credentials, 3)
    [old] = source.read()
    change(engine, broken.id, name="other")
    done = vault.rotate()
    assert (done.sealed, done.locked, done.removed) == (2, (broken.id,), ())
    assert [key.id for key in source.read()] == [done.key, old.id]
    credentials.delete(broken.id)
    again = vault.rotate()
    assert (again.key, again.resumed, again.removed) == (done.key, True, (old.id,))
    assert last.id in {row["id"] for row in rows(engine)}


def test_keys_of_the_environment_are_the_operators_to_change(engine: Engine, clock: FakeClock) -> None:
    old, new = new_key(), new_key()
    environment = {"KEY": write_keys([old])}
    vault = Vault(engine, EnvironmentSource("KEY", environment))
    keep(Credentials(engine, vault, clock), 2)
    with pytest.raises(VaultUnavailable, match="nobody but you"):
        vault.rotate()
    environment["KEY"] = write_keys([new, old])
    done = vault.rotate()
    assert (done.key, done.sealed, done.removed, done.removable) == (new.id, 2, (), (old.id,))
    environment["KEY"] = write_keys([new])
    assert vault.status().locked == ()


# ------------------------------------------------------------------------------------------------------------------- others
@pytest.mark.proves("vault.unread")
def test_neither_a_secret_nor_a_key_is_anywhere_in_the_database(
    credentials: Credentials, engine: Engine, source: FileSource, url: str
) -> None:
    keep(credentials, 3)
    Vault(engine, source).rotate()
    [key] = source.read()
    canaries = [b"canary", key.material, key.sealing, key.material.hex().encode(), write_keys([key]).strip().encode()]
    with reading(engine) as connection:
        for table in metadata().sorted_tables:
            for row in connection.execute(select(table)):
                said = b" ".join(value if isinstance(value, bytes) else str(value).encode() for value in row)
                assert [canary for canary in canaries if canary in said] == [], table
    engine.dispose()
    if (file := file_of(url)) is not None:
        for path in file.parent.glob("trunkline.sqlite*"):
            assert [canary for canary in canaries if canary in path.read_bytes()] == [], path


@pytest.mark.proves("vault.key-alone")
def test_a_key_that_others_can_read_opens_nothing(credentials: Credentials, engine: Engine, source: FileSource, tmp_path: Path) -> None:
    keep(credentials)
    (tmp_path / "vault.key").chmod(0o644)
    for use in (lambda: opened(engine, source), lambda: keep(credentials, prefix="x"), lambda: Vault(engine, source).rotate()):
        with pytest.raises(VaultUnavailable, match="others can read"):
            use()


def test_a_key_that_is_put_back_is_the_same_one(vault: Vault, source: FileSource) -> None:
    vault.rotate()
    [key] = source.read()
    assert VaultKey(key.material).id == key.id
