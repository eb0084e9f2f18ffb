import subprocess
import sys

import pytest
from sqlalchemy import Engine, text

from tests.fakes.clock import FakeClock
from trunkline.access.keys import KEY, KeyRow, Keys
from trunkline.errors import BadRequest, Conflict, NotFound, StoreUnavailable
from trunkline.store.engine import reading, writing

FIRST_ADMIN = """
import sys
from trunkline.access.keys import Keys
from trunkline.base.clock import SystemClock
from trunkline.store.engine import open_engine

engine = open_engine(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
print(Keys(engine, SystemClock()).first_admin() is not None)
engine.dispose()
"""


def revoke(keys: Keys, name: str) -> KeyRow:
    return keys.revoke(keys.named(name).id)


def test_a_new_key_is_seen_once_and_kept_as_a_hash(keys: Keys, engine: Engine, clock: FakeClock) -> None:
    row, secret = keys.create("ci", {"inference"})
    assert KEY.fullmatch(secret.reveal())
    assert row == KeyRow(
        id=row.id,
        name="ci",
        prefix=secret.reveal()[:8],
        account="acc_default",
        user=None,
        scopes=frozenset({"inference"}),
        models=None,
        end_users="key",
        created_at=clock.now(),
        updated_at=clock.now(),
        expires_at=None,
        revoked_at=None,
        last_used_at=None,
        replaced_by=None,
        revision=1,
    )
    assert row.id.startswith("key_")
    assert row.id.removeprefix("key_").isalpha()
    with reading(engine) as connection:
        kept = connection.execute(text("SELECT * FROM keys")).one()
    assert secret.reveal() not in repr(kept)
    assert secret.reveal()[8:] not in repr(kept)
    assert len(kept.hash) == 64


def test_keys_are_listed_as_they_were_made_revoked_ones_too(keys: Keys, clock: FakeClock) -> None:
    made = []
    for name in ("a", "b", "c"):
        clock.advance(1)
        made.append(keys.create(name, {"metrics", "inference"}, clock.now() + 60)[0])
    revoked = revoke(keys, "b")
    assert keys.list() == [made[0], revoked, made[2]]
    assert revoked.revoked_at == clock.now()


@pytest.mark.parametrize("name", ["", "  ", "x" * 101, "two\nlines", "swb_thing", "key_thing"])
def test_a_name_that_says_nothing_or_misleads_is_refused(keys: Keys, name: str) -> None:
    with pytest.raises(BadRequest):
        keys.create(name, {"inference"})
    assert keys.list() == []


def test_a_key_that_could_do_nothing_is_refused(keys: Keys, clock: FakeClock) -> None:
    with pytest.raises(BadRequest, match="scope"):
        keys.create("ci", set())
    for past in (clock.now(), clock.now() - 1, float("nan")):
        with pytest.raises(BadRequest, match="expires_at"):
            keys.create("ci", {"inference"}, past)
    assert keys.list() == []


def test_the_name_of_the_server_s_own_key_is_not_for_others(keys: Keys) -> None:
    with pytest.raises(Conflict, match="admin"):
        keys.create("admin", {"admin"})


@pytest.mark.parametrize("by", ["id", "name", "prefix", "key"])
def test_a_key_is_found_by_whatever_names_it(keys: Keys, by: str) -> None:
    keys.create("other", {"inference"})
    row, secret = keys.create("ci", {"inference"})
    assert keys.named({"id": row.id, "name": row.name, "prefix": row.prefix, "key": secret.reveal()}[by]) == row


def test_an_unknown_key_is_not_found_and_the_nearest_is_named(keys: Keys) -> None:
    keys.create("laptop", {"inference"})
    with pytest.raises(NotFound) as caught:
        keys.named("lapdog")
    assert "`lapdog`" in caught.value.message
    assert "`laptop`" in caught.value.hint


@pytest.mark.parametrize("around", ["{}", "{}x", "Bearer {}"])
def test_a_whole_key_that_is_not_found_is_not_repeated(keys: Keys, around: str) -> None:
    wanted = around.format("swb_canaryCANARYcanaryCANARYcanary12")
    with pytest.raises(NotFound) as caught:
        keys.named(wanted)
    assert "swb_cana…" in caught.value.message
    assert "canaryC" not in caught.value.sentence


def test_a_revoked_key_is_not_revoked_again(keys: Keys) -> None:
    row, _ = keys.create("ci", {"inference"})
    keys.revoke(row.id)
    with pytest.raises(Conflict, match="already"):
        keys.revoke(row.id)
    with pytest.raises(Conflict, match="already"):
        keys.named("ci")


def test_a_name_that_several_live_keys_share_is_ambiguous_until_one_is_left(keys: Keys) -> None:
    first, _ = keys.create("ci", {"inference"})
    second, _ = keys.create("ci", {"inference"})
    with pytest.raises(Conflict) as caught:
        keys.named("ci")
    assert first.id in caught.value.hint
    assert second.id in caught.value.hint
    keys.revoke(first.id)
    assert keys.named("ci").id == second.id


def test_the_first_admin_key_is_made_once(keys: Keys) -> None:
    row, _ = keys.first_admin()
    assert (row.name, row.scopes) == ("admin", {"admin"})
    assert keys.first_admin() is None


def test_an_admin_key_of_a_person_is_admin_enough(keys: Keys) -> None:
    keys.create("ada", {"admin", "metrics"})
    assert keys.first_admin() is None


def test_dead_or_lesser_keys_are_no_admin(keys: Keys, clock: FakeClock) -> None:
    keys.create("ci", {"inference", "metrics"})
    keys.create("revoked", {"admin"})
    revoke(keys, "revoked")
    keys.create("expired", {"admin"}, clock.now() + 1)
    assert keys.first_admin() is None
    clock.advance(1)
    assert keys.first_admin() is not None


def test_a_reset_replaces_the_server_s_admin_keys_and_no_others(keys: Keys) -> None:
    old, _ = keys.first_admin()
    keys.create("ada", {"admin"})
    new, _ = keys.reset_admin()
    assert [(key.id, key.name) for key in keys.list() if key.revoked_at is None] == [
        (key.id, key.name) for key in keys.list() if key.name == "ada" or key.id == new.id
    ]
    assert {key.id for key in keys.list() if key.revoked_at is not None} == {old.id}


def test_a_reset_makes_the_first_admin_key_where_there_is_none(keys: Keys) -> None:
    row, _ = keys.reset_admin()
    assert keys.list() == [row]


def test_of_two_processes_that_start_at_once_one_makes_the_first_admin_key(keys: Keys, url: str) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", FIRST_ADMIN, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    assert sorted(process.communicate(timeout=30)[0] for process in processes) == ["False\n", "True\n"]
    assert len(keys.list()) == 1


def test_a_change_while_another_process_writes_is_unavailable_and_changes_nothing(keys: Keys, engine: Engine) -> None:
    with writing(engine), pytest.raises(StoreUnavailable):
        keys.create("ci", {"inference"})
    assert keys.list() == []
