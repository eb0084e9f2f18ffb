"""`trunkline demo`."""

import asyncio
import os
import signal
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from trunkline.access.keys import Keys
from trunkline.app.config import Config, read
from trunkline.app.database import open_store
from trunkline.app.lifecycle import installed
from trunkline.app.weights import fetch
from trunkline.base.clock import SystemClock
from trunkline.base.log import LogSettings, open_log
from trunkline.errors import ListenFailed

QUESTION = "In one sentence: what does a telephone switchboard do?"
PORT = 8484

SNIPPETS = """
It listens at {url} until Ctrl-C. In another terminal:

  curl {url}/v1/chat/completions \\
    -H "Authorization: Bearer {key}" -H "Content-Type: application/json" \\
    -d '{{"model": "smollm2", "messages": [{{"role": "user", "content": "Hello!"}}]}}'

  # pip install openai
  from openai import OpenAI
  client = OpenAI(base_url="{url}/v1", api_key="{key}")
  print(client.chat.completions.create(model="smollm2", messages=[{{"role": "user", "content": "Hello!"}}]).choices[0].message.content)

  # pip install anthropic
  from anthropic import Anthropic
  client = Anthropic(base_url="{url}", api_key="{key}")
  print(client.messages.create(model="echo", max_tokens=100, messages=[{{"role": "user", "content": "Hello!"}}]).content[0].text)
"""


def command(
    *,
    once: Annotated[bool, Parameter(negative=(), help="End after the answer.")] = False,
    port: int = PORT,
) -> None:
    """Let a real model on this machine answer through Trunkline, then serve until Ctrl-C.

    Args:
        port: the port to listen on; another free one where it is taken.
    """
    with tempfile.TemporaryDirectory(prefix="trunkline-demo-") as folder:
        asyncio.run(_demo(Path(folder), port, once=once or os.environ.get("ONCE", "") not in {"", "0"}))


async def _demo(folder: Path, port: int, *, once: bool) -> None:
    print("▸ the model: SmolLM2 135M, on this machine's processor", flush=True)
    await fetch("smollm2", lambda line: print(f"  {line}", flush=True))
    key = _key(folder)
    log, writer = open_log(LogSettings(level="warning", format="console"), sys.stderr)
    try:
        async with AsyncExitStack() as stack:
            try:
                installation = await stack.enter_async_context(installed(_config(port), folder, log))
            except ListenFailed:
                print(f"  port {port} is taken, so another one", flush=True)
                installation = await stack.enter_async_context(installed(_config(0), folder, log))
            url = installation.urls[0]
            print(f"▸ Trunkline listens at {url}", flush=True)
            await _ask(url, key)
            if not once:
                print(SNIPPETS.format(url=url, key=key), flush=True)
                await _until_interrupted()
    finally:
        writer.close()


def _key(folder: Path) -> str:
    engine = open_store(folder)
    try:
        return Keys(engine, SystemClock()).create("demo", {"inference", "admin"})[1].reveal()
    finally:
        engine.dispose()


def _config(port: int) -> Config:
    return read(
        {
            "server": {"port": port, "drain_seconds": 1},
            "providers": {"local": {"kind": "local", "models": ["smollm2"]}, "echo": {"kind": "echo", "models": ["echo"]}},
        }
    )


async def _ask(url: str, key: str) -> None:
    """One streamed answer, by the SDK that everybody has."""
    from openai import AsyncOpenAI

    print("▸ the official OpenAI SDK asks; the model loads on its first call", flush=True)
    print(f"\n  {QUESTION}\n\n  ", end="", flush=True)
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key=key) as client:
        stream = await client.chat.completions.create(
            model="smollm2", messages=[{"role": "user", "content": QUESTION}], stream=True, max_tokens=120, temperature=0.2
        )
        async for chunk in stream:
            if chunk.choices and (text := chunk.choices[0].delta.content):
                print(text, end="", flush=True)
    print("\n", flush=True)


async def _until_interrupted() -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()
    print("\nstopped", flush=True)
