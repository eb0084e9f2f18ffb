"""Speech from a provider behind an extension daemon: as from any other, piece by piece."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from tests.fakes.upstream import Upstream
from tests.wire.gateway import PROMPT, Gateway
from tests.wire.test_speech import ASKED, DELTA, DONE, MP3, SOUND, SPEECH, hear
from trunkline_sdk import http1
from trunkline_sdk.daemon.messages import Credential, ModelInfo, ProviderInfo
from trunkline_sdk.daemon.server import Backend, Call, Daemon, Failure, Reply, serving
from trunkline_sdk.listen import Listener

SECRET = "canary-secret-of-a-daemon-0001"


class Voices(Backend):
    """Says what the test says."""

    info = ProviderInfo(id="voices", name="Voices", surfaces=("audio_speech",), credential="none")

    def __init__(self) -> None:
        self.says: Callable[[], AsyncIterator[bytes]]
        self.content_type = "audio/ogg"
        self.refuses: Failure | None = None
        self.calls: list[Call] = []

    async def models(self, credential: Credential | None) -> Sequence[ModelInfo]:
        return [serving(ModelInfo(id="alto"), "audio_speech")]

    async def invoke(self, call: Call) -> Reply:
        self.calls.append(call)
        if self.refuses is not None:
            raise self.refuses
        return Reply(self.says(), self.content_type)


def saying(*steps: bytes | Exception | Callable[[], Awaitable[object]]) -> Callable[[], AsyncIterator[bytes]]:
    async def body() -> AsyncIterator[bytes]:
        for step in steps:
            match step:
                case bytes():
                    yield step
                case Exception():
                    raise step
                case _:
                    await step()

    return body


@pytest.fixture
async def voices() -> AsyncIterator[tuple[Voices, str]]:
    """The provider, and where its daemon is."""
    backend = Voices()
    async with Listener(Daemon(backend, secret=SECRET)) as listener:
        yield backend, listener.urls[0]


@pytest.fixture
def config(config: dict[str, Any], voices: tuple[Voices, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("CANARY_DAEMON", SECRET)
    config["providers"]["lab"] = {"kind": "daemon", "base_url": voices[1], "secret": "env:CANARY_DAEMON"}
    config["routes"]["say"] = {"targets": [{"model": "lab/voices/alto"}, {"model": "home/kokoro", "order": 1}]}
    return config


@pytest.fixture
def stored() -> dict[str, str]:
    return {"the daemon's": SECRET}


@pytest.mark.proves("speech")
@pytest.mark.parametrize("name", ["lab/voices/alto", "voices/alto", "alto"])
async def test_openais_sdk_hears_it_before_it_is_all_made(gateway: Gateway, voices: tuple[Voices, str], name: str) -> None:
    voice, rest = voices[0], asyncio.Event()
    voice.says = saying(SOUND, rest.wait, b"the rest")
    heard = bytearray()
    async with gateway.openai().audio.speech.with_streaming_response.create(model=name, voice="v", input=PROMPT) as response:
        assert response.headers["content-type"] == "audio/ogg"
        async for piece in response.iter_bytes():
            heard += piece
            if len(heard) == len(SOUND):
                rest.set()
    assert heard == SOUND + b"the rest"
    [call] = voice.calls
    assert (call.surface, call.model, call.credential, call.timeout) == ("audio_speech", "alto", None, 300.0)
    assert json.loads(call.body) == {"model": "alto", "voice": "v", "input": PROMPT}
    assert (await gateway.told())["outcome"] == "ok"


@pytest.mark.proves("speech.never-whole")
async def test_what_breaks_off_there_breaks_off_here(gateway: Gateway, voices: tuple[Voices, str]) -> None:
    voices[0].says = saying(SOUND, Failure(502, "gone"))
    response = await gateway.open("POST", SPEECH, json.dumps(ASKED | {"model": "say"}).encode())
    heard = bytearray()
    with pytest.raises(http1.HttpError):
        await hear(response, heard)
    assert SOUND.startswith(heard)
    assert (await gateway.told())["outcome"] == "upstream_down"


@pytest.mark.proves("speech", "failover")
async def test_before_its_first_byte_the_next_target_takes_over(
    gateway: Gateway, upstreams: dict[str, Upstream], voices: tuple[Voices, str]
) -> None:
    voices[0].refuses = Failure(503, "hoarse", retry_after=3)
    upstreams["home"].answers(200, SOUND, headers=MP3)
    got = await gateway.post(SPEECH, ASKED | {"model": "say"})
    assert (got.status, got.body) == (200, SOUND)
    assert got.headers["x-trunkline-attempts"] == "lab/voices/alto upstream_busy, home/kokoro ok"


@pytest.mark.proves("speech")
async def test_events_pass_and_their_usage_is_known(gateway: Gateway, voices: tuple[Voices, str]) -> None:
    voices[0].says, voices[0].content_type = saying(DELTA, DONE), "text/event-stream"
    got = await gateway.post(SPEECH, ASKED | {"model": "alto", "stream_format": "sse"})
    assert (got.status, got.body) == (200, DELTA + DONE)
    assert (await gateway.told())["tokens"] == {"input": 14, "output": 101}
