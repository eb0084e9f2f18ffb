"""Go products use our providers: the interop program and the guide's example, on the stand-in, and where it can be had on the original."""

import asyncio
import json
import os
import shutil
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sdk.tests.daemon.wire.go import build
from tests.fakes.upstream import NEVER, Call, Upstream, Wire
from tests.wire.exported import SECRET, exported

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "go_product" / "main.go"

pytestmark = [pytest.mark.timeout(600), pytest.mark.proves("export.go")]  # a Go toolchain compiles its standard library once
on_both = pytest.mark.parametrize(
    "standin",
    [
        pytest.param(True, marks=pytest.mark.needs("go"), id="stand-in"),
        pytest.param(False, marks=pytest.mark.needs("llmgw_core"), id="original"),
    ],
)


class Vendor:
    """A vendor whose models do what their names say (daemon contract, J)."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def __call__(self, call: Call, wire: Wire) -> None:
        if call.path.endswith("/models"):
            await self._whole(wire, 200, {"data": [{"id": "echo"}, {"id": "text-embedding"}]})
            return
        if call.path.endswith("/audio/speech"):
            await wire.head(200, [("content-type", "audio/mpeg"), ("content-length", "5")])
            await wire.send(b"\xff\xfb\x00\n\r")
            return
        asked = call.json()
        match asked["model"]:
            case "show-headers":
                await self._whole(wire, 200, {name.decode().lower(): value.decode() for name, value in call.headers})
            case "break-stream" | "slow-stream" as model:
                await wire.head(200, [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")])
                await wire.chunk(b'data: {"n":1}\n\n')
                await (NEVER.wait() if model == "slow-stream" else asyncio.sleep(0))
                wire.close()
            case model if model.startswith("status-"):
                await self._whole(wire, int(model.removeprefix("status-")), {"error": {"message": "asked for"}}, ("retry-after", "7"))
            case _:
                self._upstream.says("hello from Python", stream=asked.get("stream", False))
                await self._upstream._turns.pop().script(call, wire)

    async def _whole(self, wire: Wire, status: int, body: Any, *headers: tuple[str, str]) -> None:
        content = json.dumps(body).encode()
        await wire.head(status, [*headers, ("content-type", "application/json"), ("content-length", str(len(content)))])
        await wire.send(content)


@pytest.fixture
async def url(upstream: Upstream, quiet_root: None) -> AsyncIterator[str]:
    upstream.does(Vendor(upstream), times=None)
    base = f"{upstream.base_url}/v1"
    providers = {
        "conf_chat": {"kind": "openai", "base_url": base, "speaks": ["openai_chat", "openai_responses"]},
        "conf_speech": {"kind": "compatible", "base_url": base, "speaks": ["openai_speech"]},
    }
    async with exported(providers) as daemon:
        yield daemon.url


async def ran(program: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        program, *arguments, stdout=PIPE, env=os.environ | {"DAEMON_SECRET": SECRET, **variables}
    )
    said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()


@on_both
async def test_the_interop_program_finds_nothing_wrong(url: str, upstream: Upstream, tmp_path: Path, standin: bool) -> None:
    program = await asyncio.to_thread(build, tmp_path / "interop", ".", standin=standin)
    status, said = await ran(program, "check", DAEMON_URL=url, PROVIDER="conf_chat", SPEECH_PROVIDER="conf_speech")
    checks = {each["check"]: each for each in map(json.loads, said.splitlines())}
    assert status == 0, said
    assert {name for name, each in checks.items() if not each["ok"]} == set()
    statuses = {name: each["detail"]["status"] for name, each in checks.items() if name.startswith("status_")}
    assert statuses == {name: 503 if name == "status_301" else int(name.removeprefix("status_")) for name in statuses}
    assert len(statuses) == 14
    assert checks["status_429"]["detail"]["retry_after_s"] == 7
    assert [row["id"] for row in checks["models"]["detail"]["rows"]] == ["echo"]
    assert (checks["speech"]["detail"]["bytes"], checks["speech"]["detail"]["content_type"]) == (5, "audio/mpeg")
    assert checks["stream"]["detail"]["frames"][-1] == "data: [DONE]\n\n"
    shown = json.loads(checks["invoke_with_timeout"]["detail"]["body"])
    assert shown["authorization"] == "Bearer access-1", "the program's credential, as the vendor takes it"
    assert not [name for name in shown if name.startswith("x-")]
    await upstream.disconnected(timeout=5)


@on_both
async def test_the_example_of_the_guide_runs(url: str, tmp_path: Path, standin: bool) -> None:
    shutil.copytree(EXAMPLE.parent, tmp_path / "interop" / "product")
    program = await asyncio.to_thread(build, tmp_path / "interop", "./product", standin=standin)
    status, said = await ran(program, DAEMON_URL=url, PROVIDER="conf_chat", MODEL="echo", PROVIDER_KEY="key-of-the-product")
    assert status == 0
    lines = said.splitlines()
    assert lines[0] == "conf_chat/echo [/v1/chat/completions /v1/responses]"
    whole = json.loads(next(line for line in lines if line.startswith("whole: ")).removeprefix("whole: "))
    assert whole["choices"][0]["message"]["content"] == "hello from Python"
    assert [line for line in lines if line.startswith("record: ")][-1] == "record: data: [DONE]"


def test_the_guide_shows_the_example() -> None:
    guide = (ROOT / "docs" / "guides" / "use-from-go.md").read_text()
    assert f"```go\n{EXAMPLE.read_text()}```" in guide
