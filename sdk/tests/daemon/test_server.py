"""What a daemon answers, route by route."""

import base64
import json
from typing import Any

import pytest

from sdk.tests.daemon.conftest import Asking, Site, operation, pieces_of
from sdk.tests.daemon.fixtures_daemon import AUDIO, FRAMES, Fixtures
from trunkline_sdk.daemon.messages import Loss, ModelInfo, ProviderInfo
from trunkline_sdk.daemon.server import Backend, Call, Daemon, DaemonLimits, Failure, Reply, Stream, serving

RECORD = {
    "Revision": "",
    "AccessToken": "access-1",
    "RefreshToken": "refresh-1",
    "IDToken": "",
    "TokenType": "Bearer",
    "Expiry": "0001-01-01T00:00:00Z",
    "AccountID": "account-1",
    "Metadata": None,
}


@pytest.fixture
async def asking(site: Site) -> Asking:
    return await site.serve(Fixtures())


class Scripted(Backend):
    """A backend that does what its test says."""

    info = ProviderInfo(id="p", name="P", surfaces=("chat_completions", "audio_speech"), credential="none")

    def __init__(self, invoke: Any = None, stream: Any = None, models: Any = ()) -> None:
        self._invoke = invoke
        self._stream = stream
        self._models = models

    async def models(self, credential: Any) -> Any:
        return self._models

    async def invoke(self, call: Call) -> Reply:
        return self._invoke(call)

    async def stream(self, call: Call) -> Stream:
        return self._stream(call)


async def scripted(site: Site, **script: Any) -> Asking:
    return await site.serve(Daemon(Scripted(**script)))


# --------------------------------------------------------------------------------------------------------------- info
async def test_info_lists_the_providers_and_what_is_ours_is_added(asking: Asking) -> None:
    answer = await asking.ask("info")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json["version"] == "0.0.1-fixtures"
    chat, speech = answer.json["providers"]
    assert chat == {
        "id": "conf_chat",
        "name": "Chat",
        "surfaces": ["chat_completions", "responses"],
        "has_oauth": True,
        "has_refresh": True,
        "credential": "oauth",
        "oauth_methods": ["device", "manual"],
    }
    assert speech == {
        "id": "conf_speech",
        "name": "Speech",
        "surfaces": ["audio_speech"],
        "has_oauth": False,
        "has_refresh": False,
        "credential": "none",
    }
    assert answer.json["protocol"] == 1
    assert answer.json["limits"]["request_bytes"] == 64 * 1024 * 1024


@pytest.mark.parametrize(
    "route", ["", "info/", "conf_chat", "conf_chat/", "conf_chat/models/", "conf_chat/oauth", "health", "nobody/models", "info/models"]
)
async def test_nothing_else_is_there(asking: Asking, route: str) -> None:
    answer = await asking.ask(route)
    assert (answer.status, answer.json["error"]["code"]) == (404, 404)


@pytest.mark.parametrize(
    ("method", "route", "allowed"), [("POST", "info", "GET"), ("GET", "conf_chat/invoke", "POST"), ("DELETE", "conf_chat/models", "GET")]
)
async def test_each_route_takes_one_method(asking: Asking, method: str, route: str, allowed: str) -> None:
    answer = await asking.ask(route, method=method)
    assert (answer.status, answer.headers["allow"]) == (405, allowed)


async def test_a_request_id_is_given_back_and_one_that_cannot_be_is_replaced(asking: Asking) -> None:
    assert (await asking.ask("info", headers={"x-request-id": "r-1"})).headers["x-request-id"] == "r-1"
    made = (await asking.ask("info", headers={"x-request-id": "é" * 9})).headers["x-request-id"]
    assert len(made) == 24
    assert (await asking.ask("nobody/models", headers={"x-request-id": "r-2"})).headers["x-request-id"] == "r-2"


# ------------------------------------------------------------------------------------------------------------ models
async def test_each_row_says_what_it_serves(asking: Asking) -> None:
    rows = {row["id"]: row for row in (await asking.ask("conf_chat/models")).json["models"]}
    assert rows["silent"] == {
        "id": "silent",
        "object": "model",
        "created": 0,
        "owned_by": "",
        "supported_apis": ["/v1/chat/completions", "/v1/responses"],
    }
    assert rows["apis"]["supported_apis"] == ["/v1/responses"]
    assert "supported_apis" not in rows["typed"]
    assert rows["typed"]["capabilities"]["operations"]["chat"] == "supported"
    assert rows["legacy"]["legacy_capabilities"] == {"tts": True}
    assert (await asking.ask("conf_speech/models")).json["models"][0]["supported_apis"] == ["/v1/audio/speech"]


async def test_a_model_of_one_surface_says_so(site: Site) -> None:
    asking = await scripted(site, models=[serving(ModelInfo(id="voice"), "audio_speech"), ModelInfo(id="all")])
    rows = (await asking.ask("p/models")).json["models"]
    assert [row["supported_apis"] for row in rows] == [["/v1/audio/speech"], ["/v1/chat/completions", "/v1/audio/speech"]]
    with pytest.raises(ValueError, match="no surface `telepathy`"):
        serving(ModelInfo(id="x"), "telepathy")


async def test_a_row_that_no_client_could_read_is_left_out(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    bad: Any = ModelInfo(id="bad", created="yesterday")  # pyright: ignore[reportArgumentType]
    asking = await scripted(site, models=[bad, ModelInfo(id="good"), ModelInfo(id=" "), ModelInfo(id="good")])
    assert [row["id"] for row in (await asking.ask("p/models")).json["models"]] == ["good"]
    assert [f"row {number}" in caplog.text for number in range(4)] == [True, False, True, True]


# ------------------------------------------------------------------------------------------------------- invoke: I.4
async def test_invoke_gives_body_type_and_losses_back_as_they_are(asking: Asking) -> None:  # I.4
    body = b'{"model":"instance/echo","n":1.50,  "text":"\xc3\xa9"}'
    answer = await asking.ask("conf_chat/invoke", body, headers=operation("echo", content_type="application/json; charset=utf-8"))
    assert (answer.status, answer.body, answer.headers["content-type"]) == (200, body, "application/json; charset=utf-8")
    losses = json.loads(base64.b64decode(answer.headers["x-losses"]))
    assert losses == [{"path": "messages.0.name", "class": "dropped", "severity": "advisory", "detail": "not carried"}]


async def test_speech_bytes_and_type_are_kept(asking: Asking) -> None:  # I.15
    answer = await asking.ask("conf_speech/invoke", b"hello", headers={"x-surface": "audio_speech", "x-model": "voice-1"})
    assert (answer.body, answer.headers["content-type"]) == (AUDIO, "audio/mpeg")
    assert "x-losses" not in answer.headers  # I.17: none, no header


@pytest.mark.parametrize("timeout", ["90.5", "300", "420"])
@pytest.mark.parametrize("route", ["conf_chat/invoke", "conf_chat/stream"])
async def test_the_headers_arrive(asking: Asking, route: str, timeout: str) -> None:  # I.4, I.19
    metadata = base64.b64encode(json.dumps({"label": "a<b>&c ü", "project": "p-1"}).encode()).decode()
    answer = await asking.operate(
        "show-headers",
        route=route,
        x_timeout=timeout,
        x_credential_token="access-1",
        x_credential_account_id="kontö",
        x_credential_metadata=metadata,
    )
    seen = json.loads(answer.body.removeprefix(b"data: ").partition(b"\n\n")[0])
    assert (seen["x-timeout"], seen["x-model"], seen["x-credential-account-id"]) == (timeout, "show-headers", "kontö")
    assert seen["x-credential-metadata"] == metadata


@pytest.mark.parametrize(
    ("headers", "seen"),
    [
        ({}, None),
        ({"token": "k", "token-type": "api_key"}, ("", "k", "", "api_key", {})),
        ({"token": "t", "token-type": "custom"}, ("t", "", "", "custom", {})),
        ({"token": "t"}, ("t", "", "", "", {})),
        ({"token-type": "custom"}, ("", "", "", "custom", {})),
        ({"account-id": "ä"}, ("", "", "ä", "", {})),
        ({"token": "t", "metadata": "%%%"}, ("t", "", "", "", {})),
        ({"token": "t", "metadata": base64.b64encode(b"not json").decode()}, ("t", "", "", "", {})),
        ({"metadata": base64.b64encode(b"{}").decode()}, None),
        ({"metadata": base64.b64encode(b'{"a":"\\u003cb\\u003e\\u0026 \xc3\xbc"}').decode()}, ("", "", "", "", {"a": "<b>& ü"})),
    ],
)
async def test_the_credential_is_read_from_the_headers(site: Site, headers: dict[str, str], seen: Any) -> None:  # I.5
    calls: list[Call] = []
    asking = await scripted(site, invoke=lambda call: calls.append(call) or Reply(b"{}"))
    await asking.ask("p/invoke", b"{}", headers=operation("modél") | {f"x-credential-{name}": value for name, value in headers.items()})
    credential = calls[0].credential
    told = None
    if credential is not None:
        told = (credential.token, credential.api_key, credential.account_id, credential.token_type, credential.metadata)
    assert told == seen
    assert calls[0].model == "modél"
    assert "k" not in headers or "token='k'" not in repr(calls[0])


async def test_what_a_product_keeps_to_itself_does_not_go_upstream() -> None:
    body = b'{"model":"instance/x","_max_output_tokens":5,"_other":{"a":1},"n":1.50,"big":12345678901234567890123}'
    call = Call(surface="chat_completions", model="x", body=body, content_type="", credential=None, timeout=None, request_id="r")
    assert call.outgoing() == b'{"model":"x","n":1.50,"big":12345678901234567890123}'
    assert call.private() == {"_max_output_tokens": 5, "_other": {"a": 1}}
    for broken in (b"[]", b"\xff", b""):
        with pytest.raises(Failure, match="not a JSON object"):
            Call(surface="", model="x", body=broken, content_type="", credential=None, timeout=None, request_id="").outgoing()


async def test_many_losses_are_capped(site: Site) -> None:  # K18
    losses = [Loss(path=f"a.{number}", change="dropped", severity="material", detail="x" * 100) for number in range(500)]
    answer = await (await scripted(site, invoke=lambda _: Reply(b"{}", losses=losses))).ask("p/invoke", b"{}", headers=operation("m"))
    assert len(answer.headers["x-losses"]) <= 8192
    told = json.loads(base64.b64decode(answer.headers["x-losses"]))
    assert told[-1]["path"] == "**"


async def test_a_surface_that_the_provider_does_not_list_is_refused(asking: Asking) -> None:
    for surface in ("audio_speech", "telepathy", ""):
        answer = await asking.operate("echo", x_surface=surface)
        assert (answer.status, answer.json["error"]["type"]) == (400, "invalid_request")


# ------------------------------------------------------------------------------------------------------- stream: I.6
async def test_a_stream_is_the_records_that_have_data(asking: Asking) -> None:  # I.6
    answer = await asking.operate("echo", route="conf_chat/stream")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream")
    assert answer.body == b"".join(FRAMES)
    assert json.loads(base64.b64decode(answer.headers["x-losses"]))[0]["path"] == "messages.0.name"


async def test_a_stream_cut_anywhere_is_the_same(site: Site) -> None:  # I.6
    def stream(call: Call) -> Stream:
        return Stream(pieces_of(*(bytes([byte]) for byte in call.body)))

    asking = await scripted(site, stream=stream)
    vector = b'data: {"n":1}\r\n\r\n: x\n\ndata: a\ndata: b\n\ndata: rest'
    answer = await asking.ask("p/stream", vector, headers=operation("m"))
    assert answer.body == b'data: {"n":1}\r\n\r\ndata: a\ndata: b\n\ndata: rest\n\n'


async def test_an_empty_stream_is_a_whole_one(site: Site) -> None:  # I.6
    asking = await scripted(site, stream=lambda _: Stream(pieces_of()))
    assert (await asking.ask("p/stream", b"{}", headers=operation("m"))).body == b""


# ------------------------------------------------------------------------------------------------------- errors: I.8
@pytest.mark.parametrize("route", ["conf_chat/invoke", "conf_chat/stream"])
@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 408, 409, 422, 429, 500, 502, 503, 504, 529])
async def test_an_upstreams_status_is_passed_on(asking: Asking, route: str, status: int) -> None:  # I.8
    answer = await asking.operate(f"status-{status}", route=route)
    assert (answer.status, answer.headers["retry-after"]) == (status, "7")
    error = answer.json["error"]
    assert (error["message"], error["code"], error["retryable"]) == ("asked for", status, status in {408, 429} or status >= 500)
    assert "www-authenticate" not in answer.headers  # K1: not our own 401


async def test_an_error_that_nobody_foresaw_tells_nothing(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    def fails(call: Call) -> Reply:
        raise RuntimeError(call.body.decode())

    answer = await (await scripted(site, invoke=fails)).ask("p/invoke", b"canary", headers=operation("m"))
    assert (answer.status, answer.error) == (500, "the daemon failed")
    assert "RuntimeError" in caplog.text
    assert "canary" not in caplog.text


async def test_a_reason_is_one_short_line_without_secrets(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    canary = 'canary/"ü token'

    def fails(call: Call) -> Reply:
        raise Failure(401, f"bad  {canary}\n and canary%2F%22%C3%BC%20token and top-secret-2 and meta-canary" + "x" * 900)

    asking = await site.serve(Daemon(Scripted(invoke=fails), secret=["top-secret-1", "top-secret-2"]), secret="top-secret-1")
    metadata = base64.b64encode(b'{"client_secret":"meta-canary"}').decode()
    answer = await asking.ask("p/invoke", b"{}", headers=operation("m", x_credential_token=canary, x_credential_metadata=metadata))
    assert answer.error.startswith("bad *** and *** and *** and ***xxx")
    assert len(answer.error) == 512 + 3
    assert "canary" not in caplog.text
    assert "secret" not in caplog.text
    assert "route=invoke provider=p status=401 outcome=unauthorized" in caplog.text


@pytest.mark.parametrize("status", [200, 299, 600, 101])
def test_a_failure_has_a_status_that_is_one(status: int) -> None:
    with pytest.raises(ValueError, match="300 to 599"):
        Failure(status, "x")


# -------------------------------------------------------------------------------------------------------- sizes: 413
async def test_a_body_over_its_limit_is_refused_and_one_at_it_is_not(site: Site) -> None:
    asking = await site.serve(Fixtures(limits=DaemonLimits(operation_bytes=10, control_bytes=20)))
    assert (await asking.operate("echo", body=b"x" * 10)).status == 200
    for route in ("conf_chat/invoke", "conf_chat/stream"):
        answer = await asking.operate("echo", route=route, body=b"x" * 11)
        assert (answer.status, answer.json["error"]["type"]) == (413, "too_large")
    assert (await asking.ask("conf_chat/refresh", b"x" * 21)).status == 413
    assert (await asking.ask("conf_chat/refresh", b"x" * 20)).status == 400


async def test_large_credentials_pass_and_endless_headers_do_not(asking: Asking) -> None:  # K13
    assert (await asking.operate("echo", x_credential_token="t" * 65_536)).status == 200
    answer = await asking.operate("echo", x_credential_token="t" * 98_304)
    assert (answer.status, answer.json["error"]["code"]) == (431, 431)


async def test_a_coded_body_is_refused(asking: Asking) -> None:
    assert (await asking.operate("echo", content_encoding="gzip")).status == 415


# ----------------------------------------------------------------------------------------------------- refresh: I.12
async def test_a_refresh_gives_a_new_record(asking: Asking) -> None:  # I.12
    answer = await asking.ask("conf_chat/refresh", {"record": RECORD})
    record = answer.json["record"]
    assert (answer.status, record["AccessToken"], record["RefreshToken"]) == (200, "access-2", "refresh-2")
    assert set(record) == set(RECORD)
    assert "terminal" not in answer.json


@pytest.mark.parametrize(
    ("token", "status", "body"),
    [
        ("dead", 400, {"terminal": True, "error": "invalid_grant"}),
        ("unknown-1", 400, {"error": "the refresh token was refused"}),
        ("busy", 503, {"error": "try later"}),
        ("", 400, {"error": "the record has no refresh token"}),
    ],
)
async def test_a_refusal_is_terminal_only_for_a_void_token(asking: Asking, token: str, status: int, body: Any) -> None:  # I.12
    answer = await asking.ask("conf_chat/refresh", {"record": RECORD | {"RefreshToken": token}})
    assert (answer.status, answer.json) == (status, body)


async def test_keys_are_read_in_any_case(asking: Asking) -> None:  # I.12
    assert (await asking.ask("conf_chat/refresh", {"RECORD": {"refreshtoken": "refresh-1"}})).status == 200


async def test_a_provider_without_refresh_says_so(asking: Asking) -> None:
    answer = await asking.ask("conf_speech/refresh", {"record": RECORD})
    assert (answer.status, answer.json) == (400, {"error": "this provider's credentials are not refreshed"})


@pytest.mark.parametrize("body", [b"not json", b'{"record":{"Expiry":""}}', b'{"record":{"Expiry":5}}', b'{"record":[]}', b"{} x"])
async def test_a_request_that_cannot_be_read_is_refused(asking: Asking, body: bytes) -> None:
    answer = await asking.ask("conf_chat/refresh", body)
    assert answer.status == 400
    assert isinstance(answer.json["error"], str)


# ------------------------------------------------------------------------------------------------------- oauth: I.14
async def test_a_device_sign_in(asking: Asking) -> None:  # I.14
    begun = (await asking.ask("conf_chat/oauth/start", {"method": "device", "params": {"client_id": "c"}})).json["authorization"]
    assert (begun["UserCode"], begun["Interval"], begun["ExpiresIn"]) == ("ABCD-1234", 5_000_000_000, 600_000_000_000)
    assert begun["Secrets"]["DeviceCode"] == "device-1"
    polled = (await asking.ask("conf_chat/oauth/poll", {"flow": {"Secrets": begun["Secrets"]}})).json["result"]
    assert (polled["Status"], polled["Record"]["AccessToken"]) == ("approved", "access-for-device-1")


@pytest.mark.parametrize("status", ["pending", "slow_down", "denied", "expired"])
async def test_a_device_sign_in_in_each_status(asking: Asking, status: str) -> None:  # I.14
    begun = (await asking.ask("conf_chat/oauth/start", {"method": "device", "params": {"outcome": status}})).json["authorization"]
    answer = await asking.ask("conf_chat/oauth/poll", {"flow": {"Secrets": begun["Secrets"]}})
    assert (answer.status, answer.json["result"]["Status"], answer.json["result"]["Record"]["AccessToken"]) == (200, status, "")


async def test_a_manual_sign_in(asking: Asking) -> None:  # I.14
    begun = (await asking.ask("conf_chat/oauth/start", {"method": "manual"})).json["authorization"]
    assert (begun["Secrets"]["State"], begun["Secrets"]["RedirectURI"]) == ("state-1", "http://localhost:1455/cb")
    answer = await asking.ask("conf_chat/oauth/exchange", {"code": "code-1", "flow": {"Secrets": begun["Secrets"]}})
    assert answer.json["record"]["AccessToken"] == "access-1"
    assert (await asking.ask("conf_chat/oauth/exchange", {"code": "code-1", "flow": {}})).status == 200  # gateway sends none


@pytest.mark.parametrize(
    ("step", "body", "status", "error"),
    [
        ("start", {"method": "browser"}, 400, "this provider has no sign-in by the method `browser`"),
        ("start", {}, 400, "this provider has no sign-in by the method ``"),
        ("exchange", {"code": "wrong-code"}, 400, "the code was refused"),
        ("exchange", {"code": " "}, 400, "there is no code"),
        ("exchange", {"code": "broken-code"}, 500, "the provider is out of order"),
    ],
)
async def test_what_a_sign_in_refuses(asking: Asking, step: str, body: Any, status: int, error: str) -> None:  # I.14
    answer = await asking.ask(f"conf_chat/oauth/{step}", body)
    assert (answer.status, answer.json) == (status, {"error": error})


@pytest.mark.parametrize("step", ["start", "poll", "exchange"])
async def test_a_provider_without_sign_in_says_so(asking: Asking, step: str) -> None:
    answer = await asking.ask(f"conf_speech/oauth/{step}", {"method": "device", "code": "c"})
    assert answer.status == 400
    assert "no " in answer.json["error"]
