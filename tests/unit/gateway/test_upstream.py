import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from tests.fakes.clock import FakeClock
from tests.fakes.daemon_calls import NO_DAEMONS
from tests.fakes.scripted import Answer, Pause
from trunkline.base.secret import Secret
from trunkline.dialects import Dialect
from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.dialects.openai_responses import DIALECT as OPENAI_RESPONSES
from trunkline.errors import (
    BadRequest,
    ConfigInvalid,
    EgressDenied,
    LaunchFailed,
    LossRefused,
    NoCredential,
    TrunklineError,
    UpstreamBusy,
    UpstreamDenied,
    UpstreamDown,
    UpstreamError,
    UpstreamGarbled,
    UpstreamRefused,
    UpstreamTimeout,
)
from trunkline.gateway import upstream as upstream_module
from trunkline.gateway.asked import Asked
from trunkline.gateway.router import Stop
from trunkline.gateway.upstream import ERROR_BODY, Address, Opened, Upstream
from trunkline.gateway.upstream import Answer as FollowUpAnswer
from trunkline.model.credential import Credential
from trunkline.model.event import Event, Fold, TextDelta
from trunkline.model.part import Text
from trunkline.model.request import Operation
from trunkline.model.target import Target
from trunkline.model.tokens import approximate
from trunkline.providers import Kind, Provider, Settings, Timeouts
from trunkline.providers.anthropic import PROVIDER as ANTHROPIC_KIND
from trunkline.providers.compatible import PROVIDER as COMPATIBLE_KIND
from trunkline.providers.echo import PROVIDER as ECHO_KIND
from trunkline.providers.openai import PROVIDER as OPENAI_KIND
from trunkline_sdk import http1, sse

KEY = "sk-canary-0123456789"
JSON = [(b"content-type", b"application/json")]
EVENTS = [(b"content-type", b"text/event-stream; charset=utf-8")]


@dataclass
class Response:
    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: Answer


@dataclass
class Http:
    """What goes out, and what comes back."""

    response: Response | Exception
    method: str = ""
    url: str = ""
    headers: Sequence[tuple[bytes, bytes]] = ()
    body: bytes = b""
    timeouts: http1.Timeouts = field(default_factory=http1.Timeouts)

    async def request(
        self, method: str, url: str, headers: Sequence[tuple[bytes, bytes]], body: bytes, *, timeouts: http1.Timeouts, max_body: int
    ) -> Response:
        self.method = method
        self.url, self.headers, self.body, self.timeouts = url, headers, body, timeouts
        if isinstance(self.response, Exception):
            raise self.response
        return self.response


def answers(status: int, *steps: bytes | Exception | Pause, headers: Sequence[tuple[bytes, bytes]] = JSON) -> Http:
    return Http(Response(status, headers, Answer(*steps)))


def stop(
    kind: Kind = OPENAI_KIND,
    operation: Operation = "chat",
    *,
    base_url: str | None = "http://up.test/v1",
    key: str | None = KEY,
    **settings: object,
) -> Stop:
    provider = Provider(
        name="up",
        kind=kind,
        settings=Settings(kind="x", **settings),
        base_url=base_url,
        api_key=Secret(key) if key else None,
    )
    wire = next(wire for wire in kind.speaks if operation in wire.paths)
    return Stop(Target("up", "real-model"), provider, wire)


def asks(dialect: Dialect = OPENAI_CHAT, operation: Operation = "chat", *, stream: bool = False) -> Asked:
    body = {"model": "alias", "stream": stream, "messages": [{"role": "user", "content": "hello big world"}]}
    limit = {"max_tokens": 5} if dialect == ANTHROPIC else {}
    return Asked(dialect.read_request(json.dumps({**body, **limit}).encode(), operation), dialect)


async def opened(
    http: Http,
    where: Stop | None = None,
    asked: Asked | None = None,
    *,
    headers: Sequence[tuple[bytes, bytes]] = (),
    servers: dict[str, object] | None = None,
) -> Opened:
    where = where or stop()
    sent, missing = credentials(where)
    upstream = Upstream(http=http, servers=servers or {}, daemons=NO_DAEMONS, clock=FakeClock(784_111_777.0))
    return await upstream.open(where, asked or asks(), headers, sent, missing=missing)


def credentials(where: Stop) -> tuple[list[Credential], NoCredential | None]:
    """What the configuration gives a target, or what is told where it takes one and there is none."""
    key = where.provider.api_key
    missing = NoCredential("no credential") if key is None and where.provider.kind.key_required else None
    return [Credential(id="file", weight=1, secret=key)] if key else [], missing


# ----------------------------------------------------------------------------------------------------------- what goes out
@pytest.mark.proves("bytes.request")
async def test_a_request_goes_to_the_providers_address_with_its_name_of_the_model() -> None:
    http = answers(200, b"{}")
    where = stop(base_url="http://up.test/v1/", timeouts=Timeouts(connect=1, first_byte=2, silence=3))
    assert (await opened(http, where)).written.body == http.body
    assert (http.method, http.url) == ("POST", "http://up.test/v1/chat/completions")
    assert http.body == asks().request.body.replace(b'"alias"', b'"real-model"')
    assert http.timeouts == http1.Timeouts(connect=1, first_byte=2, silence=3)


@pytest.mark.proves("headers")
async def test_a_request_carries_the_operators_credential_and_never_the_callers() -> None:
    http = answers(200, b"{}")
    theirs = [(b"authorization", b"Bearer swb_caller"), (b"x-api-key", b"swb_caller"), (b"cookie", b"a=1"), (b"openai-beta", b"x=v2")]
    await opened(http, headers=theirs)
    assert list(http.headers) == [
        (b"content-type", b"application/json"),
        (b"accept", b"application/json"),
        (b"user-agent", b"trunkline"),
        (b"openai-beta", b"x=v2"),
        (b"authorization", b"Bearer " + KEY.encode()),
    ]


async def test_anthropic_is_signed_its_own_way_and_gets_a_version_unless_the_caller_said_one() -> None:
    http = answers(200, b"{}")
    where, asked = stop(ANTHROPIC_KIND), asks(ANTHROPIC)
    await opened(http, where, asked)
    assert dict(http.headers)[b"x-api-key"] == KEY.encode()
    assert b"authorization" not in dict(http.headers)
    assert [value for name, value in http.headers if name == b"anthropic-version"] == [b"2023-06-01"]
    await opened(http, where, asked, headers=[(b"anthropic-version", b"2099-01-01"), (b"anthropic-beta", b"a")])
    assert [value for name, value in http.headers if name == b"anthropic-version"] == [b"2099-01-01"]
    assert (b"anthropic-beta", b"a") in http.headers


async def test_a_provider_without_a_credential_gets_none() -> None:
    http = answers(200, b"{}")
    await opened(http, stop(COMPATIBLE_KIND, key=None))
    assert b"authorization" not in dict(http.headers)


async def test_a_stream_is_asked_for_as_one() -> None:
    http = answers(200, headers=EVENTS)
    result = await opened(http, asked=asks(stream=True))
    assert dict(http.headers)[b"accept"] == b"text/event-stream"
    assert json.loads(http.body)["stream_options"] == {"include_usage": True}
    assert result.written.usage_added


async def test_a_provider_that_refuses_stream_options_is_not_sent_any() -> None:
    http = answers(200, headers=EVENTS)
    assert not (await opened(http, stop(stream_usage=False), asks(stream=True))).written.usage_added
    assert "stream_options" not in json.loads(http.body)


async def test_a_call_without_the_credential_that_it_needs_is_not_made() -> None:
    http = answers(200)
    with pytest.raises(NoCredential, match="no credential"):
        await opened(http, stop(key=None))
    assert http.url == ""


async def test_a_provider_without_an_address_is_the_operators_matter() -> None:
    with pytest.raises(ConfigInvalid, match="`up` has no `base_url`"):
        await opened(answers(200), stop(COMPATIBLE_KIND, base_url=None))


async def test_a_provider_that_we_run_is_called_where_it_listens_with_the_key_of_its_start() -> None:
    class Server:
        async def ready(self) -> Address:
            return Address("http://127.0.0.1:4711", Secret("key-of-this-start"))

    http = answers(200, b"{}")
    await opened(http, stop(COMPATIBLE_KIND, base_url=None, key=None), servers={"up": Server()})
    assert http.url == "http://127.0.0.1:4711/chat/completions"
    assert dict(http.headers)[b"authorization"] == b"Bearer key-of-this-start"


async def test_a_provider_that_we_run_and_that_does_not_start_is_no_answer() -> None:
    class Server:
        async def ready(self) -> Address:
            raise LaunchFailed("`up` did not start")

    with pytest.raises(LaunchFailed):
        await opened(answers(200), servers={"up": Server()})


# -------------------------------------------------------------------------------------------------------- what comes back
JUDGED: list[tuple[int, type[UpstreamError]]] = [
    (400, UpstreamRefused),
    (404, UpstreamRefused),
    (413, UpstreamRefused),
    (422, UpstreamRefused),
    (401, UpstreamDenied),
    (402, UpstreamDenied),
    (403, UpstreamDenied),
    (408, UpstreamTimeout),
    (429, UpstreamBusy),
    (503, UpstreamBusy),
    (529, UpstreamBusy),
    (500, UpstreamDown),
    (502, UpstreamDown),
    (504, UpstreamDown),
]


@pytest.mark.parametrize(("status", "kind"), JUDGED)
@pytest.mark.parametrize(("provider", "dialect"), [(OPENAI_KIND, OPENAI_CHAT), (ANTHROPIC_KIND, ANTHROPIC)], ids=["openai", "anthropic"])
async def test_the_status_says_what_kind_of_failure_it_is(status: int, kind: type[UpstreamError], provider: Kind, dialect: Dialect) -> None:
    http = answers(status, b'{"type":"error","error":{"type":"x","message":"the words"}}', headers=[*JSON, (b"request-id", b"req_up")])
    with pytest.raises(kind) as caught:
        await opened(http, stop(provider), asks(dialect))
    assert type(caught.value) is kind
    assert caught.value.upstream_status == status
    assert (b"x-upstream-request-id", b"req_up") in caught.value.headers
    assert ("the words" in caught.value.message) == (kind is not UpstreamDenied)
    assert http.response.body.closed


@pytest.mark.proves("G14")
@pytest.mark.parametrize(
    ("said", "seconds"),
    [((b"retry-after", b"7"), 7), ((b"Retry-After", b"Sun, 06 Nov 1994 08:49:57 GMT"), 20), ((b"retry-after-ms", b"250"), 0.25)],
)
async def test_a_busy_provider_says_for_how_long(said: tuple[bytes, bytes], seconds: float) -> None:
    with pytest.raises(UpstreamBusy) as caught:
        await opened(answers(429, b"{}", headers=[said]))
    assert caught.value.retry_after == seconds


@pytest.mark.proves("G19")
async def test_an_error_that_quotes_our_credential_is_handed_on_without_it() -> None:
    body = b'{"error":{"message":"the key %s is odd"}}' % KEY.encode()
    with pytest.raises(UpstreamRefused) as caught:
        await opened(answers(400, body))
    assert caught.value.body == body.replace(KEY.encode(), b"***")
    assert KEY not in caught.value.message


@pytest.mark.parametrize(
    ("status", "kind"), [(400, UpstreamRefused), (401, UpstreamDenied), (429, UpstreamBusy), (500, UpstreamDown)], ids=str
)
@pytest.mark.parametrize(
    "end", [UpstreamGarbled("cut"), UpstreamTimeout("silent"), http1.BodyCut("cut"), Pause], ids=["garbled", "silent", "cut", "hangs"]
)
async def test_an_error_whose_words_do_not_arrive_still_has_its_status(
    status: int, kind: type[UpstreamError], end: Exception | type[Pause], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream_module, "ERROR_SECONDS", 0.01)
    http = answers(status, b'{"error":', end() if end is Pause else end, headers=[(b"retry-after", b"7")])
    with pytest.raises(kind) as caught:
        await opened(http)
    assert caught.value.upstream_status == status
    assert http.response.body.closed


async def test_of_an_endless_error_only_the_beginning_is_read() -> None:
    http = answers(400, *[b"x" * (ERROR_BODY // 2)] * 3)
    with pytest.raises(UpstreamRefused) as caught:
        await opened(http)
    assert len(caught.value.body) <= ERROR_BODY
    assert len(http.response.body._steps) == 1, "the rest stays where it is"


@pytest.mark.proves("G20")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status: int) -> None:
    http = answers(status, headers=[(b"location", b"http://169.254.169.254/")])
    with pytest.raises(EgressDenied) as caught:
        await opened(http)
    assert "169.254" not in caught.value.sentence
    assert http.response.body.closed


@pytest.mark.parametrize("status", [201, 204, 206, 101])
async def test_a_status_that_means_nothing_here_is_garbled(status: int) -> None:
    http = answers(status)
    with pytest.raises(UpstreamGarbled, match=str(status)):
        await opened(http)
    assert http.response.body.closed


@pytest.mark.parametrize("headers", [JSON, []], ids=["json", "no type"])
async def test_a_stream_that_is_none_is_garbled(headers: Sequence[tuple[bytes, bytes]]) -> None:
    http = answers(200, b"{}", headers=headers)
    with pytest.raises(UpstreamGarbled, match="something else"):
        await opened(http, asked=asks(stream=True))
    assert http.response.body.closed


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (http1.ConnectFailed("x"), UpstreamDown),
        (http1.CertificateRejected("x"), UpstreamDown),
        (http1.ConnectionLost("x"), UpstreamDown),
        (http1.PoolFull("x"), UpstreamDown),
        (http1.ClientClosed("x"), UpstreamDown),
        (http1.BodyCut("x"), UpstreamDown),
        (http1.ConnectTimeout("h", "x", 1), UpstreamTimeout),
        (http1.FirstByteTimeout("h", "x", 1), UpstreamTimeout),
        (http1.SilenceTimeout("h", "x", 1), UpstreamTimeout),
        (http1.PoolTimeout("h", "x", 1), UpstreamTimeout),
        (http1.Garbled("x"), UpstreamGarbled),
        (http1.BodyTooLarge("x"), UpstreamGarbled),
        (http1.UndecodableBody("x"), UpstreamGarbled),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Exception) else "",
)
async def test_a_failure_of_http_is_one_of_the_provider_at_the_head_and_in_the_body(
    error: http1.HttpError, kind: type[UpstreamError]
) -> None:
    with pytest.raises(kind):
        await opened(Http(error))
    answer = (await opened(answers(200, b"x", error))).answer
    assert await answer.__anext__() == b"x"
    with pytest.raises(kind):
        await answer.__anext__()
    with pytest.raises(kind):
        await (await opened(answers(200, error))).answer.read()


async def test_an_address_that_is_forbidden_stays_the_operators_matter() -> None:
    with pytest.raises(EgressDenied):
        await opened(Http(EgressDenied("forbidden")))


async def test_a_caller_that_leaves_while_an_error_is_read_closes_it() -> None:
    pause = Pause()
    http = answers(400, pause)
    call = asyncio.get_running_loop().create_task(opened(http))
    await asyncio.wait_for(pause.reached.wait(), 5)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert http.response.body.closed


# ------------------------------------------------------------------------------------------------------------------ echo
def echo(dialect: Dialect, operation: Operation) -> Stop:
    provider = Provider(name="echo", kind=ECHO_KIND, settings=Settings(kind="echo"), base_url=None, api_key=None)
    wire = provider.wire(dialect, operation)
    assert wire is not None
    return Stop(Target("echo", "echo"), provider, wire)


@pytest.mark.parametrize("dialect", [OPENAI_CHAT, ANTHROPIC], ids=["openai", "anthropic"])
async def test_echo_says_the_last_message_as_a_whole_and_as_a_stream_alike(dialect: Dialect) -> None:
    http = answers(200)
    whole = await opened(http, echo(dialect, "chat"), asks(dialect))
    reply = dialect.read_reply(await whole.answer.read(), "chat")

    asked = asks(dialect, stream=True)
    stream = await opened(http, echo(dialect, "chat"), asked)
    reader = dialect.read_events(request=asked.request, written=stream.written, repairs=frozenset())
    events, fold = sse.Events(), Fold()
    said: list[Event] = []
    try:
        while True:
            said += [each for event in events.feed(await stream.answer.__anext__()) for each in reader.read(event).events]
    except StopAsyncIteration:
        pass
    for event in said:
        fold.add(event)
    streamed = fold.reply()
    assert reply.content == streamed.content == (Text(text="hello big world"),)
    assert (reply.usage, reply.finish) == (streamed.usage, streamed.finish)
    assert reply.usage is not None
    assert [each for each in said if isinstance(each, TextDelta)] == [TextDelta("hello "), TextDelta("big "), TextDelta("world")]
    assert http.url == "", "nothing went out"


async def test_echo_counts_tokens_without_answering() -> None:
    result = await opened(answers(200), echo(ANTHROPIC, "count_tokens"), asks(ANTHROPIC, "count_tokens"))
    assert json.loads(await result.answer.read())["input_tokens"] > 0


@pytest.mark.parametrize("messages", ["[]", "5", "[5]", '[{"content":5}]'])
async def test_what_echo_cannot_say_back_is_the_callers_matter(messages: str) -> None:
    asked = Asked(OPENAI_CHAT.read_request(b'{"model":"echo","messages":%s}' % messages.encode(), "chat"), OPENAI_CHAT)
    with pytest.raises(BadRequest, match="`messages`"):
        await opened(answers(200), echo(OPENAI_CHAT, "chat"), asked)


# --------------------------------------------------------------------------------------------------------- translation
async def test_a_request_of_another_format_goes_to_the_path_of_the_providers_own_without_the_callers_headers() -> None:
    http = answers(200, b"{}")
    theirs = [(b"anthropic-version", b"2023-06-01"), (b"anthropic-beta", b"a"), (b"accept-language", b"de")]
    result = await opened(http, stop(COMPATIBLE_KIND), asks(ANTHROPIC), headers=theirs)
    assert http.url == "http://up.test/v1/chat/completions"
    assert not {name for name, _ in http.headers} & {name for name, _ in theirs}
    assert json.loads(http.body) == {
        "model": "real-model",
        "messages": [{"role": "user", "content": "hello big world"}],
        "max_tokens": 5,
    }
    assert not result.passes


async def test_anthropic_gets_its_version_from_a_caller_of_another_format_too() -> None:
    http = answers(200, b"{}")
    await opened(http, stop(ANTHROPIC_KIND), asks(OPENAI_CHAT), headers=[(b"openai-beta", b"x=v2")])
    assert (b"anthropic-version", b"2023-06-01") in http.headers
    assert b"openai-beta" not in dict(http.headers)


async def test_a_refusal_is_told_to_a_caller_of_another_format_without_its_body() -> None:
    body = b'{"error":{"message":"no such parameter","type":"invalid_request_error"}}'
    with pytest.raises(UpstreamRefused, match="no such parameter") as caught:
        await opened(answers(400, body), stop(COMPATIBLE_KIND), asks(ANTHROPIC))
    assert caught.value.body == b""
    with pytest.raises(UpstreamRefused) as caught:
        await opened(answers(400, body), stop(COMPATIBLE_KIND))
    assert caught.value.body == body


@pytest.mark.proves("losses.rules")
async def test_what_cannot_be_carried_is_never_sent() -> None:
    request = {"model": "m", "max_tokens": 5, "messages": [], "tools": [{"type": "web_search_20250305", "name": "web_search"}]}
    http = answers(200)
    with pytest.raises(LossRefused):
        await opened(http, stop(COMPATIBLE_KIND), Asked(ANTHROPIC.read_request(json.dumps(request).encode(), "chat"), ANTHROPIC))
    assert http.url == ""


async def test_tokens_that_a_provider_cannot_count_are_counted_here() -> None:
    http = answers(200)
    provider = stop(COMPATIBLE_KIND).provider
    wire = provider.wire(ANTHROPIC, "count_tokens")
    assert wire is not None
    asked = asks(ANTHROPIC, "count_tokens")
    result = await opened(http, Stop(Target("up", "m"), provider, wire), asked)
    assert json.loads(await result.answer.read()) == {"input_tokens": approximate(asked.request.body)}
    assert result.passes
    assert http.url == ""


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_echo_answers_in_a_format_that_it_speaks_and_the_caller_may_speak_another(*, stream: bool) -> None:
    body = {"model": "echo", "input": "hello", "stream": stream}
    asked = Asked(OPENAI_RESPONSES.read_request(json.dumps(body).encode(), "chat"), OPENAI_RESPONSES)
    where = echo(OPENAI_RESPONSES, "chat")
    result = await opened(answers(200), where, asked)
    assert not result.passes
    told = await result.answer.read()
    if stream:
        assert b'"content":"hello"' in told
    else:
        assert where.wire.dialect.read_reply(told, "chat").content == (Text(text="hello"),)


# ---------------------------------------------------------------------------------------------------------- what is kept
async def followed(http: Http, where: Stop, method: str = "GET", headers: Sequence[tuple[bytes, bytes]] = ()) -> FollowUpAnswer:
    upstream = Upstream(http=http, servers={}, daemons=NO_DAEMONS, clock=FakeClock())
    sent, missing = credentials(where)
    return (await upstream.follow(where.provider, where.wire, method, "resp_1/items?limit=2", headers, sent, missing=missing)).answer


async def test_a_provider_is_asked_about_what_it_keeps_with_the_operators_credential() -> None:
    http = answers(200, b'{"id":"resp_1"}')
    theirs = [(b"authorization", b"Bearer swb_caller"), (b"cookie", b"a=1"), (b"openai-beta", b"x=v2"), (b"content-type", b"text/plain")]
    answer = await followed(http, stop(timeouts=Timeouts(connect=1, first_byte=2, silence=3)), "DELETE", theirs)
    assert await answer.read() == b'{"id":"resp_1"}'
    assert (http.method, http.url, http.body) == ("DELETE", "http://up.test/v1/chat/completions/resp_1/items?limit=2", b"")
    assert http.timeouts == http1.Timeouts(connect=1, first_byte=2, silence=3)
    assert list(http.headers) == [
        (b"accept", b"*/*"),
        (b"user-agent", b"trunkline"),
        (b"openai-beta", b"x=v2"),
        (b"authorization", b"Bearer " + KEY.encode()),
    ]


@pytest.mark.proves("G19")
@pytest.mark.parametrize(("status", "kind"), JUDGED)
async def test_a_failure_about_what_is_kept_is_judged_as_any_other(status: int, kind: type[UpstreamError]) -> None:
    http = answers(status, b'{"error":{"message":"no %s"}}' % KEY.encode())
    with pytest.raises(kind) as caught:
        await followed(http, stop())
    assert KEY.encode() not in caught.value.body
    assert KEY not in caught.value.message
    assert http.response.body.closed


async def test_what_breaks_off_about_what_is_kept_is_the_providers_failure() -> None:
    with pytest.raises(UpstreamDown):
        await followed(Http(http1.ConnectFailed("x")), stop())
    with pytest.raises(NoCredential):
        await followed(answers(200), stop(key=None))


def test_no_error_of_this_module_is_a_fault_of_the_caller() -> None:
    assert not any(issubclass(kind, TrunklineError) and kind.fault == "caller" for _, kind in JUDGED)
