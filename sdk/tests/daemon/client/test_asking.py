"""What goes over the wire, and what comes back, when all is well."""

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest

from sdk.tests.daemon.client.answers import answer, keeps
from sdk.tests.daemon.client.conftest import MakeClient
from sdk.tests.http1.peer import Peer
from trunkline_sdk.daemon.client import Client, Provider, Request
from trunkline_sdk.daemon.errors import SurfaceNotServed
from trunkline_sdk.daemon.messages import (
    Authorization,
    Credential,
    Flow,
    Loss,
    OAuthStartRequest,
    OAuthStartResponse,
    PollResult,
    ProviderInfo,
    Record,
    Secrets,
    encode,
)

CHAT = Request("chat_completions", "echo", b'{"model":"x"}')
CREDENTIAL = Credential(token="access-1", account_id="acc", token_type="Bearer", metadata={"label": "a<b>&c ü"})
INFO = b"""{"version":"1.2","providers":[
 {"id":"a","name":"A","surfaces":["responses"],"has_oauth":true,"credential":"oauth","oauth_methods":["device"]},
 {"id":"b","credential":"token"},{"id":"c","has_oauth":true,"credential":""},{"id":"d","unknown":[1]}]}"""


async def test_info_is_asked_for_and_read(peer: Peer, client: Client) -> None:
    """I.2"""
    asked = keeps(peer, answer(INFO))
    info = await client.info()
    assert asked[0].line == b"GET /extension/v1/info HTTP/1.1"
    assert asked[0].header(b"accept") == b"application/json"
    assert asked[0].header(b"authorization") == b"Bearer s3cret"
    assert asked[0].header(b"content-length") is None
    assert info.version == "1.2"
    assert [provider.credential_kind for provider in info.providers] == ["oauth", "token", "oauth", ""]
    assert info.providers[0].oauth_methods == ("device",)


@pytest.mark.parametrize("secret", ["", "  "])
async def test_without_a_secret_nothing_is_authorised(peer: Peer, make_client: MakeClient, secret: str) -> None:
    """I.3"""
    asked = keeps(peer, answer(INFO))
    await make_client(secret=secret).info()
    assert asked[0].header(b"authorization") is None


async def test_a_base_path_is_kept(peer: Peer, make_client: MakeClient) -> None:
    """I.1"""
    asked = keeps(peer, answer(INFO))
    await make_client(f" {peer.url}/proxy// ").info()
    assert asked[0].line == b"GET /proxy/extension/v1/info HTTP/1.1"


async def test_an_invoke_carries_everything_and_brings_it_back(peer: Peer, client: Client) -> None:
    """I.4"""
    losses = base64.b64encode(b'[{"path":"messages.0.name","class":"dropped","severity":"advisory","detail":"x"}]')
    asked = keeps(peer, answer(b"\xff\x00body", headers=b"Content-Type: audio/mpeg\r\nX-Losses: " + losses + b"\r\n"))
    request = Request("chat_completions", "modél", b'{"n": 1.0, "x":"\xff"}', "multipart/form-data; boundary=b", 90.5)
    reply = await client.invoke("p", request, CREDENTIAL)
    assert asked[0].line == b"POST /extension/v1/p/invoke HTTP/1.1"
    assert asked[0].body == request.body
    headers = {name.lower(): value for name, value in asked[0].headers}
    assert b"accept" not in headers
    assert headers[b"x-surface"] == b"chat_completions"
    assert headers[b"x-model"] == "modél".encode()
    assert headers[b"x-timeout"] == b"90.5"
    assert headers[b"content-type"] == b"multipart/form-data; boundary=b"
    assert headers[b"x-credential-token"] == b"access-1"
    assert headers[b"x-credential-account-id"] == b"acc"
    assert headers[b"x-credential-token-type"] == b"Bearer"
    assert json.loads(base64.b64decode(headers[b"x-credential-metadata"])) == CREDENTIAL.metadata
    assert reply.body == b"\xff\x00body"
    assert reply.content_type == "audio/mpeg"
    assert reply.losses == (Loss(path="messages.0.name", change="dropped", severity="advisory", detail="x"),)


async def test_what_is_not_there_is_not_sent(peer: Peer, client: Client) -> None:
    """I.4, I.5, I.19"""
    asked = keeps(peer, answer())
    await client.invoke("p", Request("", "", b"", ""))
    names = {name.lower() for name, _ in asked[0].headers}
    assert {b"x-surface", b"x-model"} <= names
    assert asked[0].header(b"content-length") == b"0"
    assert not names & {
        b"content-type",
        b"x-timeout",
        b"x-credential-token",
        b"x-credential-token-type",
        b"x-credential-metadata",
        b"expect",
    }


@pytest.mark.parametrize(("timeout", "sent"), [(90.5, b"90.5"), (300, b"300"), (420.0, b"420"), (0, None), (-1, None), (None, None)])
async def test_a_timeout_is_sent_with_operations_alone(peer: Peer, client: Client, timeout: float | None, sent: bytes | None) -> None:
    """I.19"""
    asked = keeps(peer, answer(b"data: [DONE]\n\n"))
    for surface in ("chat_completions", "audio_speech"):
        request = Request(surface, "m", b"x", timeout=timeout)
        await client.invoke("p", request)
        async with await client.stream("p", request) as stream:
            assert [record async for record in stream] == [b"data: [DONE]\n\n"]
    assert [one.header(b"x-timeout") for one in asked] == [sent] * 4
    asked = keeps(peer, answer())
    await client.models("p")
    assert asked[-1].header(b"x-timeout") is None


async def test_models_takes_the_credential_and_nothing_of_an_operation(peer: Peer, client: Client) -> None:
    """I.11"""
    asked = keeps(peer, answer(b'{"models":[{"id":"m","object":"model"}]}'))
    found = await client.models("p", Credential(api_key="k"))
    assert [row.id for row in found.models] == ["m"]
    assert asked[0].line == b"GET /extension/v1/p/models HTTP/1.1"
    assert asked[0].header(b"x-credential-token") == b"k"
    assert asked[0].header(b"x-credential-token-type") == b"api_key"
    assert asked[0].header(b"x-model") is None
    assert asked[0].header(b"x-surface") is None


async def test_a_refresh_sends_the_whole_record_in_go_s_spelling(peer: Peer, client: Client) -> None:
    """I.12"""
    asked = keeps(peer, answer(b'{"record":{"accesstoken":"new","EXPIRY":"2026-11-29T12:00:00Z"}}'))
    record = Record(revision="7", access_token="a", refresh_token="r", expiry=datetime(2026, 1, 1, tzinfo=UTC), metadata={"k": "v"})
    fresh = await client.refresh("p", record)
    assert fresh == Record(access_token="new", expiry=datetime(2026, 11, 29, 12, tzinfo=UTC))
    assert asked[0].line == b"POST /extension/v1/p/refresh HTTP/1.1"
    assert asked[0].header(b"content-type") == asked[0].header(b"accept") == b"application/json"
    assert asked[0].header(b"x-credential-token") is None
    assert asked[0].body == (
        b'{"record":{"Revision":"7","AccessToken":"a","RefreshToken":"r","IDToken":"","TokenType":"",'
        b'"Expiry":"2026-01-01T00:00:00Z","AccountID":"","Metadata":{"k":"v"}}}'
    )


async def test_a_sign_in_goes_its_three_steps(peer: Peer, client: Client) -> None:
    """I.14"""
    begun = Authorization(user_code="AB", interval=timedelta(seconds=5), secrets=Secrets(device_code="device-1"))
    asked = keeps(peer, answer(encode(OAuthStartResponse(authorization=begun))))
    driver = client.driver("p")
    assert await driver.start(OAuthStartRequest(method="device", redirect_uri="http://l/cb", params={"a": "b"})) == begun
    assert asked[0].line == b"POST /extension/v1/p/oauth/start HTTP/1.1"
    assert asked[0].body == b'{"method":"device","redirect_uri":"http://l/cb","params":{"a":"b"}}'

    asked = keeps(peer, answer(b'{"result":{"Status":"approved","Record":{"AccessToken":"t"}}}'))
    polled = await driver.poll(Flow(secrets=begun.secrets))
    assert polled == PollResult(status="approved", record=Record(access_token="t"))
    sent = json.loads(asked[-1].body)
    assert sent["flow"]["Secrets"]["DeviceCode"] == "device-1"
    assert sent["flow"]["Progress"]["Interval"] == 0
    assert sent["flow"]["CreatedAt"] == "0001-01-01T00:00:00Z"

    asked = keeps(peer, answer(b'{"record":{"AccessToken":"t"}}'))
    assert await driver.exchange(Flow(secrets=Secrets(verifier="v")), "code-1") == Record(access_token="t")
    sent = json.loads(asked[-1].body)
    assert (sent["code"], sent["flow"]["Secrets"]["Verifier"]) == ("code-1", "v")


@pytest.mark.parametrize("status", ["pending", "slow_down", "approved", "denied", "expired", "curious"])
async def test_a_poll_s_status_is_no_error(peer: Peer, client: Client, status: str) -> None:
    """I.14"""
    keeps(peer, answer(b'{"result":{"Status":"%b"}}' % status.encode()))
    assert (await client.oauth_poll("p", Flow())).status == status


async def test_a_provider_serves_its_surfaces_only(peer: Peer, client: Client) -> None:
    """I.15"""
    asked = keeps(peer, answer(b"\xff\xfb\x00", headers=b"Content-Type: audio/mpeg\r\n"))
    speech = Provider(client, ProviderInfo(id="speech", surfaces=("audio_speech",)))
    reply = await speech.invoke(Request("audio_speech", "voice-1", b"hello", ""))
    assert (reply.body, reply.content_type) == (b"\xff\xfb\x00", "audio/mpeg")
    assert speech.surfaces == ("audio_speech",)
    for call in (speech.invoke(CHAT), speech.stream(CHAT)):
        with pytest.raises(SurfaceNotServed, match="chat_completions") as refusal:
            await call
        assert refusal.value.classification.disposition == "failover"
        assert not refusal.value.classification.circuit
    assert len(asked) == 1


async def test_a_provider_fills_in_what_its_catalogue_leaves_open(peer: Peer, client: Client) -> None:
    """I.18"""
    keeps(peer, answer(b'{"models":[{"id":"a"},{"id":"b","supported_apis":["/v1/rerank"]},{"id":"c","capabilities":{"tools":1}}]}'))
    found = await Provider(client, ProviderInfo(id="p", surfaces=("audio_speech",))).models()
    assert [row.supported_apis for row in found.models] == [("/v1/audio/speech",), ("/v1/rerank",)]
    assert len(found.dropped) == 1


async def test_one_client_asks_many_times_over_few_connections(peer: Peer, client: Client) -> None:
    asked = keeps(peer, answer(INFO))
    for _ in range(5):
        await client.info()
    assert len(asked) == 5
    assert len(peer.wires) == 1
