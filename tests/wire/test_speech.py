"""Speech: sound passes as it arrives, in its own type, and what breaks off is never taken for whole."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from openai import APIConnectionError, BadRequestError, RateLimitError

from tests.fakes.upstream import NEVER, Upstream
from tests.wire.gateway import PROMPT, Gateway
from tests.wire.grammar import openai_speech
from tests.wire.test_failover import SHORT
from trunkline_sdk import http1

SPEECH = "/v1/audio/speech"
SOUND = bytes(range(256)) * 40  # no text in any encoding
MP3 = [("content-type", "audio/mpeg")]
ASKED: dict[str, Any] = {"model": "openai/tts", "input": PROMPT, "voice": "alloy"}
DELTA = b'data: {"type":"speech.audio.delta","audio":"AAAA"}\n\n'
DONE = b'data: {"type":"speech.audio.done","usage":{"input_tokens":14,"output_tokens":101,"total_tokens":115}}\n\n'


@pytest.fixture
def config(config: dict[str, Any]) -> dict[str, Any]:
    config["routes"]["voices"] = {"targets": [{"model": "openai/tts"}, {"model": "home/kokoro", "order": 1}]}
    return config


async def begun(gateway: Gateway, **over: Any) -> http1.Response:
    return await gateway.open("POST", SPEECH, json.dumps(ASKED | over).encode())


async def hear(response: http1.Response, heard: bytearray) -> None:
    """Listen until it ends."""
    async for piece in response.body:
        heard += piece


# ----------------------------------------------------------------------------------------------------- OpenAI's SDK
@pytest.mark.proves("speech", "sdk.openai")
@pytest.mark.parametrize(("model", "fake"), [("openai/tts", "openai"), ("home/kokoro", "home")])
async def test_openais_sdk_gets_the_sound_as_the_provider_made_it(
    gateway: Gateway, upstreams: dict[str, Upstream], model: str, fake: str
) -> None:
    upstreams[fake].answers(200, SOUND, headers=[("content-type", "audio/opus")])
    got = await gateway.openai().audio.speech.create(model=model, voice="alloy", input=PROMPT, response_format="opus")
    assert (got.content, got.response.headers["content-type"]) == (SOUND, "audio/opus")
    [call] = upstreams[fake].calls
    assert (call.path, call.header("accept"), call.header("content-type")) == (SPEECH, "*/*", "application/json")
    assert call.json() == {"model": model.partition("/")[2], "voice": "alloy", "input": PROMPT, "response_format": "opus"}
    line = await gateway.told()
    assert (line["outcome"], line["path"], line["model"], line["sent"], line["stream"]) == ("ok", SPEECH, model, len(SOUND), False)
    assert "tokens" not in line


@pytest.mark.proves("speech", "sdk.openai")
async def test_openais_sdk_hears_the_first_sound_before_the_last_is_made(
    gateway: Gateway, upstreams: dict[str, Upstream], tmp_path: Path
) -> None:
    rest = asyncio.Event()
    upstreams["openai"].streams([SOUND, rest, b"the rest"], headers=MP3)
    heard: list[bytes] = []
    async with gateway.openai().audio.speech.with_streaming_response.create(model="openai/tts", voice="alloy", input=PROMPT) as response:
        assert response.headers["content-type"] == "audio/mpeg"
        async for piece in response.iter_bytes():
            heard.append(piece)
            if sum(map(len, heard)) == len(SOUND):
                rest.set()  # it is not made before all that was made has been heard
    assert b"".join(heard) == SOUND + b"the rest"
    upstreams["openai"].answers(200, SOUND, headers=MP3)
    async with gateway.openai().audio.speech.with_streaming_response.create(model="openai/tts", voice="alloy", input=PROMPT) as response:
        await response.stream_to_file(tmp_path / "speech.mp3")
    assert (tmp_path / "speech.mp3").read_bytes() == SOUND


@pytest.mark.proves("speech", "sdk.openai", "speech.never-whole")
async def test_openais_sdk_raises_its_own_errors(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    create = gateway.openai().audio.speech.create
    upstreams["openai"].answers(429, {"error": {"message": "slow down"}}, retry_after=7)
    with pytest.raises(RateLimitError) as busy:
        await create(model="openai/tts", voice="alloy", input=PROMPT)
    assert busy.value.response.headers["retry-after"] == "7"
    with pytest.raises(BadRequestError, match="does not answer `speech` in the format `openai_speech`"):
        await create(model="anthropic/claude-sonnet", voice="alloy", input=PROMPT)
    upstreams["home"].streams([SOUND], headers=MP3, cut="close")
    with pytest.raises(APIConnectionError):
        await create(model="home/kokoro", voice="alloy", input=PROMPT)


# ------------------------------------------------------------------------------------------------------ as it comes
@pytest.mark.proves("speech", "bytes.request", "headers")
async def test_nothing_of_a_call_changes_but_the_models_name(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["openai"].answers(
        200, SOUND, headers=[*MP3, ("set-cookie", "a=b"), ("openai-processing-ms", "12"), ("x-request-id", "req_1")]
    )
    got = await gateway.post(SPEECH, b'{ "input":"x","model" : "openai/tts", "voice":{"id":"voice_1"},"speed":1.10, "stream":true}')
    assert upstreams["openai"].calls[0].body == b'{ "input":"x","model" : "tts", "voice":{"id":"voice_1"},"speed":1.10, "stream":true}'
    assert (got.status, got.body, got.headers["content-type"]) == (200, SOUND, "audio/mpeg")
    assert (got.headers["openai-processing-ms"], got.headers["x-upstream-request-id"]) == ("12", "req_1")
    assert got.headers["x-trunkline-attempts"] == "openai/tts ok"


@pytest.mark.proves("speech", "G18")
async def test_a_listener_that_leaves_ends_the_call_of_the_provider(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["openai"].streams([SOUND, NEVER], headers=MP3)
    response = await begun(gateway)
    assert await response.body.__anext__()
    await response.body.aclose()
    await upstreams["openai"].disconnected()
    line = await gateway.told()
    assert (line["outcome"], [attempt.split(" ")[1] for attempt in line["attempts"]]) == ("interrupted", ["interrupted"])


# ------------------------------------------------------------------------------------------------ what breaks, and when
BEFORE: dict[str, Any] = {
    "an error": lambda up: up.answers(500, {"error": {"message": "it broke"}}),
    "no connection": lambda up: up.drops(),
    "no sound": lambda up: up.answers(200, b"", headers=MP3),
    "a head alone": lambda up: up.streams([], headers=MP3, cut="close"),
    "an error that says that it is well": lambda up: up.answers(200, {"error": {"code": "server_error", "message": "it broke"}}),
}


@pytest.mark.proves("speech", "failover")
@pytest.mark.parametrize("fails", BEFORE.values(), ids=BEFORE)
async def test_before_its_first_byte_the_next_target_takes_over(gateway: Gateway, upstreams: dict[str, Upstream], fails: Any) -> None:
    fails(upstreams["openai"])
    upstreams["home"].answers(200, SOUND, headers=MP3)
    got = await gateway.post(SPEECH, ASKED | {"model": "voices"})
    assert (got.status, got.body) == (200, SOUND)
    assert got.headers["x-trunkline-attempts"].endswith(", home/kokoro ok")
    assert upstreams["home"].calls[0].json()["model"] == "kokoro"


AFTER: dict[str, tuple[list[Any], Any, str]] = {
    "closed": ([], "close", "upstream_down"),
    "reset": ([], "reset", "upstream_down"),
    "silent": ([NEVER], None, "upstream_timeout"),
}


@pytest.mark.proves("speech.never-whole", "failover")
@pytest.mark.parametrize(
    ("rest", "cut", "code"),
    [
        pytest.param(*ending, id=name, marks=[pytest.mark.config(providers=SHORT)] if name == "silent" else [])
        for name, ending in AFTER.items()
    ],
)
async def test_after_it_the_connection_breaks_and_nobody_takes_over(
    gateway: Gateway, upstreams: dict[str, Upstream], rest: list[Any], cut: Any, code: str
) -> None:
    upstreams["openai"].streams([SOUND, *rest], headers=MP3, cut=cut)
    response = await begun(gateway, model="voices")
    heard = bytearray()
    with pytest.raises(http1.HttpError):
        await hear(response, heard)
    assert (response.status, heard) == (200, SOUND)
    line = await gateway.told()
    assert (line["outcome"], line["status"], line["sent"]) == (code, 200, len(SOUND))
    assert upstreams["home"].calls == []
    assert gateway.recording.answers[-1].broken


@pytest.mark.proves("speech.never-whole", "revocation")
async def test_a_key_that_is_revoked_ends_the_sound_with_the_connection(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["openai"].streams([SOUND, NEVER], headers=MP3)
    row, key = gateway.makes()
    response = await gateway.open("POST", SPEECH, json.dumps(ASKED).encode(), [("authorization", f"Bearer {key}")])
    await asyncio.to_thread(gateway.made_keys.revoke, row.id)
    with pytest.raises(http1.HttpError):
        await hear(response, bytearray())
    await upstreams["openai"].disconnected()
    assert (await gateway.told())["outcome"] not in {"ok", "interrupted"}


# -------------------------------------------------------------------------------------------------------- in events
@pytest.mark.proves("speech", "bytes.stream")
async def test_sound_in_events_passes_to_the_byte_and_its_usage_is_known(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    stream = DELTA + b": ping\n\n" + DELTA + DONE
    upstreams["openai"].streams([stream[:20], stream[20:]])
    got = await gateway.post(SPEECH, ASKED | {"stream_format": "sse"})
    assert (got.body, got.headers["content-type"]) == (stream, "text/event-stream")
    assert upstreams["openai"].calls[0].header("accept") == "text/event-stream"
    line = await gateway.told()
    assert (line["tokens"], line["stream"]) == ({"input": 14, "output": 101}, True)


@pytest.mark.proves("speech", "stream.never-clean", "failover")
@pytest.mark.parametrize(("cut", "rest"), [("close", []), (None, []), (None, [b'data: {"error":{"message":"it broke"}}\n\n'])])
async def test_events_that_break_off_end_with_an_error_event(
    gateway: Gateway, upstreams: dict[str, Upstream], cut: Any, rest: list[bytes]
) -> None:
    upstreams["openai"].streams([DELTA, *rest], cut=cut)
    got = await gateway.post(SPEECH, ASKED | {"model": "voices", "stream_format": "sse"})
    *sound, error = openai_speech.check(got.body)
    assert len(sound) == 1
    assert error["error"]["message"]
    assert (await gateway.told())["outcome"] == "upstream_down"
    assert upstreams["home"].calls == []


@pytest.mark.proves("speech", "failover")
async def test_a_provider_that_gives_no_events_where_they_are_asked_for_is_passed_over(
    gateway: Gateway, upstreams: dict[str, Upstream]
) -> None:
    upstreams["openai"].answers(200, SOUND, headers=MP3)
    upstreams["home"].streams([DELTA, DONE])
    got = await gateway.post(SPEECH, ASKED | {"model": "voices", "stream_format": "sse"})
    assert (got.status, got.body) == (200, DELTA + DONE)
    assert got.headers["x-trunkline-attempts"] == "openai/tts upstream_garbled, home/kokoro ok"


@pytest.mark.proves("speech")
async def test_json_instead_of_sound_is_its_callers_to_understand(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["home"].answers(200, b' {"audio" : "AAAA"}', headers=[("content-type", "application/json")])
    got = await gateway.post(SPEECH, ASKED | {"model": "home/kokoro"})
    assert (got.status, got.body, got.headers["content-type"]) == (200, b' {"audio" : "AAAA"}', "application/json")
