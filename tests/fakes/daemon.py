"""An extension daemon on loopback, made with the SDK: providers of every kind, in front of the fake upstream and the fake OAuth server.

    async with Upstream() as up, AuthorizationServer() as auth, FakeDaemon(up.base_url, auth, secret="s") as daemon:
        up.says("hello")
        ...                                  # `daemon.url`; its providers are those of the table
        assert daemon.counts["signed/refresh"] == 1

| id | credential | serves |
| --- | --- | --- |
| `open` | none | chat, Responses, Messages, embeddings; the model `embedder` embeddings alone, `claude` Messages alone |
| `chat`, `responses`, `messages`, `embeddings` | none | the one that it is named after |
| `speech` | none | speech: `AUDIO` as `audio/mpeg`, whatever is said |
| `pasted` | token | chat |
| `signed` | oauth: device, browser, manual | chat, Responses; an access token that the OAuth server does not know is 401 |

Bodies go to the upstream as they come, with the model spliced in, and its answers come back as they are, statuses too. As a program
(`python -m tests.fakes.daemon`) it says where it listens as one line of JSON, and reads `UPSTREAM`, `AUTHORIZATION`, `DAEMON_SECRET` and `PORT`.
"""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

from msgspec.structs import replace

from tests.fakes.authorization import AuthorizationServer
from trunkline_sdk.daemon.messages import (
    Authorization,
    Credential,
    Flow,
    Loss,
    ModelInfo,
    OAuthStartRequest,
    PollResult,
    ProviderInfo,
    Record,
    Secrets,
)
from trunkline_sdk.daemon.oauthflow import Pkce
from trunkline_sdk.daemon.oauthflow.pkce import OAuthClient
from trunkline_sdk.daemon.protocol.surfaces import PATHS
from trunkline_sdk.daemon.server import DEFAULT_LIMITS, Backend, Call, Daemon, DaemonLimits, Failure, GrantRefused, Reply, Stream
from trunkline_sdk.daemon.server.running import run
from trunkline_sdk.http1 import Client, Response, Timeouts
from trunkline_sdk.listen import Listener

AUDIO = bytes([0xFF, 0xFB, 0x90, 0x64]) + bytes(range(256)) * 64
"""16 KiB that begin as an MP3 does, and hold every byte."""

_CHAT = ("chat_completions",)
_ALL = ("chat_completions", "responses", "messages", "embeddings")
_MODELS: tuple[ModelInfo, ...] = (ModelInfo(id="m", owned_by="fake"),)
_PATIENCE = Timeouts(first_byte=60, silence=60)
_FORM = [(b"content-type", b"application/x-www-form-urlencoded"), (b"accept", b"application/json")]


class FakeDaemon:
    """It serves while it is entered; what tests may look at and change is here.

    Attributes:
        url: its address.
        calls: operations as they came, with their provider's id.
        counts: requests that got to a provider, by `ID/ROUTE`: `signed/refresh`, `chat/stream`, `open/models`.
        losses: what every answer reports to be lost.
        failing: providers whose operations fail, and how.
        models: of each provider.
    """

    def __init__(
        self,
        upstream: str,
        authorization: AuthorizationServer | None = None,
        *,
        secret: str | Sequence[str] = "",
        port: int = 0,
        limits: DaemonLimits = DEFAULT_LIMITS,
        only: Sequence[str] = (),
    ) -> None:
        self.url = ""
        self.calls: list[tuple[str, Call]] = []
        self.counts: Counter[str] = Counter()
        self.losses: list[Loss] = []
        self.failing: dict[str, Failure] = {}
        backends = [
            Relay(self, upstream, "open", _ALL),
            *(Relay(self, upstream, surface.removesuffix("_completions"), (surface,)) for surface in _ALL),
            Speech(self),
            Relay(self, upstream, "pasted", _CHAT, credential="token"),
            *([SignedIn(self, upstream, authorization)] if authorization is not None else []),
        ]
        self.backends = {each.info.id: each for each in backends if not only or each.info.id in only}
        self.models = dict.fromkeys(self.backends, _MODELS)
        if "open" in self.models:
            alone = {"embedder": "embeddings", "claude": "messages"}
            self.models["open"] += tuple(ModelInfo(id=name, supported_apis=(PATHS[surface],)) for name, surface in alone.items())
        self.daemon = Daemon(*self.backends.values(), secret=secret, version="0.0.1-fake", limits=limits)
        self._port = port
        self._stack = AsyncExitStack()
        self._client: Client | None = None

    async def __aenter__(self) -> Self:
        self._stack.push_async_callback(self.daemon.aclose)
        self.use(await self._stack.enter_async_context(Client(timeouts=_PATIENCE)))
        listener = await self._stack.enter_async_context(Listener(self.daemon, port=self._port))
        [self.url] = listener.urls
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._stack.aclose()

    def use(self, client: Client) -> None:
        """Ask the upstream and the OAuth server with this one."""
        self._client = client

    @property
    def client(self) -> Client:
        assert self._client is not None
        return self._client

    def saw(self, provider: str, call: Call) -> None:
        """Note an operation, and fail it where that was asked for."""
        self.calls.append((provider, call))
        if (failure := self.failing.get(provider)) is not None:
            raise failure


class Relay(Backend):
    """Sends what it is asked to the upstream, with the caller's credential or a word that stands for one."""

    def __init__(self, daemon: FakeDaemon, upstream: str, name: str, surfaces: Sequence[str], *, credential: str = "none") -> None:
        self.info = ProviderInfo(id=name, name=name.capitalize(), surfaces=tuple(surfaces), credential=credential)
        self._daemon = daemon
        self._upstream = upstream

    async def models(self, credential: Credential | None) -> Sequence[ModelInfo]:
        self._daemon.counts[f"{self.info.id}/models"] += 1
        return self._daemon.models[self.info.id]

    async def invoke(self, call: Call) -> Reply:
        async with await self._ask("invoke", call) as response:
            return Reply(await response.read(), _header(response, b"content-type") or "application/json", self._daemon.losses)

    async def stream(self, call: Call) -> Stream:
        return Stream((await self._ask("stream", call)).body, self._daemon.losses)

    async def _ask(self, route: str, call: Call) -> Response:
        self._daemon.counts[f"{self.info.id}/{route}"] += 1
        self._daemon.saw(self.info.id, call)
        await self._admit(call.credential)
        given = call.credential
        key = (given.token or given.api_key) if given is not None else "keyless"
        headers = {"content-type": "application/json"}
        headers |= (
            {"x-api-key": key, "anthropic-version": "2023-06-01"} if call.surface == "messages" else {"authorization": f"Bearer {key}"}
        )
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        response = await self._daemon.client.request("POST", self._upstream + PATHS[call.surface], raw, call.outgoing())
        if not 200 <= response.status < 300:
            async with response:
                raise await _failure(response)
        return response

    async def _admit(self, credential: Credential | None) -> None:
        if self.info.credential != "none" and credential is None:
            raise Failure(401, "this provider needs a credential")


class Speech(Backend):
    """Says the same whatever it is given."""

    info = ProviderInfo(id="speech", name="Speech", surfaces=("audio_speech",), credential="none")

    def __init__(self, daemon: FakeDaemon) -> None:
        self._daemon = daemon

    async def models(self, credential: Credential | None) -> Sequence[ModelInfo]:
        self._daemon.counts["speech/models"] += 1
        return self._daemon.models["speech"]

    async def invoke(self, call: Call) -> Reply:
        self._daemon.counts["speech/invoke"] += 1
        self._daemon.saw("speech", call)
        return Reply(AUDIO, "audio/mpeg", self._daemon.losses)


class SignedIn(Relay):
    """A provider that people sign in to, at the fake OAuth server."""

    def __init__(self, daemon: FakeDaemon, upstream: str, authorization: AuthorizationServer) -> None:
        super().__init__(daemon, upstream, "signed", ("chat_completions", "responses"), credential="oauth")
        self.info = replace(self.info, has_oauth=True, has_refresh=True, oauth_methods=("device", "browser", "manual"))
        self._server = authorization

    async def refresh(self, record: Record) -> Record:
        self._daemon.counts["signed/refresh"] += 1
        status, told = await self._form(self._server.token_url, self._client.refresh_form(record.refresh_token))
        if status == 200:
            return _record(told)
        if status >= 500 or status == 429:
            raise Failure(status, "the provider is out of order")
        raise GrantRefused(told["error"])

    async def oauth_start(self, request: OAuthStartRequest) -> Authorization:
        self._daemon.counts["signed/start"] += 1
        if request.method == "device":
            status, told = await self._form(self._server.device_url, {"client_id": self._server.client_id, **self._secret})
            if status != 200:
                raise Failure(status, "the provider gives no code")
            return Authorization(
                user_code=told["user_code"],
                verification_uri=told["verification_uri"],
                verification_uri_complete=told["verification_uri_complete"],
                interval=timedelta(seconds=told["interval"]),
                expires_in=timedelta(seconds=told["expires_in"]),
                secrets=Secrets(device_code=told["device_code"]),
            )
        pkce, redirect = Pkce(), request.redirect_uri or self._server.code_url
        return Authorization(
            authorization_url=self._client.authorization_url(pkce, redirect),
            secrets=Secrets(verifier=pkce.verifier, state=pkce.state, redirect_uri=redirect),
        )

    async def oauth_poll(self, flow: Flow) -> PollResult:
        self._daemon.counts["signed/poll"] += 1
        form = {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": flow.secrets.device_code}
        status, told = await self._form(self._server.token_url, {**form, "client_id": self._server.client_id, **self._secret})
        if status == 200:
            return PollResult(status="approved", record=_record(told))
        statuses = {"authorization_pending": "pending", "slow_down": "slow_down", "access_denied": "denied", "expired_token": "expired"}
        if told.get("error") not in statuses:
            raise Failure(502, "the provider does not say how the sign-in stands")
        return PollResult(status=statuses[told["error"]])

    async def oauth_exchange(self, code: str, flow: Flow) -> Record:
        self._daemon.counts["signed/exchange"] += 1
        form = self._client.exchange_form(code, flow.secrets.verifier, flow.secrets.redirect_uri)
        status, told = await self._form(self._server.token_url, form)
        if status != 200:
            raise Failure(400, "the code was refused")
        return _record(told)

    @property
    def _client(self) -> OAuthClient:
        server = self._server
        mode = "client_secret_post" if server.client_secret else "public_pkce"
        scopes = tuple(server.scopes.split())
        return OAuthClient(
            client_id=server.client_id, authorize_url=server.authorize_url, scopes=scopes, mode=mode, client_secret=server.client_secret
        )

    @property
    def _secret(self) -> dict[str, str]:
        return {"client_secret": self._server.client_secret} if self._server.client_secret else {}

    async def _admit(self, credential: Credential | None) -> None:
        await super()._admit(credential)
        assert credential is not None
        shown = [(b"authorization", f"Bearer {credential.token}".encode())]
        async with await self._daemon.client.request("GET", f"{self._server.base_url}/userinfo", shown) as response:
            if response.status != 200:
                raise Failure(401, "the access token is not valid")

    async def _form(self, url: str, form: Mapping[str, str]) -> tuple[int, Any]:
        async with await self._daemon.client.request("POST", url, _FORM, urlencode(form).encode()) as response:
            return response.status, json.loads(await response.read())


def _record(told: Mapping[str, Any]) -> Record:
    seconds = told.get("expires_in")
    return Record(
        access_token=told["access_token"],
        refresh_token=told["refresh_token"],
        token_type=told["token_type"],
        expiry=None if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds),
        account_id=told["account_id"],
    )


async def _failure(response: Response) -> Failure:
    after = _header(response, b"retry-after")
    body = await response.read()
    told: Any = json.loads(body) if body.startswith(b"{") else {}
    reason = told["error"]["message"] if "error" in told else ""
    return Failure(response.status, reason or f"the upstream says {response.status}", retry_after=float(after) if after.isdigit() else None)


def _header(response: Response, wanted: bytes) -> str:
    return next((value.decode() for name, value in response.headers if name.lower() == wanted), "")


async def main() -> None:
    """The program."""
    authorization = AuthorizationServer(base_url=os.environ["AUTHORIZATION"]) if "AUTHORIZATION" in os.environ else None
    fake = FakeDaemon(os.environ["UPSTREAM"], authorization, secret=os.environ.get("DAEMON_SECRET", ""))
    async with Client(timeouts=_PATIENCE) as client:
        fake.use(client)
        await run(
            fake.daemon,
            port=int(os.environ.get("PORT", "0")),
            ready=lambda urls: print(json.dumps({"listening": urls[0]}), flush=True),
            drain_seconds=0,
        )


if __name__ == "__main__":
    asyncio.run(main())
