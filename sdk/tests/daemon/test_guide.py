"""The guide "Write a daemon" is true: its programs run."""

import asyncio
import json
import re
import signal
from typing import Any

import pytest

from sdk.tests.daemon.conftest import PREFIX, ROOT, Site, fixtures_program, operation, pieces_of, program
from sdk.tests.daemon.fixtures_daemon import FRAMES
from trunkline_sdk.daemon import check
from trunkline_sdk.daemon.server import Backend, Daemon, Reply, Stream
from trunkline_sdk.http1 import Client

ECHO = ROOT / "examples" / "daemon_echo.py"
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "guides" / "daemon.md").read_text(), re.DOTALL)


def defined(block: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(block, "the guide", "exec"), names)
    return names


async def ask(client: Client, url: str, route: str, body: Any = None, secret: str = "change-me") -> tuple[int, bytes]:
    fields = operation("parrot", authorization=f"Bearer {secret}")
    pairs = [(name.encode(), value.encode()) for name, value in fields.items()]
    data = b"" if body is None else json.dumps(body).encode()
    async with asyncio.timeout(10), await client.request("GET" if body is None else "POST", url + PREFIX + route, pairs, data) as response:
        return response.status, await response.read()


def test_the_first_program_is_the_example() -> None:
    assert BLOCKS[0] == ECHO.read_text()


async def test_the_echo_speaks_and_ends_when_told() -> None:
    body = {"messages": [{"role": "user", "content": "hello daemon"}]}
    async with program(ECHO, DAEMON_SECRET="change-me") as (process, url), Client() as client:
        assert (await ask(client, url, "info"))[0] == 200
        assert (await ask(client, url, "info", secret="guess"))[0] == 401
        assert json.loads((await ask(client, url, "echo/models"))[1])["models"][0]["supported_apis"] == ["/v1/chat/completions"]
        status, answer = await ask(client, url, "echo/invoke", body)
        assert (status, json.loads(answer)["choices"][0]["message"]["content"]) == (200, "hello daemon")
        status, stream = await ask(client, url, "echo/stream", body)
        assert stream.count(b"\n\n") == 3
        assert stream.endswith(b"data: [DONE]\n\n")
        findings = await check.run(check.Daemon(base=url, secret="change-me"))
        assert [finding for finding in findings if finding.outcome not in {"ok", "skipped"}] == []
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(10):
            assert await process.wait() == 0
        assert process.stdout is not None
        log = (await process.stdout.read()).decode()
    assert "route=stream provider=echo status=200 outcome=ok" in log
    assert "hello" not in log
    assert "change-me" not in log


async def test_the_upstream_is_asked_as_the_guide_says(site: Site) -> None:
    seen: list[Any] = []

    class Vendor(Backend):
        info = defined(BLOCKS[1])["ProviderInfo"](id="v", surfaces=("chat_completions",))

        async def invoke(self, call: Any) -> Reply:
            seen.append(json.loads(call.body))
            return Reply(pieces_of(b'{"whole":', b"1}"))

        async def stream(self, call: Any) -> Stream:
            return Stream(pieces_of(*FRAMES))

    vendor = await site.serve(Daemon(Vendor()))

    async def spoken(scope: Any, receive: Any, send: Any) -> None:
        """The vendor's own API is the daemon's, with the surface put in."""
        headers = [*scope["headers"], (b"x-surface", b"chat_completions")]
        await vendor.daemon({**scope, "headers": headers}, receive, send)

    upstream = await site.serve(spoken_daemon(spoken))
    for route, whole in {"invoke": b'{"whole":1}', "stream": b"".join(FRAMES)}.items():
        backend = defined(BLOCKS[1])["Upstream"](upstream.url + PREFIX + f"v/{route}")
        asking = await site.serve(Daemon(backend))
        headers = operation("the-model", x_credential_token="t")
        answer = await asking.ask(f"upstream/{route}", {"model": "daemon/the-model", "_private": 1}, headers=headers)
        assert (answer.status, answer.body) == (200, whole)
        assert (await asking.ask(f"upstream/{route}", {}, headers=operation("m"))).status == 401
        await backend._client.aclose()
    assert seen == [{"model": "the-model"}]


def spoken_daemon(app: Any) -> Any:
    class Spoken:
        async def __call__(self, *arguments: Any) -> None:
            await app(*arguments)

        async def aclose(self) -> None:
            pass

    return Spoken()


def test_a_voice_is_no_chat_model() -> None:
    assert defined(BLOCKS[2])["voice"].supported_apis == ("/v1/audio/speech",)


async def test_the_sign_in_works_as_the_guide_says(site: Site) -> None:
    answers: list[dict[str, str]] = [
        {"access_token": "a-1", "refresh_token": "r-1", "expires_in": "3600"},
        {"access_token": "a-2", "refresh_token": "r-2", "expires_in": "3600"},
        {"error": "invalid_grant"},
    ]
    forms: list[dict[str, str]] = []

    async def post_form(form: dict[str, str]) -> dict[str, str]:
        forms.append(form)
        return answers.pop(0)

    backend = defined(BLOCKS[3])["SignedIn"]()
    backend.post_form = post_form
    asking = await site.serve(Daemon(backend))
    begun = (await asking.ask("signed-in/oauth/start", {"method": "manual"})).json["authorization"]
    flow = {"Secrets": begun["Secrets"]}
    record = (await asking.ask("signed-in/oauth/exchange", {"code": "c", "flow": flow})).json["record"]
    renewed = (await asking.ask("signed-in/refresh", {"record": record})).json["record"]
    assert [record["AccessToken"], renewed["AccessToken"]] == ["a-1", "a-2"]
    assert forms[0]["code_verifier"] == begun["Secrets"]["Verifier"]
    over = await asking.ask("signed-in/refresh", {"record": renewed})
    assert (over.status, over.json) == (400, {"terminal": True, "error": "invalid_grant"})


async def test_the_fixtures_daemon_runs_as_a_program() -> None:
    async with fixtures_program(DAEMON_SECRET="change-me") as (_, url), Client() as client:
        assert (await ask(client, url, "conf_chat/models"))[0] == 200


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_program_of_the_guide_can_be_read(number: int) -> None:
    compile(BLOCKS[number], "the guide", "exec")
