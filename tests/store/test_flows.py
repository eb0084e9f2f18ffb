"""Sign-ins in the database: sealed, their owners' alone, bounded, and gone when their time is over."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec.structs import replace
from sqlalchemy import Engine, func, select, update

from tests.fakes.clock import FakeClock
from tests.fakes.joining import CANARIES, DEVICE_CODE, STATE, VERIFIER, run
from tests.fakes.people import settle
from trunkline.access.accounts import Accounts
from trunkline.access.flows import CLEAN_SECONDS, KEPT_SECONDS, MOST, Flows, caller_of, owner_of
from trunkline.access.key_sources import FileSource
from trunkline.access.users import Users
from trunkline.access.vault import Vault
from trunkline.errors import VaultUnavailable
from trunkline.model.credential import INSTALLATION, Owner
from trunkline.store.engine import reading, writing
from trunkline.store.tables.sign_ins import TABLE
from trunkline_sdk.daemon.messages import Flow, Progress, Secrets
from trunkline_sdk.daemon.oauthflow import FlowConflict, FlowNotFound, state_hash

T = TypeVar("T")
ANN, BEN, TEAM = Owner("acc_a", "usr_a"), Owner("acc_a", "usr_b"), Owner("acc_a")
OWNERS = (ANN, BEN, TEAM, Owner("acc_b"), Owner("acc_b", "usr_a"), INSTALLATION)


@pytest.fixture
def vault(engine: Engine, tmp_path: Path) -> Vault:
    return Vault(engine, FileSource(tmp_path / "vault.key"))


@pytest.fixture
def flows(engine: Engine, vault: Vault, clock: FakeClock) -> Flows:
    return Flows(engine, vault, clock, run)


def begun(clock: FakeClock, flow_id: str = "f1", owner: Owner = ANN, *, state: str = STATE, seconds: float = 600.0) -> Flow:
    now = datetime.fromtimestamp(clock.now(), UTC)
    return Flow(
        id=flow_id,
        caller=caller_of(owner),
        instance="home/plan",
        method="browser",
        created_at=now,
        expires_at=now + timedelta(seconds=seconds),
        authorization_url=f"https://vendor.test/authorize?state={state}",
        user_code="ABCD-EFGH",
        verification_uri="https://vendor.test/device",
        verification_uri_complete="https://vendor.test/device?code=ABCD-EFGH",
        progress=Progress(interval=timedelta(seconds=5.5), next_poll_at=now + timedelta(seconds=5.5)),
        secrets=Secrets(
            verifier=VERIFIER,
            state=state,
            device_code=DEVICE_CODE,
            redirect_uri="http://127.0.0.1:1/cb",
            driver_data={"d": "1", "ä": "<&>"},
            params={"oauth_client_secret": "client-canary-0123"},
        ),
    )


@pytest.mark.parametrize("owner", OWNERS)
async def test_a_flow_comes_back_as_it_was_kept(flows: Flows, clock: FakeClock, owner: Owner) -> None:
    kept = await flows.add(begun(clock, owner=owner))
    assert kept == replace(begun(clock, owner=owner), revision=kept.revision)
    assert await flows.load(caller_of(owner), "f1") == await flows.get("f1") == await flows.find(state_hash(STATE)) == kept


@pytest.mark.proves("sign-in.owners")
async def test_a_flow_is_there_for_its_owner_alone(flows: Flows, clock: FakeClock) -> None:
    for number, owner in enumerate(OWNERS):
        await flows.add(begun(clock, f"f{number}", owner))
    for number, owner in enumerate(OWNERS):
        assert owner_of((await flows.load(caller_of(owner), f"f{number}")).caller) == owner
        for other in set(OWNERS) - {owner}:
            with pytest.raises(FlowNotFound):
                await flows.load(caller_of(other), f"f{number}")
    with pytest.raises(FlowNotFound):
        await flows.load(caller_of(ANN), "nothing")


@pytest.mark.proves("sign-in.sealed")
async def test_what_is_secret_of_a_flow_is_readable_in_no_column(flows: Flows, engine: Engine, clock: FakeClock) -> None:
    kept = await flows.add(begun(clock))
    await flows.replace(kept.revision, replace(kept, progress=replace(kept.progress, outcome="x")))
    with reading(engine) as connection:
        [row] = connection.execute(select(TABLE)).all()
    text = repr(tuple(row))
    for secret in (*CANARIES, "client-canary-0123", "ABCD-EFGH", "vendor.test", "127.0.0.1"):
        assert secret not in text
    assert state_hash(STATE) in text


@pytest.mark.proves("sign-in.sealed", "vault.bound")
@pytest.mark.parametrize(
    "change", [{"account": "acc_b"}, {"user": "usr_b"}, {"provider": "home/other"}, {"method": "device"}, {"id": "f2"}]
)
async def test_a_flow_that_was_moved_to_another_place_does_not_open(
    flows: Flows, engine: Engine, clock: FakeClock, change: dict[str, str]
) -> None:
    await flows.add(begun(clock))
    with writing(engine) as connection:
        connection.execute(update(TABLE).values(**change))
    with pytest.raises(VaultUnavailable):
        await flows.get(change.get("id", "f1"))


async def test_a_rotation_of_the_vault_takes_flows_along(flows: Flows, vault: Vault, clock: FakeClock) -> None:
    kept = await flows.add(begun(clock))
    assert vault.rotate().sealed == 1
    assert await flows.get("f1") == kept


async def test_one_of_two_changes_wins(flows: Flows, clock: FakeClock) -> None:
    kept = await flows.add(begun(clock))
    consumed = replace(kept, consumed_at=kept.created_at, secrets=Secrets())
    results = await asyncio.gather(*(flows.replace(kept.revision, consumed) for _ in range(8)), return_exceptions=True)
    won = [each for each in results if isinstance(each, Flow)]
    assert len(won) == 1
    assert [type(each) for each in results if each is not won[0]] == [FlowConflict] * 7
    assert await flows.get("f1") == won[0]
    with pytest.raises(FlowConflict):
        await flows.replace(won[0].revision, replace(consumed, id="gone"))


@pytest.mark.proves("sign-in.once")
async def test_one_that_is_used_up_waits_for_no_answer(flows: Flows, clock: FakeClock) -> None:
    kept = await flows.add(begun(clock))
    await flows.replace(kept.revision, replace(kept, consumed_at=kept.created_at, secrets=Secrets()))
    assert (await flows.get("f1")).secrets == Secrets()
    for state in (STATE, "", "other"):
        with pytest.raises(FlowNotFound):
            await flows.find(state_hash(state))
    with pytest.raises(FlowNotFound):
        await flows.find("")


async def test_a_device_flow_is_found_by_no_state(flows: Flows, clock: FakeClock) -> None:
    await flows.add(begun(clock, state=""))
    for hashed in ("", state_hash("")):
        with pytest.raises(FlowNotFound):
            await flows.find(hashed)


async def test_the_oldest_of_too_many_makes_room_and_no_other_owners(flows: Flows, clock: FakeClock) -> None:
    await flows.add(begun(clock, "other", BEN, state="s-other"))
    for number in range(MOST + 2):
        clock.advance(1)
        await flows.add(begun(clock, f"f{number}", state=f"s{number}"))
    for gone in ("f0", "f1"):
        with pytest.raises(FlowNotFound):
            await flows.get(gone)
    assert [(await flows.get(each)).id for each in ("f2", f"f{MOST + 1}", "other")] == ["f2", f"f{MOST + 1}", "other"]


async def test_an_expired_flow_is_told_for_a_while_and_then_gone(flows: Flows, engine: Engine, clock: FakeClock) -> None:
    await flows.add(begun(clock, seconds=10))
    await flows.add(begun(clock, "f2", state="s2", seconds=5000))
    clock.advance(10 + KEPT_SECONDS)
    assert (await flows.get("f1")).id == "f1"
    clock.advance(1)
    with pytest.raises(FlowNotFound):
        await flows.get("f1")
    faults: list[BaseException] = []
    cleaning = asyncio.ensure_future(flows.keep_clean(lambda _, error: faults.append(error)))
    await clock.asleep()
    clock.advance(CLEAN_SECONDS)
    await clock.when(lambda: clock.asked.count(CLEAN_SECONDS) == 2)
    cleaning.cancel()
    with reading(engine) as connection:
        assert connection.execute(select(TABLE.c.id)).scalars().all() == ["f2"]
    assert faults == []


async def test_cleaning_goes_on_after_a_failure(engine: Engine, vault: Vault, clock: FakeClock) -> None:
    told: list[str] = []

    async def broken(work: Callable[[], T]) -> T:
        raise OSError(work.__name__)

    cleaning = asyncio.ensure_future(Flows(engine, vault, clock, broken).keep_clean(lambda task, _: told.append(task)))
    for number in (1, 2):
        await clock.when(lambda number=number: clock.asked.count(CLEAN_SECONDS) == number)
        clock.advance(CLEAN_SECONDS)
    await clock.when(lambda: clock.asked.count(CLEAN_SECONDS) == 3)
    cleaning.cancel()
    assert told == ["sign-ins: delete old ones"] * 2


async def test_a_poll_seals_nothing_anew(flows: Flows, engine: Engine, clock: FakeClock) -> None:
    kept = await flows.add(begun(clock))
    before = sealed(engine)
    moved = await flows.replace(kept.revision, replace(kept, progress=replace(kept.progress, interval=timedelta(seconds=10))))
    assert sealed(engine) == before
    assert (await flows.get("f1")).progress.interval == timedelta(seconds=10)
    await flows.replace(moved.revision, replace(moved, consumed_at=moved.created_at, secrets=Secrets()))
    assert sealed(engine) != before


def sealed(engine: Engine) -> bytes:
    with reading(engine) as connection:
        assert connection.execute(select(func.count()).select_from(TABLE)).scalar_one() == 1
        return connection.execute(select(TABLE.c.sealed)).scalar_one()


async def test_a_deleted_owners_are_gone(flows: Flows, engine: Engine, clock: FakeClock) -> None:
    settle(engine, acc_a=["usr_a", "usr_b"])
    for number, owner in enumerate((ANN, BEN, TEAM, INSTALLATION)):
        await flows.add(begun(clock, f"f{number}", owner, state=f"state-{number}"))
    Users(engine, clock).delete("usr_a")
    with pytest.raises(FlowNotFound):
        await flows.get("f0")
    await flows.get("f1")
    Accounts(engine, clock).delete("acc_a")
    for gone in ("f1", "f2"):
        with pytest.raises(FlowNotFound):
            await flows.get(gone)
    await flows.get("f3")
