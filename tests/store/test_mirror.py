"""The law of the mirror: reading what changed, again and again, comes to the same as reading everything once."""

import itertools
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, event

from tests.fakes.clock import FakeClock
from trunkline.access.accounts import Accounts
from trunkline.access.keys import Keys
from trunkline.access.mirror import Changes, EndUser, Known, Label, Mirror
from trunkline.access.users import Users
from trunkline.errors import CallerError
from trunkline.store.engine import open_engine


@dataclass
class Seen:
    """What somebody knows who is told of changes."""

    mirror: Mirror
    keys: dict[bytes, Known] = field(default_factory=dict)
    end_users: dict[Label, EndUser] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)

    def look(self) -> Changes | None:
        changes = self.mirror.read()
        if changes is not None:
            self.keys = {hashed: known for hashed, known in {**self.keys, **changes.keys}.items() if known is not None}
            self.end_users = {label: user for label, user in {**self.end_users, **changes.end_users}.items() if user is not None}
            self.gone |= changes.gone
        return changes

    @property
    def taken(self) -> set[str]:
        return {known.caller.id for known in self.keys.values()}


def everything(engine: Engine) -> Seen:
    seen = Seen(Mirror(engine))
    seen.look()
    return seen


NAMES = (f"a{number}" for number in itertools.count())
WHICH = st.integers(0, 4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("account"), st.just(0)),
        st.tuples(st.sampled_from(["disable account", "enable account", "delete account"]), WHICH),
        st.tuples(st.just("user"), st.tuples(WHICH, st.sampled_from(["owner", "member"]), st.sampled_from([None, "u1", "u2"]))),
        st.tuples(st.sampled_from(["disable user", "enable user", "delete user", "promote", "demote", "name u1", "unname"]), WHICH),
        st.tuples(st.just("key"), st.tuples(WHICH, st.none() | WHICH)),
        st.tuples(st.sampled_from(["revoke", "rotate", "narrow"]), WHICH),
        st.tuples(st.just("look"), st.just(0)),
    ),
    max_size=25,
)


class World:
    """All that can happen to some accounts; what may not is refused, and changes nothing."""

    def __init__(self, engine: Engine) -> None:
        clock = FakeClock()
        self.accounts, self.users, self.keys = Accounts(engine, clock), Users(engine, clock), Keys(engine, clock)
        self.ids: dict[str, list[str]] = {"account": [self.accounts.create(next(NAMES)).id], "user": [], "key": []}

    def do(self, step: str, value: Any) -> None:
        with suppress(CallerError):
            self._do(step, value)

    def _do(self, step: str, value: Any) -> None:
        match step, value:
            case "account", _:
                self.ids["account"].append(self.accounts.create(next(NAMES)).id)
            case "disable account" | "enable account", which:
                self.accounts.change(self._one("account", which), disabled=step.startswith("disable"))
            case "delete account", which:
                self.accounts.delete(self._one("account", which))
            case "user", (which, role, external_id):
                row = self.users.create("u", account=self._one("account", which), role=role, external_id=external_id)
                self.ids["user"].append(row.id)
            case "disable user" | "enable user", which:
                self.users.change(self._one("user", which), disabled=step.startswith("disable"))
            case "delete user", which:
                self.users.delete(self._one("user", which))
            case "promote" | "demote", which:
                self.users.change(self._one("user", which), role="owner" if step == "promote" else "member")
            case "name u1" | "unname", which:
                self.users.change(self._one("user", which), external_id="u1" if step == "name u1" else None)
            case "key", (which, None):
                self.ids["key"].append(self.keys.create("k", {"inference"}, account=self._one("account", which))[0].id)
            case "key", (_, which):
                user = self.users.get(self._one("user", which))
                self.ids["key"].append(self.keys.create("k", {"inference"}, account=user.account, user=user.id)[0].id)
            case "revoke", which:
                self.keys.revoke(self._one("key", which))
            case "rotate", which:
                self.ids["key"].append(self.keys.rotate(self._one("key", which), grace=0).key.id)
            case "narrow", which:
                self.keys.change(self._one("key", which), models=["m"])
            case _:
                raise AssertionError(step)

    def _one(self, kind: str, which: int) -> str:
        known = self.ids[kind] or ["nobody"]
        return known[which % len(known)]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_what_changed_again_and_again_is_everything_at_once(engine: Engine, steps: list[tuple[str, Any]]) -> None:
    seen, world = everything(engine), World(engine)
    ever: set[str] = set(seen.taken)
    for step, value in [*steps, ("look", 0)]:
        if step != "look":
            world.do(step, value)
            continue
        seen.look()
        whole = everything(engine)
        assert (seen.keys, seen.end_users) == (whole.keys, whole.end_users)
        assert ever - seen.taken <= seen.gone, "whatever was taken and is not any more was told"
        ever |= seen.taken
        assert seen.look() is None, "nothing has changed since"


def test_nothing_is_missed_while_others_write(url: str) -> None:
    engine = open_engine(url)
    try:
        seen = everything(engine)
        done = threading.Event()
        looker = threading.Thread(target=lambda: [seen.look() for _ in iter(done.is_set, True)])
        looker.start()
        writers = [threading.Thread(target=write, args=(engine,)) for _ in range(4)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        done.set()
        looker.join()
        seen.look()
        whole = everything(engine)
        assert (seen.keys, seen.end_users) == (whole.keys, whole.end_users)
        assert len(whole.keys) == 4 * 10
        assert len(seen.gone) <= 4 * 10
    finally:
        engine.dispose()


def write(engine: Engine) -> None:
    """Make twenty keys and revoke every other one."""
    keys = Keys(engine, FakeClock())
    for number in range(20):
        row, _ = keys.create("k", {"inference"})
        if number % 2:
            keys.revoke(row.id)


@pytest.fixture
def looks(engine: Engine) -> Callable[[], int]:
    """How many statements a look takes."""
    seen = everything(engine)

    def count() -> int:
        statements: list[str] = []

        def note(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if "SELECT" in statement:
                statements.append(statement)

        event.listen(engine, "before_cursor_execute", note)
        seen.look()
        event.remove(engine, "before_cursor_execute", note)
        return len(statements)

    return count


def test_a_look_at_what_has_not_changed_is_one_question(looks: Callable[[], int], keys: Keys) -> None:
    assert looks() == 1
    keys.create("k", {"inference"})
    assert looks() == 4
    assert looks() == 1
