"""The store contract as tests (daemon contract, E3): derive a class and give it the fixture `store`."""

import asyncio

import pytest

from trunkline_sdk.daemon.messages import Record
from trunkline_sdk.daemon.tokenstore import BlankKey, Conflict, NotFound, Store


class StoreContract:
    async def test_what_is_saved_is_loaded_with_a_new_revision(self, store: Store) -> None:
        first = await store.save("k", Record(access_token="a", revision="mine", metadata={"p": "1"}))
        assert first.revision not in {"", "mine"}
        assert await store.load("k") == first
        second = await store.save("k", Record(access_token="b", revision=first.revision))
        assert second.revision != first.revision
        assert (await store.load("k")).access_token == "b"

    async def test_keys_are_apart(self, store: Store) -> None:
        await store.save("k", Record(access_token="a"))
        with pytest.raises(NotFound):
            await store.load("K")

    async def test_nothing_is_shared_with_what_is_kept(self, store: Store) -> None:
        given = {"p": "1"}
        saved = await store.save("k", Record(metadata=given))
        given["p"] = saved.metadata["p"] = "2"
        (await store.load("k")).metadata["p"] = "3"
        assert (await store.load("k")).metadata == {"p": "1"}

    async def test_only_the_current_revision_is_replaced(self, store: Store) -> None:
        first = await store.save("k", Record(access_token="a"))
        second = await store.replace_if_current("k", first.revision, Record(access_token="b", revision="x"))
        assert second.revision not in {first.revision, "x", ""}
        with pytest.raises(Conflict):
            await store.replace_if_current("k", first.revision, Record(access_token="c"))
        assert await store.load("k") == second

    async def test_what_never_was_is_not_replaced(self, store: Store) -> None:
        for revision in ("", "x"):
            with pytest.raises(Conflict):
                await store.replace_if_current("k", revision, Record())

    async def test_only_the_current_revision_is_revoked(self, store: Store) -> None:
        with pytest.raises(NotFound):
            await store.revoke_if_current("k", "x")
        first = await store.save("k", Record(access_token="a"))
        second = await store.save("k", Record(access_token="b"))
        with pytest.raises(Conflict):
            await store.revoke_if_current("k", first.revision)
        await store.revoke_if_current("k", second.revision)
        with pytest.raises(NotFound):
            await store.load("k")
        with pytest.raises(NotFound):
            await store.revoke_if_current("k", second.revision)
        with pytest.raises(Conflict):
            await store.replace_if_current("k", second.revision, Record())
        third = await store.save("k", Record(access_token="c"))
        assert third.revision not in {first.revision, second.revision}

    async def test_of_sixteen_who_replace_one_wins(self, store: Store) -> None:
        first = await store.save("k", Record())
        ways = [store.replace_if_current("k", first.revision, Record(access_token=str(number))) for number in range(16)]
        results = await asyncio.gather(*ways, return_exceptions=True)
        assert [type(result) for result in results if isinstance(result, Exception)] == [Conflict] * 15

    @pytest.mark.parametrize("key", ["", " ", "\t\n"])
    async def test_a_blank_key_is_an_error(self, store: Store, key: str) -> None:
        ways = [
            store.load(key),
            store.save(key, Record()),
            store.replace_if_current(key, "", Record()),
            store.revoke_if_current(key, ""),
            store.lease(key),
        ]
        results = await asyncio.gather(*ways, return_exceptions=True)
        assert [type(result) for result in results] == [BlankKey] * 5

    async def test_a_lease_is_held_by_one_until_it_is_released(self, store: Store) -> None:
        first = await store.lease("k")
        async with await store.lease("other"):
            waiting = asyncio.get_running_loop().create_task(store.lease("k"))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(waiting), 0.05)
        await first.release()
        async with asyncio.timeout(10):
            second = await waiting
        await first.release()  # a second time: the lease is another's by now
        third = asyncio.get_running_loop().create_task(store.lease("k"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(third), 0.05)
        await second.release()
        async with asyncio.timeout(10):
            await (await third).release()

    async def test_a_cancelled_wait_leaves_nothing_behind(self, store: Store) -> None:
        async with await store.lease("k"):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(store.lease("k"), 0.05)
        async with asyncio.timeout(10), await store.lease("k"):
            pass
