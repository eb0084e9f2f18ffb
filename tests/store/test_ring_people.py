"""What changes of accounts, users and keys do to the callers that are known in memory, and to their calls."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

import pytest
from sqlalchemy import Engine, text

from tests.fakes.clock import FakeClock
from trunkline.access.accounts import Accounts
from trunkline.access.keys import Keys
from trunkline.access.mirror import Changes
from trunkline.access.ring import CHANNEL, KeyRing
from trunkline.access.users import Users
from trunkline.base.aio import Tasks
from trunkline.errors import Denied, StoreUnavailable, Unauthenticated
from trunkline.model.caller import Caller
from trunkline.store.engine import writing
from trunkline.store.shared.contract import Callback

HERE = "192.0.2.1"


@dataclass
class Bus:
    """Messages within a test; `cut` loses them, as a server that is away does."""

    ears: list[Callback] = field(default_factory=list)
    sent: list[tuple[str, bytes]] = field(default_factory=list)
    cut: bool = False

    async def publish(self, channel: str, message: bytes) -> None:
        if self.cut:
            raise StoreUnavailable("the bus is away")
        self.sent.append((channel, message))
        for ear in list(self.ears):
            ear(message)

    def subscribe(self, channel: str, callback: Callback) -> Callable[[], None]:
        assert channel == CHANNEL
        self.ears.append(callback)
        return lambda: self.ears.remove(callback)


@dataclass
class Rings:
    """Rings over one database, as several processes have them, and what each said."""

    engine: Engine
    clock: FakeClock
    gone: list[frozenset[str]] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    trouble: asyncio.Event = field(default_factory=asyncio.Event)
    taken: asyncio.Event = field(default_factory=asyncio.Event)

    def failed(self, where: str, error: BaseException) -> None:
        self.troubles.append(where)
        self.trouble.set()

    def ring(self, bus: Bus | None = None) -> KeyRing:
        ring = KeyRing(self.engine, self.clock, failed=self.failed, bus=bus)
        ring.when_gone(self.gone.append)
        take = ring._take

        def taking(changes: Changes) -> None:
            take(changes)
            self.taken.set()

        ring._take = taking
        return ring

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when a condition holds; it is looked at whenever a ring has taken a change."""
        async with asyncio.timeout(5):
            while not condition():
                self.taken.clear()
                await self.taken.wait()


@pytest.fixture
def rings(engine: Engine, clock: FakeClock) -> Rings:
    return Rings(engine, clock)


@pytest.fixture
async def ring(rings: Rings) -> AsyncGenerator[KeyRing]:
    ring = rings.ring()
    async with ring.running():
        yield ring
    assert rings.troubles == []


async def caller(ring: KeyRing, secret: object) -> Caller:
    await ring.refresh()
    return await ring.identify(secret.reveal(), HERE)


async def refused(ring: KeyRing, clock: FakeClock, secret: object) -> None:
    """The key is not taken, as soon as the change is known."""
    await ring.refresh()
    asked = len(clock.asked)
    async with Tasks(lambda *_: None) as tasks:
        task = tasks.start(ring.identify(secret.reveal(), HERE), name="ask")
        await asyncio.wait_for(clock.when(lambda: len(clock.asked) > asked), 5)
        clock.advance(clock.asked[-1])
        with pytest.raises(Unauthenticated):
            await task


# ------------------------------------------------------------------------------------------------------- who it is
async def test_a_caller_is_what_its_key_account_and_user_say(keys: Keys, users: Users, accounts: Accounts, ring: KeyRing) -> None:
    acme = accounts.create("acme").id
    ada = users.create("ada", account=acme, role="admin").id
    row, secret = keys.create("laptop", {"inference", "account"}, account=acme, user=ada, models=["fast"], end_users="request")
    assert await caller(ring, secret) == Caller(
        id=row.id,
        kind="person",
        name="laptop",
        scopes=frozenset({"inference", "account"}),
        account=acme,
        user=ada,
        role="admin",
        models=("fast",),
        end_users="request",
    )
    row, secret = keys.create("job", {"inference"}, account=acme)
    assert await caller(ring, secret) == Caller(id=row.id, kind="service", name="job", scopes=row.scopes, account=acme)
    row, secret = keys.create("boss", {"admin"})
    assert ((await caller(ring, secret)).role, (await caller(ring, secret)).kind) == ("owner", "service")


async def test_a_key_holds_no_more_than_its_user_may_from_now_on(keys: Keys, users: Users, ring: KeyRing) -> None:
    users.create("bob", role="owner")
    ada = users.create("ada", role="owner").id
    _, secret = keys.create("k", {"inference", "account", "admin"}, user=ada)
    assert "admin" in (await caller(ring, secret)).scopes
    users.change(ada, role="member")
    demoted = await caller(ring, secret)
    assert (demoted.scopes, demoted.role) == ({"inference"}, "member")


async def test_what_may_be_changed_of_a_key_holds_at_once(keys: Keys, ring: KeyRing, rings: Rings) -> None:
    row, secret = keys.create("k", {"inference"})
    await caller(ring, secret)
    keys.change(row.id, models=["a"], scopes={"metrics"}, name="l", end_users="request")
    changed = await caller(ring, secret)
    assert (changed.models, changed.scopes, changed.name, changed.end_users) == (("a",), {"metrics"}, "l", "request")
    assert rings.gone == [], "it is still taken"


async def test_a_row_that_this_version_does_not_understand_grants_the_least(
    keys: Keys, users: Users, ring: KeyRing, engine: Engine
) -> None:
    ada = users.create("ada", role="owner").id
    _, secret = keys.create("k", {"inference", "account"}, user=ada)
    with writing(engine) as connection:
        connection.execute(text("UPDATE users SET role = 'emperor'"))
        connection.execute(text("UPDATE keys SET models = '{', end_users = 'nobody'"))
    found = await caller(ring, secret)
    assert (found.role, found.scopes, found.models, found.end_users) == ("service", {"inference"}, (), "key")


# ------------------------------------------------------------------------------------------------------ who is gone
@pytest.mark.proves("revocation")
@pytest.mark.parametrize("how", ["revoke", "disable account", "delete account", "disable user", "delete user", "rotate"])
async def test_whatever_ends_a_key_ends_it_and_its_calls(
    keys: Keys, users: Users, accounts: Accounts, ring: KeyRing, rings: Rings, clock: FakeClock, how: str
) -> None:
    acme = accounts.create("acme").id
    ada = users.create("ada", account=acme).id
    row, secret = keys.create("k", {"inference"}, account=acme, user=ada)
    _, other = keys.create("other", {"inference"})
    await caller(ring, secret)
    match how:
        case "revoke":
            keys.revoke(row.id)
        case "rotate":
            keys.rotate(row.id, grace=0)
        case "disable account":
            accounts.change(acme, disabled=True)
        case "delete account":
            accounts.delete(acme)
        case "disable user":
            users.change(ada, disabled=True)
        case _:
            users.delete(ada)
    await refused(ring, clock, secret)
    [gone] = rings.gone
    assert gone - {ada} == {row.id}
    assert (await caller(ring, other)).name == "other"


async def test_what_was_disabled_is_taken_again_when_it_is_enabled(
    keys: Keys, users: Users, accounts: Accounts, ring: KeyRing, clock: FakeClock
) -> None:
    acme = accounts.create("acme").id
    ada = users.create("ada", account=acme).id
    _, secret = keys.create("k", {"inference"}, account=acme, user=ada)
    accounts.change(acme, disabled=True)
    users.change(ada, disabled=True)
    await refused(ring, clock, secret)
    accounts.change(acme, disabled=False)
    await refused(ring, clock, secret)
    users.change(ada, disabled=False)
    assert (await caller(ring, secret)).user == ada


async def test_a_rotated_key_works_until_its_grace_is_over(keys: Keys, ring: KeyRing, rings: Rings, clock: FakeClock) -> None:
    row, old = keys.create("k", {"inference"})
    made = keys.rotate(row.id, grace=10)
    assert (await caller(ring, old)).id == row.id
    assert (await caller(ring, made.secret)).id == made.key.id
    clock.advance(10)
    await refused(ring, clock, old)
    assert (await caller(ring, made.secret)).id == made.key.id
    assert rings.gone == [], "what began in its time may end"


async def test_a_change_is_noticed_whatever_the_clock_says(keys: Keys, engine: Engine, ring: KeyRing, clock: FakeClock) -> None:
    row, secret = keys.create("k", {"inference"})
    await caller(ring, secret)
    Keys(engine, FakeClock(now=1.0)).revoke(row.id)
    await refused(ring, clock, secret)
    late, secret = Keys(engine, FakeClock(now=1.0)).create("late", {"inference"})
    assert (await caller(ring, secret)).id == late.id


async def test_a_change_and_its_opposite_between_two_looks_are_noticed(keys: Keys, ring: KeyRing, clock: FakeClock, rings: Rings) -> None:
    first, one = keys.create("one", {"inference"})
    await caller(ring, one)
    keys.revoke(first.id)
    _, two = keys.create("two", {"inference"})  # as many live keys as before
    assert (await caller(ring, two)).name == "two"
    await refused(ring, clock, one)
    assert rings.gone == [{first.id}]


async def test_a_backup_that_is_put_back_under_a_running_server_holds(
    keys: Keys, users: Users, ring: KeyRing, rings: Rings, clock: FakeClock, engine: Engine
) -> None:
    kept, old = keys.create("kept", {"inference"})
    gone_user = users.create("u", external_id="u1").id
    gone_key, new = keys.create("new", {"inference"})
    await caller(ring, new)
    with writing(engine) as connection:
        connection.execute(text("DELETE FROM keys WHERE id = :id"), {"id": gone_key.id})
        connection.execute(text("DELETE FROM users"))
    await refused(ring, clock, new)
    assert (await caller(ring, old)).id == kept.id
    assert rings.gone == [{gone_key.id, gone_user}]
    with pytest.raises(Denied):
        await ring.for_end_user(await caller(ring, old), "u1", make=False)


# ------------------------------------------------------------------------------------------------------------- the bus
@pytest.mark.proves("revocation")
async def test_what_one_process_changes_the_others_know_without_waiting_for_their_period(
    engine: Engine, rings: Rings, clock: FakeClock
) -> None:
    bus = Bus()
    one, two = rings.ring(bus), rings.ring(bus)
    async with one.running(), two.running():
        keys = Keys(engine, clock, changed=one.changed)
        row, _ = await asyncio.to_thread(keys.create, "k", {"inference"})
        await rings.until(lambda: all(len(ring._known) == 1 for ring in (one, two)))
        await asyncio.to_thread(keys.revoke, row.id)
        await rings.until(lambda: rings.gone == [{row.id}, {row.id}])
        assert clock.monotonic() == 0, "no period had to pass"
        assert set(bus.sent) == {("identity", b"")}, "a message says nothing of keys"
    assert bus.ears == []
    keys.create("later", {"inference"})  # nobody is there to be told, and that does no harm
    assert rings.troubles == []


async def test_after_a_gap_the_database_is_looked_at(keys: Keys, rings: Rings) -> None:
    bus = Bus()
    ring = rings.ring(bus)
    async with ring.running():
        keys.create("k", {"inference"})
        bus.ears[0].on_gap()
        await rings.until(lambda: len(ring._known) == 1)


async def test_without_its_bus_a_ring_looks_by_itself(engine: Engine, rings: Rings, clock: FakeClock) -> None:
    bus = Bus(cut=True)
    one, two = rings.ring(bus), rings.ring(bus)
    async with one.running(), two.running():
        await clock.asleep(4)
        Keys(engine, clock, changed=one.changed).create("k", {"inference"})
        await asyncio.wait_for(rings.trouble.wait(), 5)
        assert rings.troubles == ["keys: tell of changes"]
        assert len(two._known) == 0
        clock.advance(2)
        await rings.until(lambda: len(two._known) == 1)


# ------------------------------------------------------------------------------------------------------------ end users
@pytest.fixture
async def product(keys: Keys, ring: KeyRing) -> Caller:
    """A key that acts for end users."""
    return await caller(ring, keys.create("product", {"inference"}, end_users="request")[1])


@pytest.mark.proves("end-users")
async def test_a_call_for_an_end_user_is_theirs(users: Users, accounts: Accounts, ring: KeyRing, product: Caller) -> None:
    ada = users.create("ada", external_id="u1").id
    users.create("other", account=accounts.create("acme").id, external_id="u2")
    assert (await ring.for_end_user(product, "u1", make=False)).user == ada, "made a moment ago"
    with pytest.raises(Denied, match="`u2`"):
        await ring.for_end_user(product, "u2", make=False)
    users.change(ada, external_id="u3")
    await ring.refresh()
    assert (await ring.for_end_user(product, "u3", make=False)).user == ada
    with pytest.raises(Denied, match="`u1`"):
        await ring.for_end_user(product, "u1", make=False)


@pytest.mark.proves("end-users")
@pytest.mark.parametrize("make", [False, True])
async def test_nobody_acts_for_an_end_user_who_is_disabled(users: Users, ring: KeyRing, rings: Rings, product: Caller, make: bool) -> None:
    ada = users.create("ada", external_id="u1").id
    assert (await ring.for_end_user(product, "u1", make=False)).user == ada
    users.change(ada, disabled=True)
    await ring.refresh()
    assert rings.gone == [{ada}], "calls for them end"
    with pytest.raises(Denied, match="disabled"):
        await ring.for_end_user(product, "u1", make=make)


@pytest.mark.proves("end-users")
async def test_an_unknown_end_user_is_made_after_the_call(users: Users, ring: KeyRing, rings: Rings, product: Caller) -> None:
    calls = [await ring.for_end_user(product, name, make=True) for name in ("u1", "u2", "u1")]
    assert {call.user for call in calls} == {None}
    await rings.until(lambda: len(ring._end_users) == 2)
    assert sorted((row.external_id, row.role, row.account) for row in users.list()) == [
        ("u1", "member", "acc_default"),
        ("u2", "member", "acc_default"),
    ]
    assert (await ring.for_end_user(product, "u1", make=True)).user == users.named("u1", account="acc_default").id


async def test_end_users_who_cannot_be_made_are_told_and_made_by_their_next_call(
    users: Users, rings: Rings, clock: FakeClock, engine: Engine
) -> None:
    ring = rings.ring()
    product = Caller(id="key_a", kind="service", name="product", scopes=frozenset({"inference"}), end_users="request")
    async with ring.running():
        with writing(engine):
            await ring.for_end_user(product, "u1", make=True)
            await asyncio.wait_for(rings.trouble.wait(), 5)
        assert rings.troubles == ["keys: make end users"]
        assert users.list() == []
        await ring.for_end_user(product, "u1", make=True)
        await rings.until(lambda: len(users.list()) == 1)


async def test_no_more_end_users_wait_to_be_made_than_a_bound(
    ring: KeyRing, rings: Rings, product: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.access.ring.MOST_NEWCOMERS", 3)
    for number in range(5):
        await ring.for_end_user(product, f"u{number}", make=True)
    assert len(ring._newcomers) == 3
    await rings.until(lambda: len(ring._end_users) == 3)


async def test_a_look_for_an_end_user_that_cannot_be_made_is_no_verdict(
    ring: KeyRing, product: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise StoreUnavailable("the database at /secret is away")

    monkeypatch.setattr(ring, "_read", fail)
    monkeypatch.setattr(ring, "_failed", lambda *_: None)
    with pytest.raises(StoreUnavailable) as caught:
        await ring.for_end_user(product, "u1", make=False)
    assert "secret" not in caught.value.sentence
    assert (await ring.for_end_user(product, "u1", make=True)).user is None
