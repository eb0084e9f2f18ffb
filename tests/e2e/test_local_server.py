"""The local model: a real llama.cpp with a real, small model."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import openai
import pytest

from trunkline.app import weights
from trunkline.app.launch import Address, Launched
from trunkline.base.aio import Tasks
from trunkline.base.clock import SystemClock
from trunkline.base.secret import Secret
from trunkline.errors import LaunchFailed
from trunkline.providers._local_server import Settings, command

pytestmark = [pytest.mark.needs("xllamacpp"), pytest.mark.needs("smollm2")]

GREETING = [{"role": "user", "content": "Say hello."}]


async def get(address: Address, path: str, *, key: str = "") -> int:
    """The status of a plain GET."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(address.base_url.rpartition(":")[2]))
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n".encode())
        return int((await reader.readline()).split()[1])
    finally:
        writer.close()
        await writer.wait_closed()


async def healthy(address: Address) -> bool:
    return await get(address, "/health") == 200


def launched(tasks: Tasks, model: Path, heard: list[str]) -> Launched:
    def smollm2(api_key: Secret):  # noqa: ANN202 - a Command
        return command(
            Settings(model=str(model), api_key=api_key.reveal(), aliases=["smollm2"], context=512, parallel=1), hears=heard.append
        )

    return Launched("smollm2", command=smollm2, ready=healthy, tasks=tasks, clock=SystemClock())


@pytest.fixture
async def tasks() -> AsyncIterator[Tasks]:
    failures: list[BaseException] = []
    async with Tasks(lambda _, error: failures.append(error)) as owner:
        yield owner
    assert failures == []


@pytest.fixture
async def server(tasks: Tasks) -> AsyncIterator[Launched]:
    launch = launched(tasks, weights.find("smollm2"), [])
    yield launch
    await launch.aclose()


async def test_the_openai_sdk_has_a_chat_with_it(server: Launched) -> None:
    address = await server.ready()
    async with openai.AsyncOpenAI(base_url=f"{address.base_url}/v1", api_key=address.api_key.reveal(), max_retries=0) as client:
        reply = await client.chat.completions.create(model="smollm2", messages=GREETING, max_tokens=8)
        assert reply.choices[0].message.content
        assert reply.usage.completion_tokens <= 8

        stream = await client.chat.completions.create(
            model="smollm2", messages=GREETING, max_tokens=8, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1])
        assert chunks[-1].choices == []
        assert chunks[-1].usage.completion_tokens <= 8


async def test_only_the_key_of_this_start_opens_it(server: Launched) -> None:
    address = await server.ready()
    assert await get(address, "/v1/models") == 401
    assert await get(address, "/v1/models", key="wrong") == 401
    assert await get(address, "/v1/models", key=address.api_key.reveal()) == 200


async def test_its_key_is_not_where_other_processes_can_read_it(server: Launched) -> None:
    address = await server.ready()
    assert address.api_key.reveal() not in repr(address)
    for process in processes_started_here():
        for file in ("cmdline", "environ"):
            assert address.api_key.reveal().encode() not in (process / file).read_bytes()


async def test_a_server_that_was_killed_is_replaced_at_the_next_use(server: Launched) -> None:
    first = await server.ready()
    guard, program = processes_started_here()
    os.kill(int(program.name), signal.SIGKILL)
    await server._process.wait()
    second = await server.ready()
    assert await healthy(second)
    assert second.api_key != first.api_key
    assert not guard.exists()
    assert len(processes_started_here()) == 2


async def test_a_file_that_is_no_model_fails_with_llama_cpps_own_words(tasks: Tasks, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(64))
    with pytest.raises(LaunchFailed, match=r"`smollm2` did not start: llama.cpp cannot serve .*broken.gguf.*failed to load model"):
        await launched(tasks, broken, []).ready()


async def test_a_server_whose_standard_input_ends_is_gone() -> None:
    settings = Settings(model=str(weights.find("smollm2")), api_key="k" * 32, aliases=["smollm2"], context=512, parallel=1)
    server = command(settings)
    process = await asyncio.create_subprocess_exec(
        *server.argv, env=dict(server.env), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    process.stdin.write(server.stdin)
    async with asyncio.timeout(30):
        assert b'"port"' in await process.stdout.readline()
        process.stdin.close()
        assert await process.wait() == 0


class Heard(list[str]):
    """Lines, and the moment when there is more than the greeting: llama.cpp's log has a thread of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.complaint = asyncio.Event()

    def append(self, line: str) -> None:
        super().append(line)
        if len(self) > 1:
            self.complaint.set()


async def test_nothing_of_a_request_is_logged(tasks: Tasks) -> None:
    heard = Heard()
    server = launched(tasks, weights.find("smollm2"), heard)
    address = await server.ready()
    async with openai.AsyncOpenAI(base_url=f"{address.base_url}/v1", api_key=address.api_key.reveal(), max_retries=0) as client:
        await client.chat.completions.create(model="smollm2", messages=[{"role": "user", "content": "canary"}], max_tokens=4)
        with pytest.raises(openai.BadRequestError, match="exceeds the available context size"):
            await client.chat.completions.create(model="smollm2", messages=[{"role": "user", "content": "canary " * 2000}])
        with pytest.raises(openai.APIStatusError):
            await client.chat.completions.create(model="smollm2", messages=GREETING, extra_body={"canary": 1, "messages": "canary"})
    async with asyncio.timeout(10):
        await heard.complaint.wait()
    await server.aclose()
    assert not [line for line in heard if "canary" in line]


def processes_started_here() -> list[Path]:
    """Guard and program, in this order."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    guards = [child for child in children if b"_guard.py" in Path(f"/proc/{child}/cmdline").read_bytes()]
    return [Path(f"/proc/{pid}") for guard in guards for pid in (guard, *Path(f"/proc/{guard}/task/{guard}/children").read_text().split())]
