from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, update

from trunkline.catalog.discovery import Evidence, Key
from trunkline.catalog.evidence import NEVER, EvidenceStore, Kept
from trunkline.catalog.listing import Found
from trunkline.errors import Conflict
from trunkline.model.card import Card, Lifecycle
from trunkline.store.engine import writing
from trunkline.store.tables.discoveries import TABLE

KEY = Key("home", "one")
LIST = Evidence(
    status="discovered",
    models=(Found("a"), Found("b", Card(context_window=9, max_output=5, lifecycle=Lifecycle(state="deprecated", retires_at="2026-12-11")))),
    observed_at=1000.5,
)
BEHIND = Evidence(
    status="discovered",
    models=(
        Found("a", Card(surfaces=frozenset({"responses", "messages"}), inputs=frozenset({"text", "image"}), tools=False)),
        Found("b", Card(surfaces=frozenset())),
    ),
    left_out=3,
    observed_at=1000.5,
)
"""What a daemon tells more than others."""


@pytest.fixture
def store(engine: Engine) -> EvidenceStore:
    return EvidenceStore(engine)


def test_what_is_kept_is_loaded(store: EvidenceStore) -> None:
    assert store.load(KEY) == Kept(None, NEVER)
    assert store.save_if(KEY, LIST, NEVER) == 1
    assert store.load(KEY) == Kept(LIST, 1)
    empty = Evidence(status="empty", observed_at=2000.0)
    assert store.save_if(KEY, empty, 1) == 2
    assert store.all() == {KEY: Kept(empty, 2)}


def test_what_a_daemon_tells_of_its_models_is_kept(store: EvidenceStore) -> None:
    store.save_if(KEY, BEHIND, NEVER)
    assert store.load(KEY).evidence == BEHIND


@pytest.mark.proves("catalog.fence")
def test_a_write_on_what_has_been_written_since_is_refused(store: EvidenceStore) -> None:
    store.save_if(KEY, LIST, NEVER)
    for expected in (NEVER, 2):
        with pytest.raises(Conflict):
            store.save_if(KEY, Evidence(status="empty", observed_at=2000.0), expected)
    assert store.load(KEY) == Kept(LIST, 1)


def test_a_deletion_has_a_revision_of_its_own(store: EvidenceStore) -> None:
    store.save_if(KEY, LIST, NEVER)
    assert store.delete(KEY) == 2
    assert store.load(KEY) == Kept(None, 2)
    with pytest.raises(Conflict):
        store.save_if(KEY, LIST, 1)
    assert store.save_if(KEY, LIST, 2) == 3
    assert store.delete(Key("nobody", "x")) == 1


@pytest.mark.proves("catalog.fence")
@pytest.mark.parametrize("begun", [False, True])
def test_of_sixteen_that_write_at_once_one_wins(store: EvidenceStore, begun: bool) -> None:
    expected = store.save_if(KEY, LIST, NEVER) if begun else NEVER

    def save(number: int) -> int:
        try:
            store.save_if(KEY, Evidence(status="discovered", models=(Found(f"m{number}"),), observed_at=float(number)), expected)
        except Conflict:
            return -1
        return number

    with ThreadPoolExecutor(16) as pool:
        won = [number for number in pool.map(save, range(16)) if number >= 0]
    assert len(won) == 1
    kept = store.load(KEY)
    assert kept.evidence is not None
    assert (kept.evidence.models, kept.revision) == ((Found(f"m{won[0]}"),), expected + 1)


def test_with_other_settings_a_provider_has_another_list_and_the_old_one_is_not_kept(store: EvidenceStore) -> None:
    store.save_if(KEY, LIST, NEVER)
    store.save_if(Key("other", "x"), LIST, NEVER)
    store.save_if(Key("home", "two"), LIST, NEVER)
    assert set(store.all()) == {Key("home", "two"), Key("other", "x")}


@pytest.mark.parametrize(
    "kept", ["", "{}", '{"models": [], "observed_at": 1, "schema": 999}', '{"models": [{"id": 7}], "observed_at": 1, "schema": 1}']
)
def test_what_this_version_cannot_read_is_as_if_it_were_not_there(store: EvidenceStore, engine: Engine, kept: str) -> None:
    store.save_if(KEY, LIST, NEVER)
    with writing(engine) as connection:
        connection.execute(update(TABLE).values(evidence=kept))
    assert store.load(KEY) == Kept(None, 1)
    assert store.save_if(KEY, LIST, 1) == 2
