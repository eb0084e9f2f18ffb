"""What a coordinator does over a store, as tests (daemon contract, E4; I.13): derive a class and give it the fixture `store`."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from trunkline_sdk.daemon.errors import RefreshRefused
from trunkline_sdk.daemon.messages import Record
from trunkline_sdk.daemon.tokenstore import (
    Conflict,
    Coordinator,
    IdentityChanged,
    InvalidRefresh,
    LeaseTimeout,
    NoRefreshToken,
    NotFound,
    Revoked,
    Store,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
EXPIRED = Record(
    access_token="access-1",
    refresh_token="refresh-1",
    id_token="id-1",
    token_type="Bearer",
    account_id="account-1",
    expiry=NOW - timedelta(minutes=1),
    metadata={"project": "p", "label": "l"},
)


class Provider:
    """Gives what its test says, and counts."""

    def __init__(self, gives: Record | Exception = Record(access_token="access-2")) -> None:  # noqa: B008
        self.gives = gives
        self.asked: list[Record] = []
        self.go = asyncio.Event()
        self.go.set()

    async def __call__(self, record: Record) -> Record:
        self.asked.append(record)
        await self.go.wait()
        if isinstance(self.gives, Exception):
            raise self.gives
        return self.gives


def refusal(*, terminal: bool) -> RefreshRefused:
    return RefreshRefused("refused", provider="p", status=400, reason="invalid_grant", terminal=terminal)


def coordinator(store: Store, provider: Provider, **options: float) -> Coordinator:
    return Coordinator(store, provider, now=lambda: NOW, **options)


class RenewalContract:
    async def test_an_expired_record_is_refreshed_once_for_two_calls(self, store: Store) -> None:  # I.13
        await store.save("k", EXPIRED)
        provider = Provider(Record(access_token="access-2", refresh_token="refresh-2", expiry=NOW + timedelta(hours=1)))
        tokens = coordinator(store, provider)
        first = await tokens.token("k")
        assert first == await tokens.token("k") == await store.load("k")
        assert (first.access_token, first.refresh_token) == ("access-2", "refresh-2")
        assert [record.refresh_token for record in provider.asked] == ["refresh-1"]

    async def test_sixteen_at_once_share_one_refresh(self, store: Store) -> None:  # I.13
        await store.save("k", EXPIRED)
        provider = Provider()
        first, second = coordinator(store, provider), coordinator(store, provider)
        records = await asyncio.gather(*((first, second)[number % 2].token("k") for number in range(16)))
        assert len({record.revision for record in records}) == len(provider.asked) == 1

    @pytest.mark.parametrize(
        ("expires_in", "skew", "refreshed"),
        [(None, 60, False), (61, 60, False), (60, 60, True), (59, 60, True), (1, 0, False), (0, 0, True)],
    )
    async def test_when_a_record_is_usable(self, store: Store, expires_in: float | None, skew: float, refreshed: bool) -> None:
        expiry = None if expires_in is None else NOW + timedelta(seconds=expires_in)
        await store.save("k", replace(EXPIRED, expiry=expiry))
        provider = Provider()
        await coordinator(store, provider, skew=skew).token("k")
        assert bool(provider.asked) is refreshed

    async def test_a_record_without_an_access_token_is_refreshed(self, store: Store) -> None:
        await store.save("k", Record(access_token=" ", refresh_token="r"))
        assert (await coordinator(store, Provider()).token("k")).access_token == "access-2"

    async def test_a_rejected_record_is_refreshed_though_it_has_not_expired(self, store: Store) -> None:
        rejected = await store.save("k", replace(EXPIRED, expiry=None))
        provider = Provider()
        assert (await coordinator(store, provider).rejected("k", rejected)).access_token == "access-2"

    async def test_those_who_were_rejected_with_one_revision_share_one_refresh(self, store: Store) -> None:  # I.13
        rejected = await store.save("k", replace(EXPIRED, expiry=None))
        provider = Provider()
        tokens = coordinator(store, provider)
        records = await asyncio.gather(*(tokens.rejected("k", rejected) for _ in range(16)))
        assert len({record.revision for record in records}) == len(provider.asked) == 1

    async def test_what_a_refresh_leaves_out_stays(self, store: Store) -> None:
        await store.save("k", EXPIRED)
        renewed = await coordinator(store, Provider(Record(access_token="access-2", metadata={"label": "new", "more": "m"}))).token("k")
        kept = replace(
            EXPIRED,
            revision=renewed.revision,
            access_token="access-2",
            expiry=None,
            metadata={"project": "p", "label": "new", "more": "m"},
        )
        assert renewed == kept

    async def test_the_provider_gets_a_copy(self, store: Store) -> None:
        await store.save("k", EXPIRED)

        async def spoils(record: Record) -> Record:
            record.metadata["project"] = "spoiled"
            return Record(access_token="access-2")

        assert (await Coordinator(store, spoils, now=lambda: NOW).token("k")).metadata["project"] == "p"

    async def test_another_account_is_dropped_and_the_record_stays(self, store: Store) -> None:  # I.13
        kept = await store.save("k", EXPIRED)
        with pytest.raises(IdentityChanged):
            await coordinator(store, Provider(Record(access_token="x", account_id="account-2"))).token("k")
        assert await store.load("k") == kept
        assert (await coordinator(store, Provider(Record(access_token="x", account_id="account-1"))).token("k")).access_token == "x"

    async def test_a_terminal_refusal_revokes(self, store: Store) -> None:  # I.13
        await store.save("k", EXPIRED)
        with pytest.raises(Revoked) as caught:
            await coordinator(store, Provider(refusal(terminal=True))).token("k")
        assert isinstance(caught.value.__cause__, RefreshRefused)
        with pytest.raises(NotFound):
            await store.load("k")

    @pytest.mark.parametrize("error", [refusal(terminal=False), OSError("down")])
    async def test_any_other_failure_leaves_the_record(self, store: Store, error: Exception) -> None:
        kept = await store.save("k", EXPIRED)
        with pytest.raises(type(error)):
            await coordinator(store, Provider(error)).token("k")
        assert await store.load("k") == kept
        async with asyncio.timeout(1), await store.lease("k"):
            pass  # it was released

    async def test_a_revocation_does_not_take_a_new_sign_in_away(self, store: Store) -> None:  # I.13
        await store.save("k", EXPIRED)

        async def signs_in(record: Record) -> Record:
            await store.save("k", Record(access_token="new"))
            raise refusal(terminal=True)

        with pytest.raises(Revoked):
            await Coordinator(store, signs_in, now=lambda: NOW).token("k")
        assert (await store.load("k")).access_token == "new"

    @pytest.mark.parametrize(("login", "usable"), [(Record(access_token="new"), True), (Record(refresh_token="r"), False)])
    async def test_a_sign_in_meanwhile_is_kept(self, store: Store, login: Record, usable: bool) -> None:  # I.13
        await store.save("k", EXPIRED)

        async def signs_in(record: Record) -> Record:
            await store.save("k", login)
            return Record(access_token="late")

        tokens = Coordinator(store, signs_in, now=lambda: NOW)
        if usable:
            assert (await tokens.token("k")).access_token == "new"
        else:
            with pytest.raises(Conflict):
                await tokens.token("k")
        assert (await store.load("k")).access_token == login.access_token

    async def test_a_sign_out_meanwhile_is_kept(self, store: Store) -> None:
        current = await store.save("k", EXPIRED)

        async def signs_out(record: Record) -> Record:
            await store.revoke_if_current("k", current.revision)
            return Record(access_token="late")

        with pytest.raises(Conflict):
            await Coordinator(store, signs_out, now=lambda: NOW).token("k")
        with pytest.raises(NotFound):
            await store.load("k")

    async def test_what_cannot_be_renewed(self, store: Store) -> None:  # I.13
        await store.save("k", replace(EXPIRED, refresh_token=" "))
        provider = Provider()
        with pytest.raises(NoRefreshToken):
            await coordinator(store, provider).token("k")
        assert provider.asked == []
        await store.save("k", EXPIRED)
        with pytest.raises(InvalidRefresh):
            await coordinator(store, Provider(Record())).token("k")
        with pytest.raises(NotFound):
            await coordinator(store, provider).token("other")

    async def test_the_wait_for_a_lease_has_an_end(self, store: Store) -> None:  # I.13
        await store.save("k", EXPIRED)
        async with await store.lease("k"):
            with pytest.raises(LeaseTimeout):
                await coordinator(store, Provider(), lease_wait=0.05).token("k")
        assert (await coordinator(store, Provider()).token("k")).access_token == "access-2"

    async def test_a_cancelled_refresh_gives_its_lease_back(self, store: Store) -> None:
        await store.save("k", EXPIRED)
        provider = Provider()
        provider.go.clear()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(coordinator(store, provider).token("k"), 0.05)
        provider.go.set()
        async with asyncio.timeout(10):
            assert (await coordinator(store, provider).token("k")).access_token == "access-2"
