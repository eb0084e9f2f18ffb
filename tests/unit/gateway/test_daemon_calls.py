"""One attempt at a provider behind a daemon: what goes out, what an answer means, and when a sign-in is renewed."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pytest

from tests.fakes.daemon_calls import Answered, Daemon, Tokens, says
from trunkline.base.secret import Secret
from trunkline.dialects import Dialect
from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as CHAT
from trunkline.dialects.openai_embeddings import DIALECT as EMBEDDINGS
from trunkline.dialects.openai_responses import DIALECT as RESPONSES
from trunkline.dialects.openai_speech import DIALECT as SPEECH
from trunkline.errors import (
    BadRequest,
    ConfigInvalid,
    DaemonRefused,
    EgressDenied,
    LossRefused,
    NoCredential,
    SignInNeeded,
    TrunklineError,
    UpstreamBusy,
    UpstreamDenied,
    UpstreamDown,
    UpstreamError,
    UpstreamGarbled,
    UpstreamRefused,
    UpstreamTimeout,
)
from trunkline.gateway.asked import Asked
from trunkline.gateway.daemon_calls import KEEP_ALIVE, DaemonCalls
from trunkline.gateway.losses import LossRule
from trunkline.gateway.router import Stop
from trunkline.gateway.upstream import Opened
from trunkline.model.credential import Credential
from trunkline.model.loss import Loss
from trunkline.model.request import Operation
from trunkline.model.target import Target
from trunkline.providers import Provider, Served, Timeouts
from trunkline.providers.daemon import PROVIDER, DaemonSettings
from trunkline_sdk import http1
from trunkline_sdk.daemon.client import OURS, Client, Options
from trunkline_sdk.daemon.protocol.headers import CHALLENGE

Policy = Literal["report", "contract"]
SURFACES: dict[Dialect, str] = {
    CHAT: "chat_completions",
    RESPONSES: "responses",
    ANTHROPIC: "messages",
    EMBEDDINGS: "embeddings",
    SPEECH: "audio_speech",
}
SECRET = "canary-daemon-secret"
TOKEN = "canary-token-0123"
DENIED = says(401, b'{"error":{"message":"expired"}}')


def stop(*, model: str = "m", policy: Policy = "report", rules: Sequence[LossRule] = (), dialect: Dialect = CHAT) -> Stop:
    settings = DaemonSettings(kind="daemon", loss_policy=policy, timeouts=Timeouts(connect=1, first_byte=90.5, silence=3))
    served = Served(daemon="x", id="inner", surfaces=tuple(SURFACES.values()), credential="oauth")
    provider = Provider(name="x/inner", kind=PROVIDER, settings=settings, base_url="http://daemon.test", api_key=None, served=served)
    wire = next(wire for wire in PROVIDER.speaks if wire.dialect == dialect)
    return Stop(Target("x/inner", model), provider, wire, rules)


def asks(dialect: Dialect = CHAT, *, stream: bool = False, strict: bool = False, **more: Any) -> Asked:
    content = "messages" if dialect in {CHAT, ANTHROPIC} else "input"
    body: dict[str, Any] = {"model": "alias", content: [{"role": "user", "content": "hi"}] if content == "messages" else "hi"}
    limit = {"max_tokens": 5} if dialect == ANTHROPIC else {}
    stream_fields = {"stream": True} if stream else {}
    operation: Operation = "embeddings" if dialect == EMBEDDINGS else "speech" if dialect == SPEECH else "chat"
    return Asked(dialect.read_request(json.dumps({**body, **limit, **stream_fields, **more}).encode(), operation), dialect, strict=strict)


def signed_in(secret: str = TOKEN, token_type: str = "Bearer", metadata: Mapping[str, str] | None = None) -> Credential:
    return Credential(id="con_a", weight=1, secret=Secret(secret), token_type=token_type, key="k", account="acc", metadata=metadata or {})


@dataclass
class World:
    """Calls to a daemon that answers as the test says."""

    daemon: Daemon
    tokens: Tokens = field(default_factory=Tokens)

    async def open(
        self,
        where: Stop | None = None,
        asked: Asked | None = None,
        *sent: Credential,
        headers: Sequence[tuple[bytes, bytes]] = (),
        missing: NoCredential | None = None,
    ) -> Opened:
        options = Options(fixes=replace(OURS, cut_streams_fail=False))  # as the gateway makes its clients
        client = Client("http://daemon.test", secret=SECRET, transport=self.daemon, options=options)
        calls = DaemonCalls(lambda name: (client, name.partition("/")[2]), self.tokens)
        return await calls.open(where or stop(), asked or asks(), headers, sent, missing)

    async def fails(self, kind: type[TrunklineError], *sent: Credential, where: Stop | None = None, asked: Asked | None = None) -> Any:
        with pytest.raises(kind) as caught:
            await self.open(where, asked, *sent)
        assert type(caught.value) is kind
        assert "daemon.test" not in f"{caught.value!r} {caught.value.sentence}"
        return caught.value


def world(*answers: Answered | Exception, **more: Any) -> World:
    return World(Daemon(*answers), **more)


# ------------------------------------------------------------------------------------------------------------ what goes out
@pytest.mark.proves("daemon.calls")
async def test_a_call_goes_to_its_provider_and_surface_with_its_body_the_deadline_and_the_secret() -> None:
    here = world(says(200, b'{"a":1}', headers=[(b"Content-Type", b"application/json; v=2")]))
    opened = await here.open()
    [asked] = here.daemon.asked
    assert asked.url == "http://daemon.test/extension/v1/inner/invoke"
    assert asked.body == opened.written.body == asks().request.body.replace(b'"alias"', b'"m"')
    assert asked.headers == {
        "authorization": f"Bearer {SECRET}",
        "x-surface": "chat_completions",
        "x-model": "m",
        "x-timeout": "90.5",
        "content-type": "application/json",
    }
    assert asked.timeouts.first_byte > 90.5  # so that the daemon's own error comes first
    assert opened.answer.headers == [(b"content-type", b"application/json; v=2")]
    assert (opened.passes, await opened.answer.read()) == (True, b'{"a":1}')


@pytest.mark.proves("daemon.calls")
@pytest.mark.parametrize("dialect", [CHAT, RESPONSES, ANTHROPIC])
async def test_a_stream_goes_by_the_stream_route_of_the_callers_own_surface(dialect: Dialect) -> None:
    here = world(says(200, b"data: 1\n\n"))
    opened = await here.open(stop(dialect=dialect), asks(dialect, stream=True))
    [asked] = here.daemon.asked
    assert asked.url.endswith("/inner/stream")
    assert (asked.headers["x-surface"], asked.headers["accept"]) == (SURFACES[dialect], "text/event-stream")
    assert opened.answer.headers == [(b"content-type", b"text/event-stream")]
    assert await opened.answer.read() == b"data: 1\n\n"


@pytest.mark.proves("daemon.calls")
async def test_another_dialect_is_translated_on_the_way() -> None:
    here = world(says(200, b"{}"))
    opened = await here.open(stop(dialect=CHAT), asks(ANTHROPIC))
    assert json.loads(here.daemon.asked[0].body) == {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}
    assert not opened.passes


@pytest.mark.proves("daemon.calls")
@pytest.mark.parametrize(("token_type", "shown"), [("Bearer", "Bearer"), ("", None), ("api_key", "api_key")])
async def test_a_credential_goes_along_in_the_protocols_headers(token_type: str, shown: str | None) -> None:
    here = world(says(200, b"{}"))
    await here.open(None, None, signed_in(token_type=token_type, metadata={"oauth_client_secret": "canary-client"}))
    headers = here.daemon.asked[0].headers
    assert (headers["x-credential-token"], headers.get("x-credential-token-type"), headers["x-credential-account-id"]) == (
        TOKEN,
        shown,
        "acc",
    )
    assert json.loads(base64.b64decode(headers["x-credential-metadata"])) == {"oauth_client_secret": "canary-client"}


@pytest.mark.proves("daemon.headers")
async def test_nothing_of_the_callers_headers_reaches_a_daemon_and_what_would_have_is_told() -> None:
    here = world(says(200, b"{}"))
    names = [
        b"authorization",
        b"x-surface",
        b"x-model",
        b"x-timeout",
        b"x-credential-token",
        b"x-credential-metadata",
        b"x-trunkline-strict",
    ]
    theirs = [*((name, b"theirs") for name in names), (b"anthropic-beta", b"new"), (b"anthropic-version", b"2023-06-01")]
    opened = await here.open(stop(dialect=ANTHROPIC), asks(ANTHROPIC), headers=theirs)
    assert "theirs" not in here.daemon.asked[0].headers.values()
    assert not {"x-credential-token", "anthropic-beta"} & here.daemon.asked[0].headers.keys()
    assert [(loss.path, loss.severity) for loss in opened.written.losses] == [("headers.anthropic-beta", "advisory")]


async def test_a_model_that_no_header_can_hold_is_the_callers_fault_and_nothing_is_sent() -> None:
    here = world(says(200, b"{}"))
    await here.fails(BadRequest, where=stop(model="a\r\nx-timeout: 1"))
    assert here.daemon.asked == []


async def test_a_credential_that_no_header_can_hold_is_not_sent_and_not_told() -> None:
    here = world(says(200, b"{}"))
    error = await here.fails(NoCredential, signed_in("canary\r\nx: y"))
    assert "canary" not in error.sentence
    assert here.daemon.asked == []


async def test_what_is_missing_is_told_and_nothing_is_sent() -> None:
    here = world(says(200, b"{}"))
    with pytest.raises(SignInNeeded):
        await here.open(missing=SignInNeeded("sign in"))
    assert here.daemon.asked == []


# ---------------------------------------------------------------------------------------------------------------- answers
@pytest.mark.proves("daemon.errors")
@pytest.mark.parametrize(
    ("status", "kind", "http_status"),
    [
        (400, UpstreamRefused, 400),
        (401, UpstreamDenied, 502),
        (402, UpstreamDenied, 502),
        (403, UpstreamDenied, 502),
        (404, UpstreamRefused, 404),
        (408, UpstreamTimeout, 504),
        (413, UpstreamRefused, 413),
        (422, UpstreamRefused, 422),
        (429, UpstreamBusy, 429),
        (500, UpstreamDown, 502),
        (502, UpstreamDown, 502),
        (503, UpstreamBusy, 503),
        (504, UpstreamTimeout, 504),
        (529, UpstreamBusy, 529),
        (301, EgressDenied, 503),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_status_means_what_it_means_from_any_provider(
    status: int, kind: type[TrunklineError], http_status: int, *, stream: bool
) -> None:
    body = json.dumps({"error": {"message": f"so it is, {TOKEN}", "code": status}}).encode()
    here = world(says(status, body, headers=[(b"Retry-After", b"7")]))
    error = await here.fails(kind, signed_in(token_type="api_key"), asked=asks(stream=stream))
    assert error.http_status == http_status
    assert error.retry_after == (7.0 if kind is UpstreamBusy else None)
    if isinstance(error, UpstreamError):
        assert error.upstream_status == status
        assert ("so it is" in error.message) == (kind is not UpstreamDenied)
        assert error.body == b""  # in the shape of the protocol, which no caller reads
    assert TOKEN not in error.sentence


@pytest.mark.proves("daemon.errors")
async def test_a_daemon_that_refuses_its_secret_is_the_operators_affair_and_no_sign_in_is_renewed() -> None:
    here = world(says(401, b'{"error":"unauthorized"}', headers=[(b"WWW-Authenticate", CHALLENGE)]))
    error = await here.fails(DaemonRefused, signed_in())
    assert error.fault == "operator"
    assert "`x/inner`" in error.message
    assert (len(here.daemon.asked), here.tokens.asked) == (1, [("fresh", TOKEN)])


@pytest.mark.proves("daemon.errors")
@pytest.mark.parametrize(
    ("failure", "kind", "says_so"),
    [
        (http1.ConnectFailed("refused", host="daemon.test"), UpstreamDown, "cannot be reached"),
        (http1.ConnectionLost("gone", host="daemon.test"), UpstreamDown, "cannot be reached"),
        (http1.ConnectTimeout("daemon.test", "a connection", 1), UpstreamTimeout, "waited 1 s for a connection"),
        (http1.FirstByteTimeout("daemon.test", "the first byte of the answer", 90), UpstreamTimeout, "waited 90 s for the first byte"),
        (EgressDenied("not there"), EgressDenied, "not there"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_daemon_that_does_not_answer_is_a_provider_that_does_not(
    failure: Exception, kind: type[TrunklineError], says_so: str, *, stream: bool
) -> None:
    assert says_so in (await world(failure).fails(kind, asked=asks(stream=stream))).message


@pytest.mark.proves("daemon.errors")
@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (http1.BodyCut("cut", host="daemon.test"), UpstreamDown),
        (http1.SilenceTimeout("daemon.test", "more of the body", 3), UpstreamTimeout),
        (b"data: " + b"x" * (4 << 20) + b"\n\n", UpstreamGarbled),
    ],
)
async def test_a_stream_that_fails_gives_what_came_whole_before(failure: Exception | bytes, kind: type[UpstreamError]) -> None:
    opened = await world(says(200, b"data: 1\n\ndata: 2\n\n", failure)).open(None, asks(stream=True))
    assert await opened.answer.__anext__() == b"data: 1\n\ndata: 2\n\n"
    for _ in range(2):
        with pytest.raises(kind) as caught:
            await opened.answer.__anext__()
        assert "daemon.test" not in caught.value.sentence


@pytest.mark.proves("daemon.errors")
@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (http1.BodyCut("cut", host="daemon.test"), UpstreamDown),
        (http1.SilenceTimeout("daemon.test", "more of the body", 3), UpstreamTimeout),
    ],
)
async def test_a_whole_answer_that_fails_is_none(failure: Exception, kind: type[UpstreamError]) -> None:
    opened = await world(says(200, b'{"half', failure)).open()
    with pytest.raises(kind) as caught:
        await opened.answer.read()
    assert "daemon.test" not in caught.value.sentence


@pytest.mark.proves("stream.keep-alive")
async def test_a_daemons_signs_of_life_come_as_comments_and_never_inside_a_record() -> None:
    opened = await world(says(200, b": hb\n\n", b"data: ", b"1\n\n", b": hb\n\n")).open(None, asks(stream=True))
    pieces = [await opened.answer.__anext__() for _ in range(3)]
    assert pieces == [KEEP_ALIVE, b"data: 1\n\n", KEEP_ALIVE]
    with pytest.raises(StopAsyncIteration):
        await opened.answer.__anext__()


@pytest.mark.proves("daemon.calls")
async def test_leaving_an_answer_drops_its_connection() -> None:
    for stream in (False, True):
        answer = says(200, b"data: 1\n\n", b"data: 2\n\n")
        opened = await world(answer).open(None, asks(stream=stream))
        await opened.answer.aclose()
        assert answer.body.closed


@pytest.mark.proves("daemon.speech")
async def test_speech_comes_as_it_arrives_with_its_own_type() -> None:
    where = stop(dialect=SPEECH)
    here = world(says(200, b"\xff\xfb", b"\x00\x01", headers=[(b"Content-Type", b"audio/mpeg")]))
    opened = await here.open(where, asks(SPEECH))
    assert here.daemon.asked[0].headers["x-surface"] == "audio_speech"
    assert opened.answer.headers == [(b"content-type", b"audio/mpeg")]
    assert [await opened.answer.__anext__(), await opened.answer.read()] == [b"\xff\xfb", b"\x00\x01"]
    with pytest.raises(UpstreamGarbled, match="something else"):
        await here.open(where, asks(SPEECH, stream_format="sse"))


# --------------------------------------------------------------------------------------------------------------- sign-ins
@pytest.mark.proves("daemon.renewal")
async def test_a_sign_in_that_is_over_is_renewed_before_it_is_sent() -> None:
    here = world(says(200, b"{}"), tokens=Tokens(stale=[TOKEN]))
    opened = await here.open(None, None, signed_in())
    assert [each.headers["x-credential-token"] for each in here.daemon.asked] == [f"{TOKEN}#1"]
    assert {TOKEN, f"{TOKEN}#1"} <= set(opened.secrets)


@pytest.mark.proves("daemon.renewal")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_sign_in_that_the_provider_refuses_is_renewed_once_and_the_call_is_sent_once_more(*, stream: bool) -> None:
    here = world(DENIED, says(200, b"data: 1\n\n"))
    opened = await here.open(None, asks(stream=stream), signed_in())
    assert [each.headers["x-credential-token"] for each in here.daemon.asked] == [TOKEN, f"{TOKEN}#1"]
    assert here.daemon.asked[0].body == here.daemon.asked[1].body
    assert here.tokens.asked == [("fresh", TOKEN), ("rejected", TOKEN)]
    assert {TOKEN, f"{TOKEN}#1"} <= set(opened.secrets)


@pytest.mark.proves("daemon.renewal")
async def test_a_second_refusal_is_returned_and_said_to_the_newer_sign_in() -> None:
    here = world(DENIED)
    error = await here.fails(UpstreamDenied, signed_in())
    assert len(here.daemon.asked) == 2
    assert error.upstream_status == 401
    assert "trunkline connect x/inner" in error.hint
    assert error.said_to.secret.reveal() == f"{TOKEN}#1"


@pytest.mark.proves("daemon.renewal")
@pytest.mark.parametrize(
    "credential",
    [signed_in(token_type="api_key"), Credential(id="cred_a", weight=1, secret=Secret(TOKEN)), None],
    ids=["a key that somebody connected", "a stored key", "none"],
)
async def test_a_key_is_never_renewed_and_never_sent_twice(credential: Credential | None) -> None:
    here = world(DENIED)
    error = await here.fails(UpstreamDenied, *([credential] if credential else []))
    assert len(here.daemon.asked) == 1
    assert "rejected" not in dict(here.tokens.asked)
    assert error.said_to is None


@pytest.mark.proves("daemon.renewal")
@pytest.mark.parametrize("status", [400, 402, 403, 429, 500])
async def test_nothing_but_401_renews_a_sign_in(status: int) -> None:
    here = world(says(status))
    with pytest.raises(UpstreamError):
        await here.open(None, None, signed_in())
    assert (len(here.daemon.asked), here.tokens.asked) == (1, [("fresh", TOKEN)])


@pytest.mark.proves("daemon.renewal")
@pytest.mark.parametrize("fails", [SignInNeeded("sign in again"), UpstreamDown("not now")])
async def test_what_a_renewal_comes_to_is_what_the_call_comes_to(fails: TrunklineError) -> None:
    here = world(DENIED, tokens=Tokens(fails=fails))
    with pytest.raises(type(fails)) as caught:
        await here.open(None, None, signed_in())
    assert caught.value is fails
    assert len(here.daemon.asked) == 1


# ----------------------------------------------------------------------------------------------------------------- losses
def told(*losses: dict[str, str]) -> list[tuple[bytes, bytes]]:
    rows = [{"class": "dropped", "severity": "material", "detail": "", **each} for each in losses]
    return [(b"X-Losses", base64.b64encode(json.dumps(rows).encode()))]


MATERIAL = {"path": "messages.0.name"}
ADVISORY = {"path": "seed", "severity": "advisory"}
ALLOW = LossRule(action="allow", path="messages.**")
REJECT = LossRule(action="reject", path="seed")


@pytest.mark.proves("daemon.losses")
@pytest.mark.parametrize("stream", [False, True])
async def test_what_a_daemon_loses_is_told_beside_what_was_lost_on_the_way_there(*, stream: bool) -> None:
    here = world(says(200, b"data: 1\n\n", headers=told(ADVISORY, MATERIAL)))
    opened = await here.open(stop(), asks(ANTHROPIC, stream=stream, metadata={"user_id": "u"}, top_k=3))
    paths = [loss.path for loss in opened.written.losses]
    assert {"messages.0.name", "seed", "top_k"} <= set(paths)
    assert paths == sorted(paths)


@pytest.mark.proves("daemon.losses")
@pytest.mark.parametrize(
    ("losses", "policy", "rules", "strict", "refused", "refused_in_streams"),
    [
        ([MATERIAL], "report", [], False, False, False),
        ([MATERIAL], "contract", [], False, True, False),
        ([ADVISORY], "contract", [], False, False, False),
        ([ADVISORY | {"severity": "odd"}], "contract", [], False, True, False),
        ([ADVISORY | {"severity": ""}], "contract", [], False, True, False),
        ([ADVISORY | {"class": "odd"}], "contract", [], False, False, False),
        ([MATERIAL], "contract", [ALLOW], False, False, False),
        ([MATERIAL | {"severity": "odd"}], "contract", [LossRule(action="allow", severity="material")], False, True, False),
        ([ADVISORY], "contract", [REJECT], False, True, False),
        ([ADVISORY], "report", [REJECT], False, True, False),
        ([ADVISORY], "contract", [LossRule(action="allow", path="*"), REJECT], False, False, False),
        ([MATERIAL], "report", [], True, True, True),
        ([MATERIAL], "contract", [ALLOW], True, True, True),
        ([ADVISORY], "report", [], True, False, False),
        ([], "contract", [], True, False, False),
    ],
)
async def test_losses_are_judged_by_the_first_rule_that_fits_and_those_of_a_stream_are_only_reported(
    losses: list[dict[str, str]], policy: Policy, rules: list[LossRule], *, strict: bool, refused: bool, refused_in_streams: bool
) -> None:
    for stream, expected in ((False, refused), (True, refused_in_streams)):
        answer = says(200, b"data: 1\n\n", headers=told(*losses))
        here, where = world(answer), stop(policy=policy, rules=rules)
        if expected:
            with pytest.raises(LossRefused) as caught:
                await here.open(where, asks(stream=stream, strict=strict))
            assert losses[0]["path"] in caught.value.message
            assert answer.body.closed
        else:
            assert len((await here.open(where, asks(stream=stream, strict=strict))).written.losses) == len(losses)
        assert len(here.daemon.asked) == 1


@pytest.mark.proves("daemon.losses")
async def test_what_the_translation_loses_is_judged_before_a_daemon_is_asked() -> None:
    here, loses = world(says(200, b"{}")), asks(ANTHROPIC, top_k=3)
    await here.open(stop(policy="report"), loses)
    await here.fails(LossRefused, where=stop(policy="contract"), asked=loses)
    assert len(here.daemon.asked) == 1


@pytest.mark.proves("daemon.losses")
async def test_words_that_nobody_knows_are_told_as_the_gravest() -> None:
    here = world(says(200, b"{}", headers=told({"path": "a\nb" + "c" * 300, "class": "odd", "severity": "", "detail": "so\tit is"})))
    [loss] = (await here.open()).written.losses
    assert loss == Loss("a b" + "c" * 253 + "…", "material", "unsupported", "so it is (told as `odd`, ``)")


@pytest.mark.proves("daemon.losses")
async def test_of_very_many_losses_some_are_told_and_how_many_are_not() -> None:
    here = world(says(200, b"{}", headers=told(*({"path": f"messages.{number:03}"} for number in range(150)))))
    losses = (await here.open()).written.losses
    assert len(losses) == 101
    assert losses[0] == Loss("**", "advisory", "dropped", "50 more")


async def test_a_provider_whose_id_cannot_be_asked_is_the_operators_affair() -> None:
    client = Client("http://daemon.test", transport=Daemon(says(200)))
    calls = DaemonCalls(lambda _: (client, "a/b"), Tokens())
    with pytest.raises(ConfigInvalid):
        await calls.open(stop(), asks(), [], [], None)
