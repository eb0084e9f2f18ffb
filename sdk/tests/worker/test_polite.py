"""A worker that does as it should: it says hello, is activated, called and ended."""

import asyncio
import tomllib
from pathlib import Path

import pytest

from sdk.tests.worker.host import SOON, Starts
from trunkline_sdk.channel import Call
from trunkline_sdk.rpc.errors import RpcError
from trunkline_sdk.rpc.messages import Control
from trunkline_sdk.worker import API, VERSION

POLITE = """
    import rules

    async def activate(context):
        context.handle("double", double)
        context.handle("who", who)
        context.handle("quiet", lambda params, call: call.log.info("quiet", of=params, at=object))
        context.log.info("ready", name=context.name)
        return Hold()

    async def double(params, call):
        return rules.twice(params)

    def who(params, call):
        return [call.call_id, call.user, 0 < call.seconds <= params]

    async def deactivate():
        print("deactivate")

    class Hold:
        def dispose(self):
            print("dispose")
"""
RULES = """
    def twice(value):
        return value * 2
"""


@pytest.mark.proves("worker.life")
async def test_a_worker_is_welcomed_activated_called_and_ended(starts: Starts) -> None:
    controls = [
        {"control": "network", "by": "seccomp", "status": "applied", "detail": ""},
        {"control": "memory", "by": "cgroup", "status": "absent", "detail": "not delegated"},
    ]
    async with starts.bare(POLITE, controls=controls, rules=RULES) as worker:
        hello = await worker.meet()
        assert (hello.sdk, hello.api, hello.pid) == (VERSION, API, worker.process.pid)
        assert hello.controls == tuple(Control(**control) for control in controls)  # pyright: ignore[reportArgumentType]
        assert await worker.ask("activate") == {"registered": ["double", "quiet", "who"]}
        assert await worker.hears("log") == {"level": "info", "message": "ready", "fields": {"name": "extension-1"}, "call": None}
        assert await worker.call("double", 21) == 42
        assert await worker.call("who", 5, seconds=5, context={"call_id": "cal_a", "user": "usr_b", "extension": "x"}) == [
            "cal_a",
            "usr_b",
            True,
        ]
        assert await worker.call("who", SOON) == ["", None, True]
        assert await worker.call("quiet", {"a": 1}) is None
        told = await worker.hears("log")
        assert (told["fields"], told["call"]) == ({"of": {"a": 1}, "at": "<class 'object'>"}, 5)
        assert await worker.ask("deactivate") is None
        assert await worker.ends() == 0
        assert worker.said.splitlines() == ["deactivate", "dispose"]
        assert worker.odd == []


def test_the_version_that_a_worker_tells_is_that_of_the_distribution() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == VERSION


async def test_the_end_of_the_connection_is_the_end_of_the_worker(starts: Starts) -> None:
    async with starts(POLITE, rules=RULES) as worker:
        await worker.ask("activate")
        worker.channel.close()
        assert await worker.ends() == 0
        assert worker.said == ""


async def test_each_step_of_the_end_is_tried_and_a_failure_told(starts: Starts) -> None:
    code = """
        class Hold:
            async def dispose(self):
                print("dispose")

        def activate(context):
            return Hold()

        def deactivate():
            raise ValueError("no end")
    """
    async with starts(code) as worker:
        assert await worker.ask("activate") == {"registered": []}
        with pytest.raises(RpcError) as failed:
            await worker.ask("deactivate")
        assert (failed.value.code, failed.value.message) == ("failed", "ValueError: no end (main.py:10)")
        assert await worker.ends() == 0
        assert worker.said.splitlines()[-1] == "dispose"


async def test_what_is_unknown_is_told_and_what_is_taken_is_refused(starts: Starts) -> None:
    code = """
        def activate(context):
            context.handle("a", print)
            context.handle("a", print)
    """
    async with starts(code) as worker:
        for method, params, code in (
            ("call", {"name": "a"}, "method_not_found"),
            ("call", {"name": 1}, "invalid_params"),
            ("fly", None, "method_not_found"),
            ("activate", None, "failed"),
            ("activate", None, "invalid_params"),
        ):
            with pytest.raises(RpcError) as refused:
                await worker.ask(method, params)
            assert refused.value.code == code
        assert await worker.ask("deactivate") is None


async def test_a_call_that_nobody_waits_for_is_cancelled(starts: Starts) -> None:
    code = """
        import asyncio

        def activate(context):
            context.handle("wait", wait)

        async def wait(params, call):
            call.log.info("waits")
            try:
                await asyncio.Event().wait()
            finally:
                call.log.info("cancelled")
    """
    async with starts(code) as worker:
        await worker.ask("activate")
        waiting = asyncio.ensure_future(worker.call("wait"))
        assert (await worker.hears("log"))["message"] == "waits"
        waiting.cancel()
        assert (await worker.hears("log"))["message"] == "cancelled"
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_a_host_that_does_not_want_it_and_one_that_speaks_nonsense(starts: Starts) -> None:
    async with starts.bare("") as worker:
        await worker.channel.greeted()
        worker.channel.peer.refuse("too old")
        worker.channel._flush()  # pyright: ignore[reportPrivateUsage] - hosts refuse by `welcome`, which finds no fault here
        assert await worker.ends() == 78
        assert worker.said == "the worker ends: too old\n"
    async with starts("") as worker:
        assert worker.channel._transport is not None  # pyright: ignore[reportPrivateUsage] - a channel writes no nonsense
        worker.channel._transport.write(b"\xff" * 16)  # pyright: ignore[reportPrivateUsage]
        assert await worker.ends() == 76
        assert "4294967295 bytes" in worker.said


async def test_sigterm_ends_it(starts: Starts) -> None:
    async with starts("") as worker:
        worker.process.terminate()
        assert await worker.ends() == 143


async def test_a_line_of_the_log_that_is_too_large_is_cut(starts: Starts) -> None:
    code = """
        def activate(context):
            context.log.warning("x" * 100_000, much="y" * 3_000_000)
    """
    async with starts(code) as worker:
        await worker.ask("activate")
        line = await worker.hears("log")
        assert line["message"] == "x" * 1000
        assert line["fields"]["dropped_bytes"] > 3_000_000


async def test_threads_may_write_to_the_log(starts: Starts) -> None:
    code = """
        import asyncio, threading

        def activate(context):
            async def work(params, call):
                def write():
                    channel, here = call.log._channel, threading.get_ident()
                    notify = channel.notify
                    channel.notify = lambda *told: notify(told[0], {"loop": threading.get_ident() != here})
                    call.log.info("from a thread")

                await asyncio.to_thread(write)

            context.handle("work", work)
    """
    async with starts(code) as worker:
        await worker.ask("activate")
        await worker.call("work")
        assert await worker.hears("log") == {"loop": True}


@pytest.mark.parametrize(
    ("value", "told"),
    [("{(1, object): 2}", "{(1, <class 'object'>): 2}"), ("'\\udce9'", "'\\udce9'"), ("circle", "[[...]]")],
    ids=["key", "file name", "circle"],
)
async def test_a_line_of_the_log_is_told_whatever_is_in_it(starts: Starts, value: str, told: str) -> None:
    code = f"""
        circle = []
        circle.append(circle)

        def activate(context):
            context.log.info("\\udce9", value={value}, of=1)
    """
    async with starts(code) as worker:
        await worker.ask("activate")
        line = await worker.hears("log")
        assert (line["message"], line["fields"]) == ("\\udce9", {"value": told, "of": "1"})


async def test_calls_back_are_bound_to_their_call(starts: Starts) -> None:
    code = """
        def activate(context):
            async def bound(params, call):
                return (await call.network.fetch(params)).status

            async def unbound(params, call):
                return (await context.network.fetch(params)).status

            context.handle("bound", bound)
            context.handle("unbound", unbound)
    """
    async with starts(code) as worker:
        during: list[int | None] = []

        async def fetch(call: Call) -> object:
            during.append(call.during)
            return {"status": 200, "url": "http://there.test/", "headers": [], "body": ""}

        worker.answers["network.fetch"] = fetch
        await worker.ask("activate")
        assert [await worker.call("bound", "http://there.test/"), await worker.call("unbound", "http://there.test/")] == [200, 200]
        assert during == [2, None]
