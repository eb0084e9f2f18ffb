"""The daemon that conformance kits are run against (daemon contract, J). `conf_chat` and `conf_speech` do what the model's name says.

| model | invoke | stream |
| --- | --- | --- |
| `echo` | the request's body, with one advisory loss | the reference vector of C2, with the same loss |
| `show-headers` | the request's headers: names in lower case → values | the same as one record |
| `status-NNN` | that status, `Retry-After: 7` | the same |
| `break-stream` | begins and breaks off | one record, then breaks off |
| `slow-stream` | | one record, then silence |
| `slow-start` | no head | no head |
| `drip` | ten pieces, 0.1 s apart | ten records, 0.1 s apart, and `[DONE]` |
| `cancelled` | `{"cancelled": N}`: slow answers that were cancelled so far | |

Refresh tokens: `refresh-1` is renewed; `dead` is void, `busy` is 503, any other is refused for now. A device sign-in is approved at its first
poll, unless its parameter `outcome` names another status. `code-1` is exchanged (also for an empty flow), `broken-code` is 500, others are 400.

Run as a program it says where it listens, as one line of JSON; `DAEMON_SECRET` and `PORT` are read from the environment.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any

from trunkline_sdk.daemon.messages import (
    Authorization,
    Capabilities,
    Credential,
    Flow,
    Limits,
    Loss,
    ModelInfo,
    OAuthStartRequest,
    Operations,
    PollResult,
    ProviderInfo,
    Record,
    Secrets,
)
from trunkline_sdk.daemon.server import Backend, Call, Daemon, DaemonLimits, Failure, GrantRefused, Reply, Stream
from trunkline_sdk.daemon.server.running import run

LOSS = Loss(path="messages.0.name", change="dropped", severity="advisory", detail="not carried")
VECTOR = (
    b': hb\n\ndata: {"n":1}\n\nevent: tick\n\ndata:\n\nevent: part\r\ndata: {"n":2}\r\n\r\n'
    b": in\ndata:one\ndata: two\n\ndata: [DONE]\n\ndata: rest"
)
FRAMES = [
    b'data: {"n":1}\n\n',
    b'event: part\r\ndata: {"n":2}\r\n\r\n',
    b": in\ndata:one\ndata: two\n\n",
    b"data: [DONE]\n\n",
    b"data: rest\n\n",
]
AUDIO = bytes([0xFF, 0xFB, 0x00, 0x0A, 0x0D])
SILENCE = 60.0  # seconds
DRIPS, DRIP_SECONDS = 10, 0.1  # in all it is more than the patience of the conformance kit

request_headers: ContextVar[list[tuple[bytes, bytes]]] = ContextVar("request_headers")


class Chat(Backend):
    info = ProviderInfo(
        id="conf_chat",
        name="Chat",
        surfaces=("chat_completions", "responses"),
        has_oauth=True,
        has_refresh=True,
        credential="oauth",
        oauth_methods=("device", "manual"),
    )

    def __init__(self) -> None:
        self.cancelled = 0
        self.refreshes = 0

    async def models(self, credential: Credential | None) -> Sequence[ModelInfo]:
        typed = Capabilities(schema_version=1, operations=Operations(chat="supported"), limits=Limits(context_tokens=8192))
        return [
            ModelInfo(id="silent"),
            ModelInfo(id="apis", supported_apis=("/v1/responses",)),
            ModelInfo(id="typed", capabilities=typed),
            ModelInfo(id="legacy", legacy_capabilities={"tts": True}),
        ]

    async def invoke(self, call: Call) -> Reply:
        match call.model:
            case "show-headers":
                return Reply(shown_headers())
            case "cancelled":
                return Reply(json.dumps({"cancelled": self.cancelled}).encode())
            case "drip":
                return Reply(self._drip_json())
            case "break-stream":
                return Reply(self._broken(b'{"begun":'))
            case "slow-start":
                await self._silence()
            case model if model.startswith("status-"):
                raise asked_for(model)
        return Reply(call.body, call.content_type, losses=[LOSS])

    async def stream(self, call: Call) -> Stream:
        match call.model:
            case "show-headers":
                return Stream(given(b"data: " + shown_headers() + b"\n\ndata: [DONE]\n\n"))
            case "drip":
                return Stream(self._drip_records())
            case "break-stream":
                return Stream(self._broken(b'data: {"n":1}\n\n'))
            case "slow-stream":
                return Stream(self._silent_after(b'data: {"n":1}\n\n'))
            case "slow-start":
                await self._silence()
            case model if model.startswith("status-"):
                raise asked_for(model)
        return Stream(given(VECTOR), losses=[LOSS])

    async def refresh(self, record: Record) -> Record:
        self.refreshes += 1
        match record.refresh_token:
            case "refresh-1":
                expiry = datetime.now(UTC) + timedelta(hours=1)
                return Record(
                    access_token="access-2", refresh_token="refresh-2", token_type="Bearer", expiry=expiry, account_id=record.account_id
                )
            case "dead":
                raise GrantRefused("invalid_grant")
            case "busy":
                raise Failure(503, "try later")
        raise GrantRefused("unsupported_grant_type", "the refresh token was refused")

    async def oauth_start(self, request: OAuthStartRequest) -> Authorization:
        if request.method == "device":
            return Authorization(
                user_code="ABCD-1234",
                verification_uri="https://provider.example/device",
                interval=timedelta(seconds=5),
                expires_in=timedelta(minutes=10),
                secrets=Secrets(device_code=request.params.get("outcome", "device-1")),
            )
        return Authorization(
            authorization_url="https://provider.example/authorize?state=state-1",
            secrets=Secrets(state="state-1", verifier="verifier-1", redirect_uri="http://localhost:1455/cb"),
        )

    async def oauth_poll(self, flow: Flow) -> PollResult:
        code = flow.secrets.device_code
        if code in {"pending", "slow_down", "denied", "expired"}:
            return PollResult(status=code)
        return PollResult(
            status="approved", record=Record(access_token=f"access-for-{code}", refresh_token="refresh-1", token_type="Bearer")
        )

    async def oauth_exchange(self, code: str, flow: Flow) -> Record:
        if code == "broken-code":
            raise Failure(500, "the provider is out of order")
        if code != "code-1" or flow.secrets.verifier not in {"", "verifier-1"}:
            raise Failure(400, "the code was refused")
        return Record(access_token="access-1", refresh_token="refresh-1", token_type="Bearer", account_id="account-1")

    async def _silence(self) -> None:
        async with self._counting():
            await asyncio.sleep(SILENCE)

    async def _silent_after(self, first: bytes) -> AsyncIterator[bytes]:
        yield first
        await self._silence()

    async def _drip_records(self) -> AsyncIterator[bytes]:
        for number in range(DRIPS):
            async with self._counting():
                await asyncio.sleep(DRIP_SECONDS)
            yield b'data: {"n":%d}\n\n' % number
        yield b"data: [DONE]\n\n"

    async def _drip_json(self) -> AsyncIterator[bytes]:
        yield b'{"drip":[0'
        for number in range(1, DRIPS):
            async with self._counting():
                await asyncio.sleep(DRIP_SECONDS)
            yield b",%d" % number
        yield b"]}"

    async def _broken(self, first: bytes) -> AsyncIterator[bytes]:
        yield first
        raise Failure(502, "the provider broke off")

    @asynccontextmanager
    async def _counting(self) -> AsyncIterator[None]:
        try:
            yield
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


class Speech(Backend):
    info = ProviderInfo(id="conf_speech", name="Speech", surfaces=("audio_speech",), credential="none")

    async def models(self, credential: Credential | None) -> Sequence[ModelInfo]:
        return [ModelInfo(id="voice-1")]

    async def invoke(self, call: Call) -> Reply:
        return Reply(AUDIO, "audio/mpeg")


def asked_for(model: str) -> Failure:
    return Failure(int(model.removeprefix("status-")), "asked for", retry_after=7)


def shown_headers() -> bytes:
    return json.dumps({name.decode(): value.decode() for name, value in request_headers.get()}).encode()


async def given(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


class Fixtures(Daemon):
    """The daemon of both providers, which also shows what it was sent."""

    def __init__(self, secret: str | Sequence[str] = "", limits: DaemonLimits = DaemonLimits(), hosts: Sequence[str] = ()) -> None:  # noqa: B008
        self.chat = Chat()
        super().__init__(self.chat, Speech(), secret=secret, version="0.0.1-fixtures", limits=limits, hosts=hosts)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request_headers.set(scope["headers"])
        await super().__call__(scope, receive, send)


def main() -> None:
    def ready(urls: tuple[str, ...]) -> None:
        print(json.dumps({"listening": urls[0]}), flush=True)

    asyncio.run(run(Fixtures(os.environ.get("DAEMON_SECRET", "")), port=int(os.environ.get("PORT", "0")), ready=ready, drain_seconds=0))


if __name__ == "__main__":
    main()
