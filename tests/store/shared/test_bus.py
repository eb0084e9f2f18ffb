import os
from collections.abc import Iterator

import pytest

from tests.fakes.cut import Cut
from tests.services import REDIS
from tests.store.shared.places import Failures, Heard, bus_on, link_to
from trunkline.errors import StoreUnavailable
from trunkline.store.shared import Listener
from trunkline.store.shared import redis as module
from trunkline.store.shared.contract import Bus


async def test_a_message_reaches_every_subscriber_of_its_channel_on_both_sides(buses: tuple[Bus, Bus]) -> None:
    one, two = buses
    here, there, other = Heard(), Heard(), Heard()
    one.subscribe("keys", here)
    two.subscribe("keys", there)
    two.subscribe("key", other)
    messages = [f"message {number} {'é' * number}".encode() for number in range(50)]
    messages += [b"", b"\n\n", bytes(range(256)), b"x" * 100_000]
    for message in messages:
        await one.publish("keys", message)
    await there.until(len(messages))
    await here.until(len(messages))
    assert here.messages == there.messages == messages
    assert other.messages == []


async def test_who_has_unsubscribed_hears_nothing_more_and_the_others_do(buses: tuple[Bus, Bus], failed: Failures) -> None:
    one, two = buses
    leaves, stays = Heard(), Heard()
    end = two.subscribe("c", leaves)
    two.subscribe("c", stays)
    again = two.subscribe("c", leaves)
    await one.publish("c", b"1")
    await stays.until(1)
    assert leaves.messages == [b"1", b"1"]
    end()
    end()
    again()
    await one.publish("c", b"2")
    await stays.until(2)
    assert leaves.messages == [b"1", b"1"]


async def test_a_subscriber_that_fails_is_told_of_and_disturbs_nobody(buses: tuple[Bus, Bus], failed: Failures) -> None:
    one, two = buses
    stays = Heard()

    def fail(_: bytes) -> None:
        raise KeyError("mine")

    two.subscribe("c", Listener(fail, lambda: None))
    two.subscribe("c", stays)
    await one.publish("c", b"1")
    await one.publish("c", b"2")
    await stays.until(2)
    assert [name for name, _ in failed] == ["a subscriber of c"] * 2


# ------------------------------------------------------------------------------------------------------- on a server
@pytest.fixture
def cut() -> Iterator[Cut]:
    with Cut(os.environ[REDIS]) as line:
        yield line


@pytest.mark.needs("redis")
@pytest.mark.proves("shared.outage")
async def test_after_a_cut_there_is_a_gap_and_messages_come_again(cut: Cut, redis_url: str, redis_prefix: str, failed: Failures) -> None:
    async with bus_on(cut.url, redis_prefix, failed) as far, bus_on(redis_url, redis_prefix, failed) as near:
        heard = Heard()
        far.subscribe("c", heard)
        for round_ in (1, 2):
            cut.cut()
            await near.publish("c", b"nobody hears this")
            cut.mend()
            await heard.until(gaps=round_)
            await near.publish("c", b"%d" % round_)
            await heard.until(messages=round_)
        assert heard.messages == [b"1", b"2"]
        assert {name for name, _ in failed} == {"bus"}
        assert len(failed) == 2, "once for each outage"
        assert all(isinstance(error, StoreUnavailable) for _, error in failed)


@pytest.mark.needs("redis")
async def test_a_line_that_went_silent_is_noticed(
    cut: Cut, redis_url: str, redis_prefix: str, failed: Failures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "QUIET", 0.2)
    async with bus_on(cut.url, redis_prefix, failed, deadline=0.5) as far:
        heard = Heard()
        far.subscribe("c", heard)
        before = cut.connections
        cut.stall()
        while not failed:
            await heard.until(gaps=0)
            await far._clock.sleep(0.01)
        cut.mend()
        await heard.until(gaps=1)
        assert cut.connections > before


@pytest.mark.needs("redis")
async def test_a_quiet_bus_stays_connected(redis_url: str, redis_prefix: str, failed: Failures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUIET", 0.05)
    async with bus_on(redis_url, redis_prefix, failed) as bus:
        heard = Heard()
        bus.subscribe("c", heard)
        for _ in range(10):  # ten times the silence after which it asks
            await bus._clock.sleep(0.05)
        await bus.publish("c", b"1")
        await heard.until(1)
    assert (heard.gaps, failed) == (0, [])


@pytest.mark.needs("redis")
async def test_two_installations_and_two_databases_of_a_server_do_not_hear_each_other(
    redis_url: str, redis_prefix: str, failed: Failures
) -> None:
    second = f"{redis_url.rpartition('/')[0]}/1"
    async with (
        bus_on(redis_url, f"{redis_prefix}a", failed) as one,
        bus_on(redis_url, f"{redis_prefix}b", failed) as two,
        bus_on(second, f"{redis_prefix}a", failed) as three,
    ):
        heard = [Heard(), Heard(), Heard()]
        for bus, each in zip((one, two, three), heard, strict=True):
            bus.subscribe("c", each)
        for number, bus in enumerate((one, two, three)):
            await bus.publish("c", b"%d" % number)
        for number, each in enumerate(heard):
            await each.until(1)
            assert each.messages == [b"%d" % number]


@pytest.mark.needs("redis")
async def test_a_subscriber_from_before_the_first_connection_is_told_of_a_gap(redis_url: str, redis_prefix: str, failed: Failures) -> None:
    link = link_to(redis_url, redis_prefix)
    bus = module.RedisBus(link, link._clock, failed=failed)
    heard = Heard()
    bus.subscribe("c", heard)
    async with bus.running():
        await heard.until(gaps=1)
        await bus.publish("c", b"1")
        await heard.until(1)
    await link.aclose()
