"""Who asks: the host's word, and never the worker's."""

import asyncio
import json
from typing import Any

import pytest

from tests.fakes.worker import PATIENCE, Ground, Liar, Meeting, frame
from trunkline.base.codec import Record
from trunkline.host.broker import Broker, groups
from trunkline.host.methods import Ask, Group, Method
from trunkline.host.rates import Rate
from trunkline_sdk.channel import Call
from trunkline_sdk.rpc.errors import RpcError
from trunkline_sdk.rpc.messages import Raw


class Nothing(Record, frozen=True, forbid_unknown_fields=False):
    """No params."""


class People:
    """A service whose methods tell who asked."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.waiting = asyncio.Event()
        self.stopped = asyncio.Event()


async def whoami(_: People, ask: Ask[Nothing]) -> object:
    return {"extension": ask.context.extension, "user": ask.context.user, "call": ask.context.call_id}


async def wait(people: People, ask: Ask[Nothing]) -> object:
    people.waiting.set()
    try:
        await people.gate.wait()
    finally:
        people.stopped.set()
    return ask.context.user


async def broken(_: People, __: Ask[Nothing]) -> object:
    raise ValueError("canary-text")


PEOPLE = Group(
    service=People,
    calls={
        "whoami": Method(whoami, params=Nothing, needs=None, rate=Rate(1, 1000)),
        "wait": Method(wait, params=Nothing, needs=None, rate=Rate(1, 1000)),
        "broken": Method(broken, params=Nothing, needs=None, rate=Rate(1, 1000)),
        "secret": Method(whoami, params=Nothing, needs="people.read", rate=Rate(1, 2)),
    },
)


@pytest.fixture
def people(ground: Ground) -> People:
    """The broker has this group alone."""
    made = People()
    ground.broker = Broker({"people": PEOPLE}, [made], clock=ground.clock, log=ground.log, registry=ground.registry)
    return made


def read(raw: Raw) -> Any:
    return json.loads(bytes(raw))


@pytest.mark.proves("host.context")
async def test_what_is_bound_to_a_call_is_for_its_user_and_what_is_not_for_nobody(ground: Ground, people: People) -> None:
    async with ground.meet("weather") as met:

        async def tool(call: Call) -> object:
            context = json.loads(bytes(call.context))
            return [context, await met.asks("whoami", during=call.id), await met.asks("whoami")]

        met.answers["tool"] = tool
        told, bound, unbound = read(await met.line.call("tool", user="usr_a", seconds=5))
        assert told == {"call_id": bound["call"], "extension": "weather", "user": "usr_a"}
        assert bound == {"extension": "weather", "user": "usr_a", "call": told["call_id"]}
        assert (unbound["extension"], unbound["user"]) == ("weather", None)
        assert unbound["call"] not in {"", told["call_id"]}


@pytest.mark.proves("host.context")
async def test_a_worker_cannot_choose_the_user(ground: Ground, people: People) -> None:
    lie = {"user": "usr_b", "user_id": "usr_b", "extension": "other", "call_id": "ecl_x"}
    async with ground.meet("weather") as met:

        async def tool(call: Call) -> object:
            return [await met.asks("whoami", lie, during=call.id, context=lie), await met.asks("whoami", lie, context=lie)]

        met.answers["tool"] = tool
        bound, unbound = read(await met.line.call("tool", user="usr_a", seconds=5))
        assert (bound["user"], bound["extension"]) == ("usr_a", "weather")
        assert (unbound["user"], unbound["extension"]) == (None, "weather")


@pytest.mark.proves("host.context")
async def test_two_users_calls_at_once_are_told_apart(ground: Ground, people: People) -> None:
    async with ground.meet("weather") as met:
        both = asyncio.Barrier(2)

        async def tool(call: Call) -> object:
            await both.wait()
            return (await met.asks("whoami", during=call.id))["user"]

        met.answers["tool"] = tool
        users = [f"usr_{number}" for number in "ab"]
        assert [read(each) for each in await asyncio.gather(*(met.line.call("tool", user=user, seconds=5) for user in users))] == users


@pytest.mark.proves("host.context")
async def test_a_call_that_is_over_or_never_was_lends_its_user_to_nobody(ground: Ground, people: People) -> None:
    async with ground.liar("weather") as liar:
        calling = asyncio.create_task(liar.line.call("tool", user="usr_a", seconds=5))
        call = await liar.next()
        await liar.send({"id": call["id"], "result": 1}, {"id": 1, "method": "whoami", "during": call["id"]})
        assert read(await calling) == 1
        assert (await liar.next())["error"]["code"] == "cancelled"
        await liar.send({"id": 2, "method": "whoami", "during": 77})
        assert (await liar.next())["error"]["code"] == "cancelled"
        await liar.send({"id": 3, "method": "whoami"})
        assert (await liar.next())["result"]["user"] is None


@pytest.mark.proves("host.context")
async def test_a_request_ends_with_the_call_that_it_is_bound_to(ground: Ground, people: People) -> None:
    async with ground.meet("weather") as met:

        async def tool(call: Call) -> object:
            waiting = asyncio.create_task(met.worker.call("wait", during=call.id))
            await people.waiting.wait()
            met.answers["left"] = lambda _: asyncio.sleep(0, None)
            waiting.add_done_callback(lambda task: task.cancelled() or task.exception())
            return "done"

        met.answers["tool"] = tool
        assert read(await met.line.call("tool", user="usr_a", seconds=5)) == "done"
        await asyncio.wait_for(people.stopped.wait(), PATIENCE)


@pytest.mark.proves("host.context")
async def test_a_deadline_is_inherited_and_never_grows(ground: Ground, people: People) -> None:
    async with ground.meet("weather") as met:

        async def tool(call: Call) -> object:
            return read(await met.worker.call("wait", during=call.id, seconds=60))

        met.answers["tool"] = tool
        with pytest.raises(RpcError) as late:
            await met.line.call("tool", user="usr_a", seconds=0.5)
        assert (late.value.code, late.value.extension) == ("deadline_exceeded", "weather")
        await asyncio.wait_for(people.stopped.wait(), PATIENCE)


@pytest.mark.proves("D4")
async def test_a_late_answer_is_dropped_and_counted_and_the_next_call_is_well(ground: Ground, people: People) -> None:
    async with ground.liar("weather") as liar:
        first = asyncio.create_task(liar.line.call("slow", user=None, seconds=0.05))
        call = await liar.next()
        with pytest.raises(RpcError) as late:
            await first
        assert late.value.code == "deadline_exceeded"
        assert (await liar.next())["method"] == "cancel"
        second = asyncio.create_task(liar.line.call("quick", user=None, seconds=5))
        again = await liar.next()
        await liar.send({"id": call["id"], "result": "late"}, {"id": again["id"], "result": "well"})
        assert read(await second) == "well"
        assert liar.line.channel.peer.late == 1


@pytest.mark.proves("host.lies")
async def test_whose_fault_an_error_is_says_the_host(ground: Ground, people: People) -> None:
    async with ground.liar("weather") as liar:
        calling = asyncio.create_task(liar.line.call("tool", user=None, seconds=5))
        call = await liar.next()
        await liar.send({"id": call["id"], "error": {"code": "invented", "message": "no", "extension": "other"}})
        with pytest.raises(RpcError) as told:
            await calling
        assert (told.value.code, told.value.extension, told.value.message) == ("failed", "weather", "no")


@pytest.mark.proves("host.grants")
async def test_what_was_not_granted_is_refused_and_does_not_run(ground: Ground, people: People) -> None:
    async with ground.meet("weather", ["people.write"]) as met:
        with pytest.raises(RpcError) as refused:
            await met.asks("secret")
        assert (refused.value.code, refused.value.details) == ("permission_denied", {"permission": "people.read"})
        assert "`[extensions.weather]` in the configuration" in refused.value.message
    async with ground.meet("trusted", ["people.read"]) as met:
        assert (await met.asks("secret"))["extension"] == "trusted"


@pytest.mark.proves("host.rates")
async def test_each_method_has_its_pace_and_a_new_worker_does_not_refill_it(ground: Ground, people: People) -> None:
    async def refused(met: Meeting) -> RpcError:
        with pytest.raises(RpcError) as error:
            await met.asks("secret")
        return error.value

    async with ground.meet("weather", ["people.read"]) as met:
        await met.asks("secret")
        await met.asks("secret")
        error = await refused(met)
        assert (error.code, error.retryable, error.details) == ("rate_limited", True, {"retry_after": 1.0})
        assert (await met.asks("whoami"))["extension"] == "weather"
    async with ground.meet("other", ["people.read"]) as met:
        await met.asks("secret")
    async with ground.meet("weather", ["people.read"]) as met:
        assert (await refused(met)).code == "rate_limited"
        ground.clock.advance(1)
        assert (await met.asks("secret"))["extension"] == "weather"


async def test_an_unknown_method_is_an_error_and_what_the_host_does_not_hear_goes_on(ground: Ground, people: People) -> None:
    async with ground.meet("weather") as met:
        with pytest.raises(RpcError) as unknown:
            await met.asks("storage.\x1b[31mput")
        assert unknown.value.code == "method_not_found"
        assert "\x1b" not in unknown.value.message
        met.worker.notify("lag", {"seconds": 3})
        assert (await met.asks("whoami"))["user"] is None
        assert met.heard == [("lag", {"seconds": 3})]


async def test_a_fault_of_the_host_keeps_its_text_for_the_log(ground: Ground, people: People) -> None:
    async with ground.meet("weather") as met:
        with pytest.raises(RpcError) as failed:
            await met.asks("broken")
        assert (failed.value.code, "canary-text" in failed.value.message) == ("failed", False)
    (line,) = ground.lines("extension request failed")
    assert (line["extension"], line["method"]) == ("weather", "broken")
    assert "canary-text" in line["exception"]


async def test_requests_are_counted_by_what_became_of_them(ground: Ground, people: People) -> None:
    async with ground.meet("weather") as met:
        await met.asks("whoami")
        for method in ("secret", "nothing", "also nothing"):
            with pytest.raises(RpcError):
                await met.asks(method)
        leaving = asyncio.create_task(met.asks("wait"))
        await people.waiting.wait()
        leaving.cancel()
        await asyncio.wait_for(people.stopped.wait(), PATIENCE)

    def counted(method: str, outcome: str) -> float | None:
        labels = {"extension": "weather", "method": method, "outcome": outcome}
        return ground.registry.get_sample_value("trunkline_extension_requests_total", labels)

    assert counted("whoami", "ok") == 1
    assert counted("secret", "permission_denied") == 1
    assert counted("unknown", "method_not_found") == 2
    assert counted("wait", "cancelled") == 1


def test_the_host_has_these_methods() -> None:
    made = groups().values()
    assert sorted(name for group in made for name in group.calls) == ["network.fetch", "network.stream"]
    assert sorted(name for group in made for name in group.notices) == ["log"]


# ------------------------------------------------------------------------------------------------------------ lies


@pytest.mark.proves("D3")
async def test_a_result_of_200_kib_passes_and_one_of_9_mib_fails_its_own_call_alone(ground: Ground, people: People) -> None:
    async with ground.meet("weather") as met:

        async def large(call: Call) -> object:
            return "x" * json.loads(bytes(call.params))["params"]["size"]

        met.answers["large"] = large
        assert len(read(await met.line.call("large", {"size": 200 * 1024}, user=None, seconds=5))) == 200 * 1024
        with pytest.raises(RpcError) as refused:
            await met.line.call("large", {"size": 9 * 1024 * 1024}, user=None, seconds=5)
        assert refused.value.code == "payload_too_large"
        assert read(await met.line.call("large", {"size": 3}, user=None, seconds=5)) == "xxx"


@pytest.mark.proves("D3")
async def test_a_frame_that_is_too_large_fails_the_call_that_it_answers_and_no_other(ground: Ground, people: People) -> None:
    async with ground.liar("weather") as liar:
        calls = [asyncio.create_task(liar.line.call("tool", user=None, seconds=PATIENCE)) for _ in range(2)]
        first, second = await liar.next(), await liar.next()
        await liar.raw(frame(b'{"id":%d,"result":"%b"}' % (first["id"], b"x" * (9 << 20))))
        await liar.send({"id": second["id"], "result": "well"})
        with pytest.raises(RpcError) as refused:
            await calls[0]
        assert refused.value.code == "payload_too_large"
        assert read(await calls[1]) == "well"


@pytest.mark.proves("D3")
@pytest.mark.proves("host.lies")
async def test_two_answers_are_one_answer_and_a_line_in_the_log(ground: Ground, people: People) -> None:
    async with ground.liar("weather") as liar:
        calling = asyncio.create_task(liar.line.call("tool", user=None, seconds=5))
        call = await liar.next()
        await liar.send({"id": call["id"], "result": 1}, {"id": call["id"], "result": 2}, {"id": 99, "result": 3})
        assert read(await calling) == 1
        await answered(liar, 1)
        assert liar.line.channel.peer.violations == 2
    told = ground.lines("extension broke the protocol")
    assert [line["what"] for line in told] == ["a second answer to the call 1", "an answer to the call 99, which was never made"]
    assert {line["extension"] for line in told} == {"weather"}


@pytest.mark.proves("host.lies")
async def test_numbers_that_were_used_garbage_and_unknown_frames_harm_nobody(ground: Ground, people: People) -> None:
    async with ground.liar("weather") as liar:
        await answered(liar, 5)
        await liar.send({"id": 5, "method": "whoami"}, {"id": 3, "method": "whoami"}, {"result": 1}, [1], {"method": 7})
        await liar.raw(frame(b"\xff\xfe") + frame(b"", 9) + frame(b"\0\0\0\1\0\0\0\0x", 1) + frame(b"", 1)[:0])
        await answered(liar, 6)
        assert liar.line.channel.peer.violations == 8


@pytest.mark.proves("host.lies")
async def test_a_flood_of_lies_ends_the_connection_and_not_the_log(ground: Ground, people: People) -> None:
    async with ground.liar("weather") as liar:
        calling = asyncio.create_task(liar.line.call("tool", user=None, seconds=5))
        await liar.next()
        await liar.raw(frame(b"lie") * 200)
        with pytest.raises(RpcError) as gone:
            await calling
        assert gone.value.code == "worker_exited"
        await asyncio.wait_for(liar.line.channel.wait_closed(), PATIENCE)
    assert len(ground.lines("extension broke the protocol")) == 10


async def answered(liar: Liar, number: int) -> None:
    """What was sent before has been read: an honest call is answered."""
    await liar.send({"id": number, "method": "whoami"})
    while (said := await liar.next()).get("id") != number:
        pass
    assert said["result"]["user"] is None


@pytest.mark.proves("host.starving")
async def test_a_worker_that_asks_and_never_reads_fills_no_memory(ground: Ground, people: People) -> None:
    async with ground.liar("weather") as liar:
        unread, number, stuck = 0, 0, False
        while not stuck and number < 400_000:
            calls = b"".join(frame(b'{"id":%d,"method":"whoami"}' % (number + each)) for each in range(1, 2001))
            number += 2000
            try:
                async with asyncio.timeout(1):
                    await liar.raw(calls)
            except TimeoutError:
                stuck = True
            unread = max(unread, liar.line.channel.peer.waiting)
        assert stuck  # nothing more of it is read, so that it cannot write
        assert unread < 8 << 20
        async with ground.meet("other") as met:
            assert (await met.asks("whoami"))["extension"] == "other"
        said = b""
        while b'{"id":1,' not in said:  # it reads again, and is answered
            said = json.dumps(await liar.next(), separators=(",", ":")).encode()


@pytest.mark.proves("host.starving")
async def test_a_flood_does_not_hold_up_another_worker(ground: Ground, people: People) -> None:
    flood = frame(b'{"method":"nothing"}') * 2000

    async def pour(liar: Liar) -> None:
        while True:
            await liar.raw(flood)

    loop = asyncio.get_running_loop()
    async with ground.liar("greedy") as liar, ground.meet("other") as met:
        pouring = asyncio.create_task(pour(liar))
        while liar.line.channel.peer.frames < 40_000:
            await met.asks("whoami")
        began, frames = loop.time(), liar.line.channel.peer.frames
        while loop.time() - began < 1:
            ground.clock.advance(1)
            await met.asks("whoami")
        seconds, read_of_it = loop.time() - began, liar.line.channel.peer.frames - frames
        pouring.cancel()
        await asyncio.gather(pouring, return_exceptions=True)
        assert read_of_it < 40_000 * (seconds + 1)
