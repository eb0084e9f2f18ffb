"""Sign-ins in memory, renewed once for all who need it."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Engine, update

from sdk.tests.daemon.renewal_contract import Provider, refusal
from tests.fakes.clock import FakeClock
from tests.fakes.people import settle
from tests.store.shared.places import Failures
from trunkline.access.accounts import Accounts
from trunkline.access.connection_rows import RECOVERABLE_SECONDS
from trunkline.access.connections import CLEAN_SECONDS, LONGEST_TOKEN, Connections
from trunkline.access.key_sources import FileSource
from trunkline.access.purse import Purse
from trunkline.access.token_store import KEEP_AGAIN, KEEP_SECONDS, TokenStore
from trunkline.access.users import Users
from trunkline.access.vault import Vault
from trunkline.access.wallet import Wallet
from trunkline.base.clock import SystemClock
from trunkline.base.secret import Secret
from trunkline.errors import (
    BadRequest,
    Conflict,
    DaemonRefused,
    NotFound,
    PreconditionFailed,
    SignInNeeded,
    StoreUnavailable,
    TrunklineError,
    UpstreamBusy,
    UpstreamDenied,
    UpstreamDown,
    UpstreamGarbled,
    VaultUnavailable,
)
from trunkline.model.credential import INSTALLATION, Credential, Owner
from trunkline.store.engine import writing
from trunkline.store.shared.contract import Leases
from trunkline.store.shared.file_lease import FileLeases
from trunkline.store.shared.memory import MemoryBus
from trunkline.store.tables.connections import TABLE
from trunkline_sdk.daemon.errors import CallFailed, RefreshRefused
from trunkline_sdk.daemon.messages import Record

ANN, TEAM = Owner("acc_a", "usr_a"), Owner("acc_a")
SIGNED = "up/signed"
HOUR = 3600.0


class Site:
    """The connections of one process, and a provider that renews them."""

    def __init__(self, engine: Engine, source: FileSource, clock: FakeClock, leases: Leases, bus: MemoryBus) -> None:
        self.clock = clock
        self.provider = Provider()
        self.failed = Failures()
        self.told: list[tuple[str, str, Owner]] = []
        self.vault = Vault(engine, source)
        self.connections = Connections(
            engine,
            self.vault,
            clock,
            leases,
            refresher=lambda name: self.provider,
            link=lambda name: f"https://gate.test/connect/{name}",
            failed=self.failed,
            told=lambda *what: self.told.append(what),
            bus=bus,
        )

    def record(self, access: str = "access-1", refresh: str = "refresh-1", *, seconds: float | None = HOUR, **given: object) -> Record:
        expiry = None if seconds is None else datetime.fromtimestamp(self.clock.now() + seconds, UTC)
        return Record(access_token=access, refresh_token=refresh, expiry=expiry, **{"token_type": "Bearer", **given})

    async def sign_in(self, *given: str, owner: Owner = ANN, seconds: float | None = HOUR, **more: object) -> Credential:
        await self.connections.save(owner, SIGNED, self.record(*given, seconds=seconds, **more))
        return self.held(owner)

    def held(self, owner: Owner = ANN) -> Credential:
        [credential] = self.connections.of(SIGNED)[owner]
        return credential

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the table was read, and what it holds is as it should be."""
        async with asyncio.timeout(10):
            while not condition():
                self.connections._wallet._read_once.clear()
                await self.connections._wallet._read_once.wait()

    async def refused(self, credential: Credential) -> TrunklineError:
        with pytest.raises(TrunklineError) as caught:
            await self.connections.fresh(credential)
        return caught.value


@pytest.fixture
def new_site(engine: Engine, tmp_path: Path, clock: FakeClock) -> Callable[[], Site]:
    """Makes another process of the same installation."""
    bus = MemoryBus(Failures())
    leases = FileLeases(tmp_path / "leases", SystemClock())
    return lambda: Site(engine, FileSource(tmp_path / "vault.key"), clock, leases, bus)


@pytest.fixture
async def site(new_site: Callable[[], Site], engine: Engine) -> AsyncGenerator[Site]:
    settle(engine, acc_a=["usr_a", "usr_b"])
    async with running(new_site()) as site:
        yield site


@asynccontextmanager
async def running(site: Site) -> AsyncGenerator[Site]:
    async with site.connections.running():
        await site.clock.asleep(2)
        yield site


# ------------------------------------------------------------------------------------------------------------- in memory
async def test_a_sign_in_is_known_at_once_and_after_a_restart(site: Site, new_site: Callable[[], Site]) -> None:
    connection = await site.connections.save(ANN, SIGNED, site.record(account_id="ann", metadata={"project": "p"}))
    credential = site.held()
    assert (credential.id, credential.secret.reveal(), credential.key) == (connection, "access-1", f"acc_a/usr_a/{SIGNED}")
    assert (credential.token_type, credential.account, dict(credential.metadata)) == ("Bearer", "ann", {"project": "p"})
    assert credential.expires_at == site.clock.now() + HOUR
    assert credential.id.startswith("con_")
    assert site.connections.of("up/other") == {}
    async with running(new_site()) as other:
        assert other.held().secret.reveal() == "access-1"
        assert other.held().revision == credential.revision


async def test_who_signs_in_again_takes_the_place_of_who_was_there(site: Site) -> None:
    first = await site.sign_in()
    await site.sign_in("of-team", owner=TEAM)
    second = await site.sign_in("access-2")
    assert (first.id, first.revision != second.revision) == (second.id, True)
    assert site.held() is second
    assert site.held(TEAM).secret.reveal() == "of-team"


async def test_what_did_not_change_stays_the_same_object(site: Site) -> None:
    credential = await site.sign_in()
    await site.sign_in("of-team", owner=TEAM)
    site.connections._wallet.changed()
    await site.until(lambda: len(site.connections.of(SIGNED)) == 2)
    assert site.held() is credential


@pytest.mark.parametrize("seconds", [HOUR, 0])
async def test_what_is_written_while_the_table_is_read_is_known_all_the_same(
    site: Site, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    wallet, read, was_read, go = site.connections._wallet, Wallet._read, threading.Event(), threading.Event()

    def slow(self: Wallet, before: Any) -> Any:
        found = read(self, before)
        was_read.set()
        assert go.wait(10)
        return found

    credential = await site.sign_in(seconds=seconds)
    monkeypatch.setattr(Wallet, "_read", slow)
    wallet._read_once.clear()
    wallet.changed()
    assert await asyncio.to_thread(was_read.wait, 10)
    fresh = await site.connections.fresh(credential)
    other = await site.sign_in("of-team", owner=TEAM)
    go.set()
    async with asyncio.timeout(10):
        await wallet._read_once.wait()
    assert (site.held(), site.held(TEAM)) == (fresh, other)
    await site.until(lambda: bool(wallet._contents.mark))
    assert (site.held(), site.held(TEAM)) == (fresh, other)


async def test_another_process_hears_of_a_sign_in_and_of_a_sign_out(site: Site, new_site: Callable[[], Site]) -> None:
    async with running(new_site()) as other:
        credential = await site.sign_in()
        await other.until(lambda: bool(other.connections.of(SIGNED)))
        await asyncio.to_thread(other.connections.delete, credential.id)
        await site.until(lambda: not site.connections.of(SIGNED))


async def test_whose_sign_in_does_not_open_uses_nobody_elses(site: Site, engine: Engine) -> None:
    credential = await site.sign_in(seconds=0)
    with writing(engine) as connection:
        connection.execute(update(TABLE).values(sealed=b"\x01" * 40, revision=9))
    site.connections._wallet.changed()
    await site.until(lambda: site.connections.of(SIGNED) == {ANN: ()})
    assert not site.connections.ended(SIGNED, ANN)
    assert isinstance(await site.refused(credential), VaultUnavailable)


# ------------------------------------------------------------------------------------------------------------------ fresh
@pytest.mark.parametrize(("seconds", "renewed"), [(None, False), (61.0, False), (60.0, True), (-1.0, True)])
async def test_a_token_is_renewed_a_minute_before_it_expires(site: Site, seconds: float | None, renewed: bool) -> None:
    credential = await site.sign_in(seconds=seconds)
    fresh = await site.connections.fresh(credential)
    assert (fresh is not credential, len(site.provider.asked)) == (renewed, renewed)
    assert site.held() is fresh


async def test_what_is_no_sign_in_is_itself(site: Site) -> None:
    stored = Credential(id="cred_a", weight=1, secret=Secret("key-of-all"), expires_at=0)
    assert await site.connections.fresh(stored) is stored


@pytest.mark.proves("connections.once")
async def test_a_hundred_calls_of_two_processes_renew_once_an_expiry(site: Site, new_site: Callable[[], Site]) -> None:
    credential = await site.sign_in()
    async with running(new_site()) as other:
        other.provider = site.provider
        await other.until(lambda: bool(other.connections.of(SIGNED)))
        for number in range(2, 6):
            site.clock.advance(HOUR)
            site.provider.gives = site.record(f"access-{number}", f"refresh-{number}")
            each = [one.connections.fresh(one.held()) for _ in range(50) for one in (site, other)]
            fresh = await asyncio.gather(*each, site.connections.fresh(credential))
            assert {one.secret.reveal() for one in fresh} == {f"access-{number}"}
            assert [record.refresh_token for record in site.provider.asked] == [f"refresh-{one}" for one in range(1, number)]
    assert site.failed == other.failed == []


@pytest.mark.proves("connections.once")
async def test_a_renewal_goes_on_though_who_asked_for_it_leaves(site: Site) -> None:
    credential = await site.sign_in(seconds=0)
    site.provider.go.clear()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(site.connections.fresh(credential), 0.05)
    await asyncio.wait_for(arrived(site.provider), 10)
    site.provider.go.set()
    assert (await site.connections.fresh(credential)).secret.reveal() == "access-2"
    assert len(site.provider.asked) == 1


async def arrived(provider: Provider) -> None:
    while not provider.asked:
        await asyncio.sleep(0)


@pytest.mark.proves("connections.once")
async def test_a_process_that_ends_waits_for_its_renewals(new_site: Callable[[], Site], engine: Engine) -> None:
    settle(engine, acc_a=["usr_a"])
    async with running(new_site()) as site:
        asked = asyncio.get_running_loop().create_task(site.connections.fresh(await site.sign_in(seconds=0)))
        site.provider.go.clear()
        await asyncio.wait_for(arrived(site.provider), 10)
        asyncio.get_running_loop().call_soon(site.provider.go.set)
    assert (await asked).secret.reveal() == "access-2"
    async with running(new_site()) as again:
        assert again.held().secret.reveal() == "access-2"


@pytest.mark.proves("connections.once")
async def test_a_sign_in_during_a_renewal_wins(site: Site) -> None:
    credential = await site.sign_in(seconds=0)
    site.provider.go.clear()
    renewal = asyncio.get_running_loop().create_task(site.connections.fresh(credential))
    await asyncio.wait_for(arrived(site.provider), 10)
    latest = await site.sign_in("signed-in-anew", "refresh-9")
    site.provider.go.set()
    assert (await renewal).secret.reveal() == "signed-in-anew"
    assert site.held().revision == latest.revision


@pytest.mark.proves("connections.once")
async def test_a_sign_out_during_a_renewal_holds(site: Site) -> None:
    credential = await site.sign_in(seconds=0)
    site.provider.go.clear()
    renewal = asyncio.get_running_loop().create_task(site.refused(credential))
    await asyncio.wait_for(arrived(site.provider), 10)
    await asyncio.to_thread(site.connections.delete, credential.id)
    site.provider.go.set()
    assert isinstance(await renewal, SignInNeeded)
    await site.until(lambda: site.connections.of(SIGNED) == {})
    assert site.connections.list() == []


@pytest.mark.proves("connections.once")
async def test_nobody_is_asked_for_what_could_not_be_kept(site: Site, engine: Engine) -> None:
    credential = await site.sign_in(seconds=0)
    with writing(engine):  # readable, and not writable, as with a full disk
        assert isinstance(await site.refused(credential), StoreUnavailable)
    assert site.provider.asked == []
    (key := Path(site.vault._source.where.split("`")[1])).rename(key.with_suffix(".away"))
    assert isinstance(await site.refused(credential), VaultUnavailable)
    assert site.provider.asked == []
    key.with_suffix(".away").rename(key)
    assert (await site.connections.fresh(credential)).secret.reveal() == "access-2"
    assert site.connections.get(credential.id).revision == 2


@pytest.mark.proves("connections.once")
async def test_who_was_stopped_for_longer_than_a_lease_lasts_asks_with_no_used_token(
    site: Site, new_site: Callable[[], Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    credential = await site.sign_in(seconds=0)
    load, other, loads = TokenStore.load, new_site(), 0

    async def stopped(self: TokenStore, key: str) -> Record:
        nonlocal loads
        loads += 1
        record = await load(self, key)
        if loads == 2:  # under the lease, and before the refresh: another process renews meanwhile
            await other.connections.save(ANN, SIGNED, site.record("access-9", "refresh-9"))
        return record

    monkeypatch.setattr(TokenStore, "load", stopped)
    assert (await site.connections.fresh(credential)).secret.reveal() == "access-9"
    assert site.provider.asked == []
    assert site.told == []


async def test_a_caller_is_not_told_where_the_database_and_the_vaults_key_are(site: Site, engine: Engine) -> None:
    credential = await site.sign_in(seconds=0)
    with writing(engine):
        told = [await site.refused(credential)]
    Path(site.vault._source.where.split("`")[1]).unlink()
    told.append(await site.refused(credential))
    assert [error.code for error in told] == ["store_unavailable", "vault_unavailable"]
    for secret in ("vault.key", str(engine.url.database), str(engine.url.host)):
        assert not [error for error in told if secret in f"{error.sentence} {error.facts}"]


@pytest.mark.proves("connections.once")
async def test_what_a_renewal_brought_is_kept_once_the_database_is_back(site: Site, engine: Engine) -> None:
    credential = await site.sign_in(seconds=0)
    site.provider.go.clear()
    renewal = asyncio.get_running_loop().create_task(site.connections.fresh(credential))
    await asyncio.wait_for(arrived(site.provider), 10)
    with writing(engine):
        asleep = len(site.clock.asked)
        site.provider.go.set()
        async with asyncio.timeout(10):
            await site.clock.when(lambda: KEEP_AGAIN in site.clock.asked[asleep:])
    site.clock.advance(KEEP_AGAIN)
    assert (await renewal).secret.reveal() == "access-2"
    assert site.connections.get(credential.id).revision == 2
    assert len(site.provider.asked) == 1


async def test_a_renewal_does_not_wait_for_ever_for_the_database(site: Site, engine: Engine) -> None:
    credential = await site.sign_in(seconds=0)
    site.provider.go.clear()
    renewal = asyncio.get_running_loop().create_task(site.refused(credential))
    await asyncio.wait_for(arrived(site.provider), 10)
    with writing(engine):
        asleep = len(site.clock.asked)
        site.provider.go.set()
        async with asyncio.timeout(10):
            await site.clock.when(lambda: KEEP_AGAIN in site.clock.asked[asleep:])
        site.clock.advance(KEEP_SECONDS)
        assert isinstance(await asyncio.wait_for(renewal, 10), StoreUnavailable)


async def test_another_accounts_tokens_are_dropped(site: Site) -> None:
    credential = await site.sign_in(seconds=0, account_id="ann")
    site.provider.gives = site.record("canary-of-bob", account_id="bob")
    error = await site.refused(credential)
    assert isinstance(error, SignInNeeded)
    assert "another account" in str(error)
    assert site.held().secret.reveal() == "access-1"
    assert site.told == [("identity_changed", SIGNED, ANN)]


async def test_what_cannot_be_renewed_needs_a_person_and_the_link_is_told(site: Site) -> None:
    credential = await site.sign_in("access-1", "", seconds=0)
    error = await site.refused(credential)
    assert (type(error), error.hint) == (SignInNeeded, f"Sign in again: https://gate.test/connect/{SIGNED}")
    assert site.provider.asked == []
    await asyncio.to_thread(site.connections.delete, credential.id)
    assert isinstance(await site.refused(credential), SignInNeeded)


REFUSALS: list[tuple[Exception, type[TrunklineError]]] = [
    (refusal(terminal=False), UpstreamDenied),
    (RefreshRefused("later", provider="signed", status=503, reason="", terminal=False), UpstreamBusy),
    (RefreshRefused("broken", provider="signed", status=500, reason="", terminal=False), UpstreamDown),
    (RefreshRefused("odd", provider="signed", status=200, reason="", terminal=False), UpstreamGarbled),
    (CallFailed("no answer", "transport"), UpstreamDown),
    (CallFailed("unusable", "upstream"), UpstreamGarbled),
    (CallFailed("wrong secret", "configuration"), DaemonRefused),
    (UpstreamDown("never reached"), UpstreamDown),
    (StoreUnavailable("away"), StoreUnavailable),
]


@pytest.mark.parametrize(("fails", "told"), REFUSALS, ids=lambda each: getattr(each, "__name__", str(each)))
async def test_any_other_failure_is_told_as_ours_and_the_sign_in_stays(site: Site, fails: Exception, told: type[TrunklineError]) -> None:
    credential = await site.sign_in(seconds=0)
    site.provider.gives = fails
    assert type(await site.refused(credential)) is told
    site.provider.gives = site.record("access-2")
    assert (await site.connections.fresh(credential)).secret.reveal() == "access-2"
    assert site.failed == []


async def test_a_renewal_without_a_token_is_no_renewal(site: Site) -> None:
    credential = await site.sign_in(seconds=0)
    site.provider.gives = Record()
    assert isinstance(await site.refused(credential), UpstreamGarbled)


# --------------------------------------------------------------------------------------------------------------- rejected
@pytest.mark.proves("connections.once")
async def test_those_who_were_rejected_with_one_token_share_one_renewal(site: Site) -> None:
    credential = await site.sign_in()
    site.provider.gives = site.record("access-2", "refresh-2")
    others = await asyncio.gather(*(site.connections.rejected(credential) for _ in range(50)))
    assert {one.secret.reveal() for one in others} == {"access-2"}
    assert await site.connections.rejected(credential) is site.held()
    assert len(site.provider.asked) == 1
    site.provider.gives = site.record("access-3")
    assert (await site.connections.rejected(site.held())).secret.reveal() == "access-3"


@pytest.mark.proves("connections.keys")
async def test_an_api_key_is_never_renewed(site: Site) -> None:
    key = await site.sign_in("key-of-ann", "canary-refresh", token_type="api_key", seconds=0)
    assert await site.connections.fresh(key) is key
    with pytest.raises(SignInNeeded):
        await site.connections.rejected(key)
    assert site.provider.asked == []
    assert site.connections.get(key.id).refreshable is False


# ---------------------------------------------------------------------------------------------------------------- revoked
@pytest.mark.proves("connections.revoked")
async def test_what_is_refused_for_good_is_used_no_more_nor_anothers_in_its_place(site: Site) -> None:
    credential = await site.sign_in(seconds=0)
    await site.sign_in("of-team", owner=TEAM)
    site.provider.gives = refusal(terminal=True)
    assert isinstance(await site.refused(credential), SignInNeeded)
    assert site.told == [("revoked", SIGNED, ANN)]
    await site.until(lambda: site.connections.of(SIGNED)[ANN] == ())
    assert site.connections.get(credential.id).state == "revoked"
    purse = Purse(Stored(), site.connections)
    assert [purse.ended(SIGNED, owner) for owner in (ANN, TEAM, INSTALLATION)] == [True, False, False]
    assert not Purse(Stored(**{SIGNED: {ANN: ()}}), site.connections).ended(SIGNED, ANN)
    assert isinstance(await site.refused(credential), SignInNeeded)
    assert len(site.provider.asked) == 1
    assert (await site.sign_in("access-9")).secret.reveal() == "access-9"
    assert site.connections.get(credential.id).state == "active"


@pytest.mark.proves("connections.revoked")
async def test_for_a_day_it_can_be_recovered(site: Site) -> None:
    credential = await site.sign_in(seconds=0)
    with pytest.raises(Conflict):
        site.connections.recover(credential.id)
    site.provider.gives = refusal(terminal=True)
    await site.refused(credential)
    site.clock.advance(RECOVERABLE_SECONDS - 1)
    row = await asyncio.to_thread(site.connections.recover, credential.id)
    assert (row.state, row.recoverable_until) == ("active", None)
    await site.until(lambda: site.connections.of(SIGNED)[ANN] != ())
    site.provider.gives = site.record("access-2")
    assert (await site.connections.fresh(site.held())).secret.reveal() == "access-2"
    assert [record.refresh_token for record in site.provider.asked] == ["refresh-1"] * 2


@pytest.mark.proves("connections.revoked")
async def test_after_a_day_its_tokens_are_gone(site: Site, engine: Engine) -> None:
    credential = await site.sign_in(seconds=0)
    site.provider.gives = refusal(terminal=True)
    await site.refused(credential)
    site.clock.advance(RECOVERABLE_SECONDS + 1)
    with pytest.raises(Conflict, match="more than a day"):
        site.connections.recover(credential.id)
    async with asyncio.timeout(10):
        while site.connections.get(credential.id).recoverable_until is not None:
            site.clock.advance(CLEAN_SECONDS)
            await asyncio.sleep(0.01)
    with engine.connect() as connection:
        row = connection.execute(TABLE.select()).mappings().one()
    assert "access-1" not in site.vault.open(TABLE, dict(row)).reveal()
    with pytest.raises(Conflict):
        site.connections.recover(credential.id)
    assert site.failed == []


# ------------------------------------------------------------------------------------------------------ rows and their owners
async def test_rows_are_listed_by_owner_and_provider_and_changed_at_a_revision(site: Site) -> None:
    found: list[Credential] = []
    for owner in (ANN, TEAM, INSTALLATION):
        site.clock.advance(0.001)  # by which ids are ordered
        found.append(await site.sign_in(owner=owner, account_id="x"))
    ann, team, all_ = found
    await site.connections.save(ANN, "up/other", site.record())
    rows = site.connections
    assert [row.id for row in rows.list(provider=SIGNED)] == [ann.id, team.id, all_.id]
    assert [row.id for row in rows.list(account="acc_a", provider=SIGNED)] == [ann.id, team.id]
    assert [row.provider for row in rows.list(user="usr_a")] == [SIGNED, "up/other"]
    assert [row.id for row in rows.list(after=ann.id, limit=1)] == [team.id]
    row = rows.get(ann.id)
    assert (row.account, row.user, row.label, row.refreshable, row.state, row.revision) == ("acc_a", "usr_a", "x", True, "active", 1)
    assert (rows.get(all_.id).account, rows.get(team.id).user) == (None, None)
    with pytest.raises(PreconditionFailed):
        rows.delete(ann.id, revision=2)
    assert rows.delete(ann.id, revision=1) == row
    for way in (rows.get, rows.delete, rows.recover):
        with pytest.raises(NotFound):
            way(ann.id)


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=-14))])
async def test_an_expiry_at_the_end_of_all_calendars_is_one_that_calendars_can_tell(site: Site, zone: timezone) -> None:
    made = await site.connections.save(ANN, SIGNED, replace(site.record(), expiry=datetime.max.replace(tzinfo=zone)))
    assert datetime.fromtimestamp(site.connections.get(made).expires_at or 0.0, UTC).year == 9999
    assert await site.connections.fresh(site.held()) is site.held()


@pytest.mark.parametrize("token", ["", " ", "a\nb", "a\x00", "x" * (LONGEST_TOKEN + 1)])
async def test_a_token_that_cannot_be_sent_is_not_kept(site: Site, token: str) -> None:
    with pytest.raises(BadRequest) as caught:
        await site.connections.save(ANN, SIGNED, site.record(token))
    assert "a\nb" not in str(caught.value)
    with pytest.raises(NotFound):
        await site.connections.save(Owner("acc_a", "usr_x"), SIGNED, site.record())
    assert site.connections.list() == []


async def test_a_deleted_owners_sign_ins_are_gone(site: Site, engine: Engine, clock: FakeClock) -> None:
    for owner in (ANN, TEAM, Owner("acc_a", "usr_b"), INSTALLATION):
        await site.sign_in(owner=owner)
    Users(engine, clock).delete("usr_a")
    assert {row.user for row in site.connections.list(account="acc_a")} == {None, "usr_b"}
    Accounts(engine, clock).delete("acc_a")
    assert [row.account for row in site.connections.list()] == [None]


# ----------------------------------------------------------------------------------------------------------------- purse
class Stored:
    """A wallet's contents."""

    def __init__(self, **held: dict[Owner, tuple[Credential, ...]]) -> None:
        self.held = held

    def of(self, provider: str) -> dict[Owner, tuple[Credential, ...]]:
        return self.held.get(provider, {})


async def test_a_purse_holds_what_an_owner_has_in_either(site: Site) -> None:
    signed = await site.sign_in()
    stored, shared = (Credential(id=f"cred_{name}", weight=1, secret=signed.secret) for name in "ab")
    purse = Purse(Stored(up={INSTALLATION: (shared,)}), site.connections)
    assert purse.of("up") == {INSTALLATION: (shared,)}
    assert purse.of(SIGNED) == {ANN: (signed,)}
    both = Stored(**{SIGNED: {ANN: (stored,), INSTALLATION: (shared,)}})
    purse = Purse(both, site.connections)
    assert purse.of(SIGNED) == {ANN: (stored, signed), INSTALLATION: (shared,)}
    assert purse.of(SIGNED) is purse.of(SIGNED)
    again = await site.sign_in("access-2")
    assert purse.of(SIGNED)[ANN] == (stored, again)


# ----------------------------------------------------------------------------------------------------------------- secrets
@pytest.mark.proves("connections.unread")
async def test_nothing_tells_a_token(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    await site.sign_in("canary-access", "canary-refresh", seconds=0, metadata={"oauth_client_secret": "canary-client"}, id_token="canary-i")
    credential = site.held()
    site.provider.gives = refusal(terminal=False)
    errors = [await site.refused(credential)]
    site.provider.gives = refusal(terminal=True)
    errors.append(await site.refused(credential))
    things = [credential, site.connections.of(SIGNED), site.connections._wallet._contents, site.connections.list(), site.told, site.failed]
    for thing in things:
        assert "canary" not in f"{thing!r} {thing}"
    assert not [error for error in errors if "canary" in f"{error} {error.hint} {error.facts} {error.__cause__!r}"]
    assert "canary" not in caplog.text


@pytest.mark.proves("vault.rotation", "connections.store")
async def test_a_rotation_of_the_vault_is_noticed_without_a_restart(site: Site, new_site: Callable[[], Site]) -> None:
    credential = await site.sign_in(seconds=0)
    rotation = await asyncio.to_thread(site.vault.rotate)
    assert (rotation.sealed, rotation.locked) == (1, ())
    site.provider.gives = site.record("access-2")
    assert (await site.connections.fresh(credential)).secret.reveal() == "access-2"
    async with running(new_site()) as other:
        assert other.held().secret.reveal() == "access-2"
    assert site.failed == []
