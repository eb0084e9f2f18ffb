"""A refresh token goes upstream once (daemon contract, C5, K9)."""

import asyncio
from contextlib import nullcontext
from typing import Any

import pytest
from msgspec.structs import replace

from sdk.tests.daemon.conftest import Answer, Asking, Site, until
from trunkline_sdk.daemon.messages import ProviderInfo, Record
from trunkline_sdk.daemon.server import Backend, Daemon, DaemonLimits, Failure, GrantRefused
from trunkline_sdk.daemon.server.renewals import Renewals


class Rotating(Backend):
    """Every refresh gives the next tokens, as soon as its test lets it."""

    info = ProviderInfo(id="p", surfaces=("chat_completions",), credential="oauth", has_refresh=True)

    def __init__(self, *, rotates: bool = True, held: bool = False, fails: Exception | None = None) -> None:
        self.calls: list[str] = []
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self._rotates = rotates
        self._fails = fails
        if not held:
            self.go.set()

    async def refresh(self, record: Record) -> Record:
        self.calls.append(record.refresh_token)
        number = len(self.calls)
        self.asked.set()
        await self.go.wait()
        if self._fails is not None:
            raise self._fails
        return Record(access_token=f"access-{number}", refresh_token=f"refresh-{number}" if self._rotates else record.refresh_token)


async def renew(asking: Asking, refresh: str = "refresh-0", access: str = "access-0") -> Answer:
    return await asking.ask("p/refresh", {"record": {"RefreshToken": refresh, "AccessToken": access}})


def tokens(answer: Answer) -> tuple[str, str]:
    return answer.json["record"]["AccessToken"], answer.json["record"]["RefreshToken"]


async def test_a_product_that_leaves_does_not_stop_its_refresh_and_gets_it_later(site: Site) -> None:  # I.20's exception
    backend = Rotating(held=True)
    asking = await site.serve(Daemon(backend))
    product = asyncio.get_running_loop().create_task(renew(asking))
    async with asyncio.timeout(10):
        await backend.asked.wait()
        product.cancel()
        await until(lambda: asking.listener.connections == 0)
        backend.go.set()
        assert tokens(await renew(asking)) == ("access-1", "refresh-1")
    assert backend.calls == ["refresh-0"]


async def test_those_who_ask_at_once_share_one_refresh(site: Site) -> None:
    backend = Rotating(held=True)
    asking = await site.serve(Daemon(backend))
    products = [asyncio.get_running_loop().create_task(renew(asking)) for _ in range(16)]
    async with asyncio.timeout(10):
        await until(lambda: asking.listener.connections == 16)
        backend.go.set()
        assert {tokens(await product) for product in products} == {("access-1", "refresh-1")}
    assert len(backend.calls) == 1


async def test_another_token_is_another_refresh(site: Site) -> None:
    backend = Rotating()
    asking = await site.serve(Daemon(backend))
    assert tokens(await renew(asking)) == ("access-1", "refresh-1")
    assert tokens(await renew(asking, "refresh-1", "access-1")) == ("access-2", "refresh-2")


async def test_a_token_that_does_not_rotate_is_refreshed_again_by_who_has_the_answer(site: Site) -> None:
    backend = Rotating(rotates=False)
    asking = await site.serve(Daemon(backend))
    assert tokens(await renew(asking)) == tokens(await renew(asking)) == ("access-1", "refresh-0")  # a repeat
    assert tokens(await renew(asking, access="access-1")) == ("access-2", "refresh-0")  # an upstream refused access-1
    assert len(backend.calls) == 2


async def test_what_came_of_it_is_forgotten_in_time(site: Site) -> None:
    backend = Rotating()
    asking = await site.serve(Daemon(backend, limits=DaemonLimits(remembered_seconds=0)))
    assert tokens(await renew(asking)) == ("access-1", "refresh-1")
    await until(lambda: not asking.daemon._renewals._tasks)
    assert tokens(await renew(asking)) == ("access-2", "refresh-2")


async def test_a_failure_is_not_remembered(site: Site) -> None:
    backend = Rotating(fails=Failure(503, "later"))
    asking = await site.serve(Daemon(backend))
    assert [(await renew(asking)).status for _ in range(2)] == [503, 503]
    assert len(backend.calls) == 2


async def test_a_slow_refresh_is_504_and_goes_on(site: Site) -> None:
    backend = Rotating(held=True)
    asking = await site.serve(Daemon(backend, limits=DaemonLimits(refresh_seconds=0.05)))
    slow = await renew(asking)
    assert (slow.status, slow.json) == (504, {"error": "the provider did not answer in time"})
    backend.go.set()
    assert tokens(await renew(asking)) == ("access-1", "refresh-1")
    assert len(backend.calls) == 1


async def test_a_refresh_without_an_access_token_is_no_success(site: Site) -> None:
    class Empty(Rotating):
        async def refresh(self, record: Record) -> Record:
            return Record(refresh_token="x")

    answer = await renew(await site.serve(Daemon(Empty())))
    assert (answer.status, answer.json) == (502, {"error": "the provider gave no access token"})


@pytest.mark.parametrize(
    "error", [Failure(401, "canary-refresh is bad"), RuntimeError("canary-refresh"), GrantRefused("x", "canary-refresh")]
)
async def test_no_error_tells_the_token(site: Site, error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    answer = await renew(await site.serve(Daemon(Rotating(fails=error))), "canary-refresh", "canary-access")
    assert answer.status >= 400
    assert "canary" not in answer.body.decode()
    assert "canary" not in caplog.text


@pytest.mark.parametrize(
    ("code", "reason", "terminal", "said"),
    [
        ("invalid_grant", "", True, "invalid_grant"),
        (" Refresh_Token_Reused ", "used twice", True, "used twice"),
        ("invalid_client", "", False, "invalid_client"),
        ("", " ", False, "the refresh token was refused"),
    ],
)
def test_which_refusals_are_terminal(code: str, reason: str, terminal: bool, said: str) -> None:  # D3
    refused = GrantRefused(code, reason)
    assert (refused.status, refused.terminal, refused.message) == (400, terminal, said)


async def test_an_ending_daemon_waits_for_refreshes_and_keeps_nothing(site: Site) -> None:
    backend = Rotating(held=True)
    asking = await site.serve(Daemon(backend))
    product: asyncio.Task[Any] = asyncio.get_running_loop().create_task(renew(asking))
    async with asyncio.timeout(10):
        await backend.asked.wait()
        closing = asyncio.get_running_loop().create_task(asking.daemon.aclose())
        assert (await product).status == 503
        assert not closing.done()
        backend.go.set()
        await closing
    assert asking.daemon._renewals._tasks == {}
    stuck = Rotating(held=True)
    asking = await site.serve(Daemon(stuck, limits=DaemonLimits(refresh_seconds=0.05)))
    assert (await renew(asking)).status == 504
    async with asyncio.timeout(10):
        await asking.daemon.aclose()


@pytest.mark.parametrize("fails", [False, True])
async def test_a_refresh_that_ends_at_this_moment_is_over(fails: bool) -> None:
    renewals, ends = Renewals(remembered_seconds=60), asyncio.Event()
    given: list[str] = []

    async def refresh(record: Record) -> Record:
        given.append(record.refresh_token)
        if len(given) == 1:
            await asyncio.sleep(0)
            ends.set()  # whoever waits for it goes on before anybody is told of the end of this task
            if fails:
                raise GrantRefused("not now")
        return record

    async def late() -> Record:
        await ends.wait()
        return await renewals.renew("p", record, refresh)

    record = Record(access_token="as-before", refresh_token="refresh-0")
    second = asyncio.get_running_loop().create_task(late())
    with nullcontext() if not fails else pytest.raises(GrantRefused):
        await renewals.renew("p", record, refresh)
    assert await second == record
    assert len(given) == 2
    assert await renewals.renew("p", replace(record, access_token="lost"), refresh) == record
    assert len(given) == 2
    await renewals.aclose(1)
