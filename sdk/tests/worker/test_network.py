"""HTTP by way of the host, which answers here as it likes."""

import asyncio
from typing import Any

import pytest

from sdk.tests.worker.host import Starts, Worker, read
from trunkline_sdk.channel import Call
from trunkline_sdk.rpc.errors import RpcError

FETCHING = """
    from trunkline_sdk.rpc.errors import RpcError

    def activate(context):
        context.handle("fetch", fetch)
        context.handle("stream", stream)

    async def fetch(params, call):
        page = await call.network.fetch("http://there.test/a", method="POST", headers={"accept": "x"}, body=b"\\x00\\xff", seconds=5)
        return [page.status, page.url, page.headers, list(page.body)]

    async def stream(params, call):
        taken = 0
        try:
            async with call.network.stream("http://there.test/b") as answer:
                async for piece in answer.body:
                    taken += len(piece)
                    if taken >= params:
                        break
        except RpcError as error:
            return [taken, error.code]
        return [taken, answer.status]
"""


async def test_a_request_and_its_answer_keep_their_bytes(starts: Starts) -> None:
    async with starts(FETCHING) as worker:
        asked: list[Any] = []

        async def fetch(call: Call) -> object:
            asked.append((read(call.params), call.seconds <= 5))
            return {"status": 201, "url": "http://there.test/c", "headers": [["a", "1"], ["a", "2"]], "body": b"\xfe\x00", "new": 1}

        worker.answers["network.fetch"] = fetch
        await worker.ask("activate")
        assert await worker.call("fetch") == [201, "http://there.test/c", [["a", "1"], ["a", "2"]], [0xFE, 0]]
        [(told, in_time)] = asked
        assert (told["url"], told["method"], told["headers"], told["body"]) == ("http://there.test/a", "POST", [["accept", "x"]], "AP8=")
        assert (told["upload"], in_time) == (None, True)


async def test_a_large_body_goes_as_a_stream_and_one_that_is_refused_is_given_up(starts: Starts) -> None:
    code = """
        def activate(context):
            async def upload(params, call):
                return (await call.network.fetch("http://there.test/u", method="PUT", body=b"x" * params)).status

            context.handle("upload", upload)
    """
    async with starts(code) as worker:
        came: list[int] = []

        async def fetch(call: Call) -> object:
            asked = read(call.params)
            assert asked["body"] is None
            async with worker.channel.stream(asked["upload"]) as pieces:
                async for piece in pieces:
                    came.append(len(piece))
                    if len(came) == 100:
                        raise RpcError("payload_too_large", "no more")
            return {"status": 201, "url": asked["url"], "headers": [], "body": ""}

        worker.answers["network.fetch"] = fetch
        await worker.ask("activate")
        assert await worker.call("upload", 3_000_000) == 201
        assert sum(came) == 3_000_000
        came.clear()
        with pytest.raises(RpcError) as refused:
            await worker.call("upload", 50_000_000)
        assert refused.value.code == "payload_too_large"
        assert await worker.ask("ping") == {"lag": 0}
        assert worker.odd == []


async def test_an_upload_whose_request_cannot_be_made_is_given_up(starts: Starts) -> None:
    code = """
        from trunkline_sdk.rpc.errors import RpcError

        def activate(context):
            async def refused(params, call):
                codes = set()
                for _ in range(params):
                    try:
                        await call.network.fetch("http://there.test/" + "x" * 2_000_000, method="PUT", body=b"x" * 300_000)
                    except RpcError as error:
                        codes.add(error.code)
                return sorted(codes)

            context.handle("refused", refused)
    """
    async with starts(code) as worker:
        await worker.ask("activate")
        assert await worker.call("refused", 200) == ["payload_too_large"]
        assert worker.odd == []


async def test_answers_that_have_come_whole_while_code_kept_the_loop_are_all_there(starts: Starts) -> None:
    code = """
        import asyncio, time

        def activate(context):
            async def one(call, n):
                async with call.network.stream(f"http://there.test/{n}") as answer:
                    return b"".join([piece async for piece in answer.body]).decode()

            async def many(params, call):
                asking = [asyncio.create_task(one(call, n)) for n in range(params)]
                await asyncio.sleep(0)
                call.log.info("asked")
                time.sleep(0.5)
                return await asyncio.gather(*asking)

            context.handle("many", many)
    """
    async with starts(code) as worker:

        async def stream(call: Call) -> object:
            async with worker.channel.open_stream(answering=call.id) as outgoing:
                await outgoing.send(read(call.params)["url"].encode())
            return {"status": 200, "url": "", "headers": [], "stream": outgoing.number}

        worker.answers["network.stream"] = stream
        await worker.ask("activate")
        assert await worker.call("many", 60) == [f"http://there.test/{n}" for n in range(60)]


def streams(worker: Worker, pieces: int, error: RpcError | None = None) -> "asyncio.Future[int | RpcError]":
    """Answer `network.stream` with so many pieces of 10,000 bytes; how many could be sent, or why they could not."""
    sent: asyncio.Future[int | RpcError] = asyncio.get_running_loop().create_future()
    tasks: list[asyncio.Task[None]] = []

    async def stream(call: Call) -> object:
        outgoing = worker.channel.open_stream(answering=call.id)

        async def body() -> None:
            try:
                for _ in range(pieces):
                    await outgoing.send(b"x" * 10_000)
                outgoing.end(error)
                sent.set_result(pieces)
            except RpcError as unwanted:
                sent.set_result(unwanted)

        tasks.append(asyncio.get_running_loop().create_task(body()))
        return {"status": 200, "url": "http://there.test/b", "headers": [], "stream": outgoing.number}

    worker.answers["network.stream"] = stream
    return sent


async def test_a_body_comes_in_pieces_and_breaks_off_as_an_error(starts: Starts) -> None:
    async with starts(FETCHING) as worker:
        await worker.ask("activate")
        sent = streams(worker, 100)
        assert await worker.call("stream", 10**9) == [1_000_000, 200]
        assert await sent == 100
        streams(worker, 3, RpcError("failed", "the upstream broke off"))
        taken, code = await worker.call("stream", 10**9)
        assert (taken <= 30_000, code) == (True, "failed")


async def test_a_reader_that_has_enough_ends_the_stream(starts: Starts) -> None:
    async with starts(FETCHING) as worker:
        await worker.ask("activate")
        sent = streams(worker, 10**6)
        assert (await worker.call("stream", 25_000))[0] == 30_000
        ended = await asyncio.wait_for(sent, 10)
        assert isinstance(ended, RpcError)
        assert ended.code == "cancelled"


async def test_a_refusal_reaches_the_code_that_asked(starts: Starts) -> None:
    async with starts(FETCHING) as worker:
        await worker.ask("activate")

        async def denied(_: Call) -> object:
            raise RpcError("permission_denied", "not granted")

        worker.answers |= {"network.fetch": denied, "network.stream": denied}
        assert await worker.call("stream", 1) == [0, "permission_denied"]
        with pytest.raises(RpcError) as refused:
            await worker.call("fetch")
        assert refused.value.code == "permission_denied"
