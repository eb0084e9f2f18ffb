"""What the README says to write and to run is written and run, as it stands there, but for the addresses."""

import asyncio
import json
import os
import re
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from tests.fakes.upstream import Upstream

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8484"
OPENAI_KEY, ANTHROPIC_KEY = "sk-canary-openai-0001", "sk-ant-canary-0002"


def block(language: str, holding: str) -> str:
    """The one code block in a language that holds a text."""
    [found] = [code for code in re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL) if holding in code]
    return found


CONFIGURATION = block("toml", "[providers.openai]")
SHELL = block("sh", "keys create").strip().splitlines()


@pytest.fixture
def environment(upstreams: dict[str, Upstream], tmp_path: Path) -> dict[str, str]:
    """The README's configuration in a folder of its own, and what stands for the world around it."""
    (tmp_path / "trunkline.toml").write_text(CONFIGURATION, encoding="utf-8")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "trunkline").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m trunkline "$@"\n')
    (programs / "trunkline").chmod(0o755)
    return {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "HOME": str(tmp_path),
        "OPENAI_API_KEY": OPENAI_KEY,
        "ANTHROPIC_API_KEY": ANTHROPIC_KEY,
        "TRUNKLINE_SERVER__PORT": "0",
        "TRUNKLINE_PROVIDERS__OPENAI__BASE_URL": f"{upstreams['openai'].base_url}/v1",
        "TRUNKLINE_PROVIDERS__ANTHROPIC__BASE_URL": upstreams["anthropic"].base_url,
        "TRUNKLINE_PROVIDERS__HOME__BASE_URL": f"{upstreams['home'].base_url}/v1",
    }


async def run(command: list[str], environment: dict[str, str], folder: Path) -> str:
    """What a program that ends well prints; it prints no complaint."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, env=environment, stdout=pipe, stderr=pipe)
    out, complaint = await process.communicate()
    assert process.returncode == 0, complaint.decode()
    return out.decode()


@asynccontextmanager
async def serving(line: str, environment: dict[str, str], folder: Path) -> AsyncIterator[str]:
    """The address of a server that was started by a line of shell, and that stops well."""
    command = shlex.split(line, comments=True)
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, env=environment, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    lines: list[str] = []
    try:
        while not lines or json.loads(lines[-1])["event"] != "listening":
            lines.append((await process.stderr.readline()).decode())
        yield json.loads(lines[-1])["urls"][0]
    finally:
        process.send_signal(signal.SIGTERM)
        lines += (await process.stderr.read()).decode().splitlines()
        assert await process.wait() == 0
    assert not [line for line in lines if "canary" in line or environment["TRUNKLINE_KEY"] in line]
    assert {json.loads(line)["level"] for line in lines} == {"info"}


@pytest.mark.proves("readme")
async def test_the_configuration_and_the_commands_and_both_snippets_run(
    upstreams: dict[str, Upstream], environment: dict[str, str], tmp_path: Path
) -> None:
    *setup, serve = SHELL
    assert len(CONFIGURATION.strip().splitlines()) - 1 <= 12, "about ten lines, and the name of the file"

    checked, key = (await run(["sh", "-ec", "\n".join([*setup, 'echo "$TRUNKLINE_KEY"'])], environment, tmp_path)).rsplit("\n", 2)[:2]
    assert "trunkline.toml: fine" in checked
    assert "providers: openai, anthropic, home" in checked
    assert re.search(r"^models: fast, openai/gpt-6\.1-sol, anthropic/\S+$", checked, re.MULTILINE)
    assert "note" not in checked, "every credential is there"
    assert re.fullmatch("swb_[A-Za-z0-9]{32}", key)
    environment["TRUNKLINE_KEY"] = key

    async with serving(serve, environment, tmp_path) as url:
        for number, (language_model, snippet) in enumerate((("openai", "client.chat"), ("anthropic", "client.messages"))):
            code = block("python", snippet)
            assert ADDRESS in code
            script = tmp_path / f"snippet{number}.py"
            script.write_text(code.replace(ADDRESS, url), encoding="utf-8")
            upstreams[language_model].says("kåş 🛰 and hello")
            said = await run([sys.executable, "-W", "error", str(script)], environment, tmp_path)
            assert said.strip() == "kåş 🛰 and hello"
        upstreams["openai"].answers(529)
        upstreams["home"].says("from home")
        said = await run([sys.executable, "-W", "error", str(tmp_path / "snippet0.py")], environment, tmp_path)
        assert said == "from home", "the route falls back"

    assert upstreams["openai"].calls[0].header("authorization") == f"Bearer {OPENAI_KEY}"
    assert upstreams["anthropic"].calls[0].header("x-api-key") == ANTHROPIC_KEY
    assert upstreams["home"].calls[0].json()["model"] == "qwen3"
    assert upstreams["openai"].violations == upstreams["anthropic"].violations == []


def client_of(name: str) -> str:
    """What the table of clients says to set for one."""
    [setting] = re.findall(rf"^\| {name} \| (.*) \|$", README, re.MULTILINE)
    return setting


def variables(name: str, environment: dict[str, str]) -> dict[str, str]:
    """The variables that a client is started with."""
    line = re.findall("`(.*)`", client_of(name))[0].replace("$TRUNKLINE_KEY", environment["TRUNKLINE_KEY"])
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


@pytest.mark.proves("readme")
async def test_the_clients_find_their_models_where_the_table_says(
    upstreams: dict[str, Upstream], environment: dict[str, str], tmp_path: Path
) -> None:
    environment["TRUNKLINE_KEY"] = (await run(["trunkline", "keys", "create", "me"], environment, tmp_path)).strip()
    hello: Any = [{"role": "user", "content": "Hello!"}]
    async with serving("trunkline serve", environment, tmp_path) as url:
        claude_code = variables("Claude Code", environment)
        assert claude_code["ANTHROPIC_BASE_URL"] == ADDRESS
        upstreams["anthropic"].says("hello")
        async with AsyncAnthropic(base_url=url, auth_token=claude_code["ANTHROPIC_AUTH_TOKEN"], api_key=None, max_retries=0) as client:
            asked = {"model": claude_code["ANTHROPIC_MODEL"], "max_tokens": 9, "messages": hello}
            assert (await client.beta.messages.create(**asked, betas=["claude-code-20250219"])).content

        [configured] = json.loads(re.findall("`({.*})`", client_of("OpenCode"))[0])["provider"].values()
        assert configured["options"] == {"baseURL": f"{ADDRESS}/v1", "apiKey": "{env:TRUNKLINE_KEY}"}
        open_web_ui = variables("Open WebUI", environment)
        assert open_web_ui["OPENAI_API_BASE_URL"] == f"{ADDRESS}/v1"
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key=open_web_ui["OPENAI_API_KEY"], max_retries=0) as client:
            listed = [model.id async for model in client.models.list()]
            for model in configured["models"]:
                assert model in listed
                upstreams["openai"].says("hello")
                assert (await client.chat.completions.create(model=model, messages=hello)).choices
