"""What an error says, and what follows from it."""

import asyncio
from collections.abc import Awaitable

import pytest

from sdk.tests.daemon.client.answers import AGAIN, CIRCUIT, FAILOVER, NEUTRAL, answer, cuts, failure, keeps, seen, shown
from sdk.tests.daemon.client.conftest import MakeClient
from sdk.tests.http1.asking import dead_port, sees_the_end
from sdk.tests.http1.peer import Peer, Wire, after
from trunkline_sdk.daemon.client import Client, Fixes, Options, Request
from trunkline_sdk.daemon.errors import CallFailed
from trunkline_sdk.daemon.messages import Credential, OAuthStartRequest, Record
from trunkline_sdk.daemon.protocol.headers import CHALLENGE

CHAT = Request("chat_completions", "m", b"{}")
MIB = 1024 * 1024
Flags = tuple[bool, bool, bool]
MARKED = b"WWW-Authenticate: " + CHALLENGE + b"\r\n"


def calls(client: Client) -> list[Awaitable[object]]:
    return [client.info(), client.models("p"), client.invoke("p", CHAT), client.stream("p", CHAT)]


@pytest.mark.parametrize(
    ("status", "kind", "original", "ours"),
    [
        (301, "upstream", CIRCUIT, CIRCUIT),
        (400, "upstream", CIRCUIT, NEUTRAL),
        (401, "auth", NEUTRAL, NEUTRAL),
        (403, "forbidden", NEUTRAL, NEUTRAL),
        (408, "upstream", AGAIN, AGAIN),
        (422, "upstream", CIRCUIT, NEUTRAL),
        (429, "rate_limited", (True, True, False), (True, True, False)),
        (500, "upstream", AGAIN, AGAIN),
        (529, "upstream", AGAIN, AGAIN),
    ],
)
async def test_every_call_classifies_a_status_alike(
    peer: Peer, client: Client, strict: Client, status: int, kind: str, original: Flags, ours: Flags
) -> None:
    """I.8"""
    asked = keeps(peer, answer(b'{"error":{"message":"no","code":1}}', status, b"Location: /elsewhere\r\nRetry-After: 7\r\n"))
    for one, expected in ((client, ours), (strict, original)):
        for call in calls(one):
            error = await failure(call)
            assert seen(error) == (kind, expected)
            assert error.classification.status == status
            assert str(error).endswith(" failed: no")
            cools = status == 429 or (status == 529 and one is client)
            assert error.classification.retry_after == (7.0 if cools else 0.0)
    assert len(asked) == 8
    assert not any(b"elsewhere" in one.line for one in asked)


@pytest.mark.parametrize("body", [b"<html>canary</html>", b"", b'{"error":1}', b'{"error":"%b"}' % (b"x" * (MIB + 1))])
async def test_what_is_no_reason_is_not_shown(peer: Peer, client: Client, body: bytes) -> None:
    """I.8"""
    keeps(peer, answer(body, 502))
    error = await failure(client.invoke("p", CHAT))
    assert str(error) == "extension p invoke failed (HTTP 502)"
    assert seen(error) == ("upstream", AGAIN)


async def test_an_error_body_that_breaks_off_leaves_the_status(peer: Peer, client: Client) -> None:
    cuts(peer, b"HTTP/1.1 403 X\r\nContent-Length: 100\r\n\r\n{")
    assert str(await failure(client.stream("p", CHAT))) == "extension p stream failed (HTTP 403)"


async def test_nobody_there_is_worth_another_try_and_has_no_address(make_client: MakeClient) -> None:
    """I.9"""
    port = dead_port()
    client = make_client(f"http://127.0.0.1:{port}")
    for call in calls(client):
        error = await failure(call)
        assert seen(error) == ("transport", AGAIN)
        assert str(port) not in shown(error)
        assert "127.0.0.1" not in shown(error)


@pytest.mark.parametrize("said", [b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Le"])
async def test_an_answer_that_is_none_is_a_transport_failure(peer: Peer, client: Client, said: bytes) -> None:
    """I.9"""
    cuts(peer, said)
    for call in calls(client):
        assert seen(await failure(call)) == ("transport", AGAIN)


async def test_an_invoke_that_breaks_off_is_a_transport_failure(peer: Peer, client: Client, strict: Client) -> None:
    """I.10"""
    cuts(peer, b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    for one in (client, strict):
        assert seen(await failure(one.invoke("p", CHAT))) == ("transport", AGAIN)


async def test_a_catalogue_that_breaks_off_is_a_transport_failure_but_in_the_original(peer: Peer, client: Client, strict: Client) -> None:
    cuts(peer, b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"models"')
    for call in (client.info(), client.models("p"), client.refresh("p", Record(refresh_token="r"))):
        assert seen(await failure(call)) == ("transport", AGAIN)
    for call in (strict.info(), strict.models("p"), strict.refresh("p", Record(refresh_token="r"))):
        assert seen(await failure(call)) == ("upstream", NEUTRAL)


@pytest.mark.parametrize("body", [b"not json", b"{} {}", b'{"providers":7,"models":7}', b"", b"\xff"])
async def test_an_answer_that_cannot_be_used_is_final(peer: Peer, client: Client, body: bytes) -> None:
    """I.11"""
    keeps(peer, answer(body))
    for call in (client.info(), client.models("p")):
        error = await failure(call)
        assert seen(error) == ("upstream", NEUTRAL)
        assert "cannot be used" in str(error)


@pytest.mark.parametrize("bad", [b"true", b"null", b'""'])
async def test_one_bad_support_value_costs_its_row_and_in_the_original_all(peer: Peer, client: Client, strict: Client, bad: bytes) -> None:
    """I.11"""
    keeps(peer, answer(b'{"models":[{"id":"a","capabilities":{"tools":%b}},{"id":"b"}]}' % bad))
    found = await client.models("p")
    assert [row.id for row in found.models] == ["b"]
    assert found.dropped[0].startswith("models[0]: `capabilities.tools`")
    assert seen(await failure(strict.models("p"))) == ("upstream", NEUTRAL)


@pytest.mark.parametrize(("route", "most"), [("info", MIB), ("models", 16 * MIB), ("invoke", 64 * MIB), ("refresh", MIB), ("start", MIB)])
async def test_an_answer_may_have_so_much_and_no_byte_more(peer: Peer, client: Client, route: str, most: int) -> None:
    """I.11"""

    async def call() -> object:
        match route:
            case "info":
                return await client.info()
            case "models":
                return await client.models("p")
            case "refresh":
                return await client.refresh("p", Record(refresh_token="r"))
            case "start":
                return await client.oauth_start("p", OAuthStartRequest(method="device"))
            case _:
                return await client.invoke("p", CHAT)

    body = b'{"version":"1"}'
    keeps(peer, answer(body + b" " * (most - len(body))))
    await call()
    keeps(peer, answer(body + b" " * (most + 1 - len(body))))
    assert seen(await failure(call())) == ("upstream", NEUTRAL)


@pytest.mark.parametrize("provider", ["", "a/b", ".", "..", "info", "a b", "p?x=1", "ä", "a" * 129])
async def test_a_bad_provider_is_not_asked_for(peer: Peer, client: Client, provider: str) -> None:
    """I.16"""
    asked = keeps(peer, answer())
    for call in (
        client.models(provider),
        client.invoke(provider, CHAT),
        client.stream(provider, CHAT),
        client.refresh(provider, Record()),
        client.oauth_start(provider, OAuthStartRequest()),
    ):
        assert seen(await failure(call)) == ("configuration", FAILOVER)
    assert asked == []
    await client.invoke("a" * 128, CHAT)


async def test_a_value_that_no_header_can_hold_is_the_caller_s_fault(peer: Peer, client: Client, strict: Client) -> None:
    asked = keeps(peer, answer())
    for request, credential, name in (
        (CHAT, Credential(token="canary\r\nx-evil: 1"), "x-credential-token"),
        (CHAT._replace(model="canary\0"), None, "x-model"),
        (CHAT._replace(content_type="canary\n"), None, "content-type"),
    ):
        for method in ("invoke", "stream"):
            error = await failure(getattr(client, method)("p", request, credential))
            assert seen(error) == ("invalid_request", NEUTRAL)
            assert name in str(error)
            assert "canary" not in shown(error)
            assert seen(await failure(getattr(strict, method)("p", request, credential))) == ("transport", AGAIN)
    assert seen(await failure(client.models("p", Credential(api_key="a\nb")))) == ("invalid_request", NEUTRAL)
    assert asked == []


async def test_a_wrong_daemon_secret_is_told_apart(peer: Peer, client: Client, strict: Client) -> None:
    """I.3, K1"""
    keeps(peer, answer(b'{"error":"unauthorized"}', 401, MARKED))
    others = [client.refresh("p", Record(refresh_token="r")), client.oauth_start("p", OAuthStartRequest(method="device"))]
    for call in (*calls(client), *others):
        assert seen(await failure(call)) == ("configuration", FAILOVER)
    for call in calls(strict):
        assert seen(await failure(call)) == ("auth", NEUTRAL)


# ------------------------------------------------------------------------------------------------ time
SHORT = Options(control_seconds=0.05, invoke_seconds=0.05)


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"], ids=["before the head", "inside the body"])
async def test_our_own_deadline_is_worth_another_try(peer: Peer, make_client: MakeClient, sent: bytes) -> None:
    """I.9, K3"""
    peer.plays(after(sent))
    ours, original = make_client(options=SHORT), make_client(options=SHORT, strict_original=True)
    for call in (ours.info(), ours.models("p"), ours.invoke("p", CHAT)):
        assert seen(await failure(call)) == ("transport", AGAIN)
    for call in (original.info(), original.models("p"), original.invoke("p", CHAT)):
        assert seen(await failure(call)) == ("transport", NEUTRAL)


async def test_the_caller_s_own_deadline_is_final(peer: Peer, client: Client) -> None:
    """I.9"""
    peer.plays(after())
    for call in (client.info(within=0.02), client.invoke("p", CHAT, within=0.02), client.stream("p", CHAT, within=0.02)):
        assert seen(await failure(call)) == ("transport", NEUTRAL)
    await sees_the_end(peer.wires[0])


async def test_cancelling_drops_the_connection(peer: Peer, client: Client) -> None:
    """I.9"""
    peer.plays(after(b""), after(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"))
    for number in range(2):
        task = asyncio.ensure_future(client.invoke("p", CHAT))
        wire = await peer.wire(number)
        await wire.reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await sees_the_end(wire)


async def test_an_invoke_with_a_timeout_has_no_total_and_waits_longer_than_the_daemon(peer: Peer, make_client: MakeClient) -> None:
    """I.19"""
    pieces = [b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n", *[b"x"] * 40]
    options = Options(invoke_seconds=0.001, margin_seconds=0.2)
    client = make_client(options=options)
    peer.says(*pieces)
    assert len((await client.invoke("p", CHAT._replace(timeout=60.0))).body) == 40
    peer.plays(after())
    error = await failure(make_client(options=options).invoke("p", CHAT._replace(timeout=0.01)))
    assert seen(error) == ("transport", AGAIN)


def test_the_wait_for_a_head_follows_the_timeout_but_in_the_original() -> None:
    assert Options().waits(None).first_byte == 180.0
    assert Options().waits(300.0).first_byte == 310.0
    assert Options().waits(5.0).first_byte == 15.0
    assert Options(fixes=Fixes(header_wait_follows_timeout=False)).waits(300.0).first_byte == 180.0


async def test_the_wait_for_a_head_is_a_transport_failure(peer: Peer, make_client: MakeClient) -> None:
    peer.plays(after())
    for strict in (False, True):
        client = make_client(options=Options(header_seconds=0.02), strict_original=strict)
        assert seen(await failure(client.stream("p", CHAT))) == ("transport", AGAIN)


# ------------------------------------------------------------------------------------------------ secrets
CANARIES = ["canary-secret", "canary-token", "canary-client-secret", "canary-password", "canary-refresh"]


@pytest.mark.parametrize("said", ["echo", "garbage", "cut"])
async def test_no_error_holds_a_secret(peer: Peer, make_client: MakeClient, said: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    echo = " ".join(CANARIES).encode()

    async def script(wire: Wire) -> None:
        await wire.request()
        if said == "echo":
            await wire.send(answer(b'{"error":"%b"}' % echo, 400, b"Connection: close\r\n"))
        elif said == "garbage":
            await wire.send(b"HTTP/1.1 200 OK\r\n" + echo + b"\r\n\r\n")
        wire.cut()

    peer.plays(script)
    client = make_client(secret="canary-secret")
    metadata = {"oauth_client_secret": "canary-client-secret", "password": "canary-password"}  # whatever its name: H3
    credential = Credential(token="canary-token", metadata=metadata)
    record = Record(access_token="canary-token", refresh_token="canary-refresh", metadata=metadata)
    for call in (
        client.invoke("p", CHAT, credential),
        client.stream("p", CHAT, credential),
        client.models("p", credential),
    ):
        error = await failure(call)
        for canary in CANARIES[:4]:
            assert canary not in shown(error)
    with pytest.raises(Exception, match="extension p refresh") as caught:
        await client.refresh("p", record)
    for canary in CANARIES:
        assert canary not in shown(caught.value)
    with pytest.raises(Exception, match="extension p oauth/start") as caught:
        await client.oauth_start("p", OAuthStartRequest(method="device", params=metadata))
    for canary in CANARIES[:1] + CANARIES[2:4]:
        assert canary not in shown(caught.value)
    assert "canary" not in repr(client)
    assert "canary" not in caplog.text


def test_an_error_is_one_of_ours() -> None:
    assert str(CallFailed("x", "auth")) == "x"
