"""Only listed headers pass, in either direction."""

import asyncio
import json

import pytest

from tests.fakes import replies
from tests.fakes.upstream import Upstream
from tests.wire.gateway import Gateway, question
from tests.wire.sides import Side

SENT = [
    ("anthropic-beta", "context-1m-2025-08-07"),
    ("Anthropic-Version", "2023-06-01"),
    ("OpenAI-Beta", "assistants=v2"),
    ("Accept-Language", "sv"),
    ("X-Request-ID", "the-callers-own"),
    ("Cookie", "session=1"),
    ("User-Agent", "caller/1"),
    ("Accept", "text/html"),
    ("Accept-Encoding", "gzip, br"),
    ("Connection", "keep-alive, x-mine"),
    ("X-Mine", "1"),
    ("Keep-Alive", "timeout=5"),
    ("TE", "trailers"),
    ("Via", "1.1 somebody"),
    ("Forwarded", "for=10.0.0.1"),
    ("X-Forwarded-For", "10.0.0.1"),
    ("X-Real-IP", "10.0.0.1"),
    ("Origin", "https://evil.example"),
    ("Referer", "https://evil.example"),
    ("Proxy-Authorization", "Basic x"),
    ("OpenAI-Organization", "org-callers"),
    ("OpenAI-Project", "proj-callers"),
    ("X-Stainless-Lang", "python"),
    ("X-Api-Version", "1"),
    ("Content-Language", "sv"),
]


@pytest.mark.proves("headers")
async def test_a_provider_gets_only_what_is_listed(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    upstreams[side.first].says("hello")
    body = json.dumps(question(side)).encode()
    own = [("Host", "trunkline.test"), ("Content-Type", "text/plain"), ("Content-Length", len(body)), ("X-Api-Key", gateway.key)]
    head = "".join(f"{name}: {value}\r\n" for name, value in [*own, *SENT])
    reader, writer = await asyncio.open_connection(*gateway.base_url.removeprefix("http://").split(":"))
    writer.write(f"POST {side.path} HTTP/1.1\r\n{head}\r\n".encode() + body)
    assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    call = upstreams[side.first].calls[0]
    key = gateway.secrets[side.first]
    assert {name.decode().lower(): value.decode() for name, value in call.headers} == {
        "host": upstreams[side.first].base_url.removeprefix("http://"),
        "content-type": "application/json",
        "content-length": str(len(call.body)),
        "accept": "application/json",
        "accept-encoding": "identity",
        "user-agent": "trunkline",
        "anthropic-beta": "context-1m-2025-08-07",
        "anthropic-version": "2023-06-01",
        "openai-beta": "assistants=v2",
        "accept-language": "sv",
        **side.credential(key),
    }
    assert (await gateway.told())["client_request_id"] == "the-callers-own"


@pytest.mark.proves("headers")
async def test_the_version_is_added_where_the_caller_names_none(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    for headers, version in ((), "2023-06-01"), ([("anthropic-version", "2099-01-01")], "2099-01-01"):
        upstreams["anthropic"].says("hello")
        await gateway.post(
            "/v1/messages", {"model": "claude-sonnet", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}, headers
        )
        assert upstreams["anthropic"].calls[-1].header("anthropic-version") == version


LISTED = [
    ("X-RateLimit-Remaining-Requests", "99"),
    ("x-ratelimit-reset-tokens", "6m0s"),
    ("anthropic-ratelimit-input-tokens-remaining", "5"),
    ("OpenAI-Processing-Ms", "12"),
    ("openai-version", "2020-10-01"),
    ("x-should-retry", "false"),
]
UNLISTED = [
    ("Set-Cookie", "session=1"),
    ("Server", "cloudflare"),
    ("Connection", "keep-alive, x-mine"),
    ("X-Mine", "1"),
    ("Keep-Alive", "timeout=5"),
    ("Via", "1.1 vegur"),
    ("Strict-Transport-Security", "max-age=1"),
    ("Access-Control-Allow-Origin", "*"),
    ("Alt-Svc", 'h3=":443"'),
    ("CF-Ray", "1"),
    ("openai-organization", "org-operators"),
    ("anthropic-organization-id", "org-operators"),
    ("Location", "/elsewhere"),
    ("ETag", "x"),
    ("WWW-Authenticate", "Bearer"),
    ("Trailer", "x-mine"),
]
OURS = {"date", "content-type", "content-length", "x-request-id", "request-id", "x-upstream-request-id", "x-trunkline-attempts"}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", ["x-request-id", "request-id"])
@pytest.mark.proves("headers")
async def test_a_caller_gets_only_what_is_listed(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, name: str, stream: bool
) -> None:
    headers = [*LISTED, *UNLISTED, (name, "req_vendor")]
    if stream:
        upstreams[side.first].streams(side.stream(), headers=[*headers, ("content-type", "text/event-stream")])
    else:
        upstreams[side.first].answers(200, replies.whole(side.dialect, replies.Reply("hello")), headers=headers)
    got = await gateway.ask(side, stream=stream)
    framing = {"cache-control", "x-accel-buffering", "transfer-encoding"} if stream else set()
    assert set(got.headers) == {name.lower() for name, _ in LISTED} | framing | OURS - ({"content-length"} if stream else set())
    assert {name.lower(): value for name, value in LISTED}.items() <= got.headers.items()
    assert got.headers["x-upstream-request-id"] == "req_vendor"
    assert got.headers["x-request-id"].startswith("rqe_")


@pytest.mark.parametrize("status", [400, 429, 500])
@pytest.mark.proves("headers")
async def test_an_error_tells_the_providers_limits_and_request_id_too(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, status: int
) -> None:
    told = {"type": "invalid_request_error", "message": "it broke"}
    headers = [*LISTED, *UNLISTED, ("x-request-id", "req_vendor")]
    upstreams[side.first].answers(status, {"type": "error", "error": told}, headers=headers, retry_after=7, times=2)
    got = await gateway.ask(side)
    assert set(got.headers) == {name.lower() for name, _ in LISTED} | OURS | ({"retry-after"} if status != 400 else set())
    assert got.headers["x-upstream-request-id"] == "req_vendor"
    assert got.headers["content-type"] == "application/json"
