"""A real model on this machine answers through Trunkline, and nothing of it is left behind."""

import asyncio
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.wire.exported import exported
from trunkline.access.keys import Keys
from trunkline.app.config import read
from trunkline.app.database import open_store
from trunkline.app.lifecycle import installed
from trunkline.base.clock import SystemClock
from trunkline.base.log import LogSettings, open_log
from trunkline_sdk.daemon.client import Request
from trunkline_sdk.daemon.messages import Credential

pytestmark = [pytest.mark.needs("xllamacpp"), pytest.mark.needs("smollm2")]

GREETING: list[Any] = [{"role": "user", "content": "Say hello."}]
PROVIDER = {"kind": "local", "models": ["smollm2"], "context": 512, "parallel": 1}


def key_of(data: Path) -> str:
    engine = open_store(data)
    try:
        return Keys(engine, SystemClock()).create("tests", {"inference"})[1].reveal()
    finally:
        engine.dispose()


def descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [each for child in map(int, children) for each in (child, *descendants(child))]


@pytest.mark.needs("linux")
@pytest.mark.proves("local.model", "sdk.openai")
async def test_the_openai_sdk_talks_to_it_and_its_process_ends_with_the_server(tmp_path: Path) -> None:
    lines = io.StringIO()
    log, writer = open_log(LogSettings(format="json"), lines)
    before = set(descendants(os.getpid()))
    key = key_of(tmp_path)
    config = read({"server": {"port": 0}, "providers": {"local": PROVIDER}})
    async with installed(config, tmp_path, log) as installation:
        assert set(descendants(os.getpid())) == before, "it starts with its first use"
        async with AsyncOpenAI(base_url=f"{installation.urls[0]}/v1", api_key=key, max_retries=0) as client:
            whole = await client.chat.completions.create(model="smollm2", messages=GREETING, max_tokens=8, temperature=0)
            stream = await client.chat.completions.create(
                model="local/smollm2", messages=GREETING, max_tokens=8, temperature=0, stream=True, stream_options={"include_usage": True}
            )
            chunks = [chunk async for chunk in stream]
            quiet = await client.chat.completions.create(model="smollm2", messages=GREETING, max_tokens=8, stream=True)
            assert all(chunk.usage is None for chunk in [chunk async for chunk in quiet])
        started = set(descendants(os.getpid())) - before
        assert started
    writer.close()
    assert set(descendants(os.getpid())) == before, "nothing of it is left"

    text = whole.choices[0].message.content
    assert text
    assert whole.usage is not None
    assert 0 < whole.usage.completion_tokens <= 8
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices) == text
    assert chunks[-1].usage == whole.usage or chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    told = [line for line in map(json.loads, lines.getvalue().splitlines()) if line["event"] == "exchange"]
    assert [line["outcome"] for line in told] == ["ok"] * 3
    assert all(0 < line["tokens"]["output"] <= 8 for line in told)
    assert "Say hello" not in lines.getvalue()


@pytest.mark.proves("local.model")
async def test_the_demo_prints_an_answer_and_ends(tmp_path: Path) -> None:
    pipe = asyncio.subprocess.PIPE
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "trunkline", "demo", "--once", "--port", "0"]
    process = await asyncio.create_subprocess_exec(*command, env=environment, cwd=tmp_path, stdout=pipe, stderr=pipe)
    async with asyncio.timeout(50):
        out, complaints = await process.communicate()
    assert process.returncode == 0, complaints.decode()
    said = out.decode()
    assert "Trunkline listens at http://127.0.0.1:" in said
    answer = said.partition("what does a telephone switchboard do?")[2].strip()
    assert len(answer.split()) > 3, said
    assert list(tmp_path.iterdir()) == [], "nothing is left in the home folder"


@pytest.mark.needs("linux")
async def test_a_product_gets_it_through_our_daemon_and_nothing_of_it_is_left() -> None:
    before = set(descendants(os.getpid()))
    async with exported({"local": PROVIDER}) as daemon:
        assert [row.supported_apis for row in (await daemon.client.models("local")).models] == [("/v1/chat/completions",)]
        assert set(descendants(os.getpid())) == before, "nobody starts a model only to ask for its name"
        asked = Request("chat_completions", "smollm2", json.dumps({"messages": GREETING, "max_tokens": 8}).encode())
        credential = Credential(api_key="the server of a local model has a key of its own")
        reply = await daemon.client.invoke("local", asked, credential)
        assert json.loads(reply.body)["choices"][0]["message"]["content"]
        async with await daemon.client.stream("local", asked) as stream:
            assert [record async for record in stream][-1] == b"data: [DONE]\n\n"
    assert set(descendants(os.getpid())) == before
