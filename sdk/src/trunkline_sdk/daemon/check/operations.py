"""Operations of the fixture providers of section J: what arrives, what comes back, when, and what a leaving client causes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

from trunkline_sdk.daemon.check.probe import CHAT_BODY, Check, Missed, Probe, operation, refused, request, tree
from trunkline_sdk.daemon.client import Client, Stream
from trunkline_sdk.daemon.errors import CallFailed
from trunkline_sdk.daemon.messages import Credential
from trunkline_sdk.daemon.protocol import headers
from trunkline_sdk.daemon.protocol.routes import INVOKE, STREAM

_STATUSES = (400, 401, 403, 404, 408, 409, 422, 429, 500, 502, 503, 504, 529)
_SPREAD = 0.5  # seconds that lie at least between the first and the last record of `drip`
_ABORT_SECONDS = 3.0
_PATIENCE = 0.8  # the X-Timeout of an answer that takes longer in all

FULL = Credential(token="access-1", account_id="konto-ü", token_type="Bearer", metadata={"project": "p-1", "label": "a<b>&c ü"})  # noqa: S106 - a fixture
CREDENTIALS = (
    FULL,
    Credential(api_key="key-1"),
    Credential(token="pasted", token_type="custom"),  # noqa: S106 - a fixture
    Credential(token_type="Bearer"),  # noqa: S106 - a fixture
)


async def echo(probe: Probe) -> str:
    """An invoke answers with JSON, and its losses can be read."""
    reply = await probe.client.invoke(probe.provider.id, request("echo"), FULL)
    tree(reply.body)
    if not reply.content_type.startswith("application/json"):
        raise Missed(f"the answer is `{reply.content_type}`")
    return f"{len(reply.losses)} losses"


async def arrival(probe: Probe) -> str:
    """Every header of an operation reaches the daemon as it was sent."""
    asked = request("show-headers", timeout=90.5)
    shown = await _shown(probe, Credential(token="t", account_id="ä€", metadata={"k": "v"}), timeout=90.5)  # noqa: S106 - a fixture
    wanted = {
        "x-surface": asked.surface,
        "x-model": asked.model,
        "x-timeout": "90.5",
        "x-credential-token": "t",
        "x-credential-account-id": "ä€",
        "content-type": "application/json",
        "content-length": str(len(CHAT_BODY)),
    }
    for name, value in wanted.items():
        if shown.get(name) != value:
            raise Missed(f"`{name}` arrived as `{shown.get(name)}`, not as `{value}`")
    return ""


async def credentials(probe: Probe) -> str:
    """Each kind of credential arrives as it was sent."""
    for given in CREDENTIALS:
        shown = await _shown(probe, given)
        for name, raw in headers.credential(given):
            if shown.get(name.decode()) != headers.text(raw):
                raise Missed(f"`{name.decode()}` arrived otherwise")
    if any(name.startswith("x-credential") for name in await _shown(probe, None)):
        raise Missed("a credential arrived where none was sent")
    odd = operation("show-headers", x_credential_token=b"t", x_credential_metadata=b"%%%")
    answer = await probe.send("POST", probe.path(INVOKE), CHAT_BODY, odd)
    if answer.status != 200:
        raise Missed(f"HTTP {answer.status} where the metadata is no base64")
    return f"{len(CREDENTIALS) + 2} kinds"


async def speech(probe: Probe) -> str:
    """Raw text without a content type or a credential becomes audio, untouched."""
    fields = [(headers.SURFACE, b"audio_speech"), (headers.MODEL, b"voice-1")]
    answer = await probe.send("POST", probe.path(INVOKE, probe.daemon.speech), b"hello", fields)
    kind = headers.text(answer.header(b"content-type"))
    if answer.status != 200 or not answer.body or not kind.startswith("audio/"):
        raise Missed(f"HTTP {answer.status}, {len(answer.body)} bytes of `{kind}`")
    return f"{len(answer.body)} bytes of {kind}"


async def foreign_surface(probe: Probe) -> str:
    """A surface of another provider is refused."""
    return refused(await probe.send("POST", probe.path(INVOKE), b"hello", operation("voice-1", "audio_speech")), "audio_speech", 400, 404)


async def statuses(probe: Probe) -> str:
    """A failure keeps its status, says why, and says when to come again."""
    for route in (INVOKE, STREAM):
        for status in _STATUSES:
            answer = await probe.send("POST", probe.path(route), CHAT_BODY, operation(f"status-{status}"))
            if answer.status != status or not answer.reason:
                raise Missed(f"{route.name} status-{status}: HTTP {answer.status}, reason `{answer.reason}`")
            if status == 429 and answer.header(b"retry-after") != b"7":
                raise Missed(f"{route.name} status-429: no `Retry-After: 7`")
            if status == 401 and headers.is_wrong_secret(answer.status, answer.headers):
                raise Missed("an upstream's 401 is marked as the daemon's own")
    return f"{len(_STATUSES)} statuses"


async def streaming(probe: Probe) -> str:
    """A stream has records, and comes to its end."""
    async with await probe.client.stream(probe.provider.id, request("echo"), FULL) as stream:
        records = [record async for record in stream]
        if not records:
            raise Missed("no record came")
        return f"{len(records)} records, {len(stream.losses)} losses"


async def content_type(probe: Probe) -> str:
    """A stream says what it is."""
    answer = await probe.send("POST", probe.path(STREAM), CHAT_BODY, operation("echo"))
    kind = headers.text(answer.header(b"content-type"))
    if not kind.startswith("text/event-stream"):
        raise Missed(f"`{kind}`")
    return ""


async def breaking(probe: Probe) -> str:
    """A stream that fails breaks the transport; it does not end as if it were whole."""
    seen = 0
    try:
        async with await probe.client.stream(probe.provider.id, request("break-stream")) as stream:
            async for _ in stream:
                seen += 1
    except CallFailed as error:
        if error.kind != "transport" or error.classification.disposition != "failover":
            raise Missed(f"it failed otherwise: {error}") from None
        if not seen:
            raise Missed("the record before the failure did not come") from None
        return f"{seen} record, then the break"
    raise Missed("a failed stream ended cleanly")


async def beginning(probe: Probe) -> str:
    """An answer that does not begin within X-Timeout is a 504, on both routes."""
    for route in (INVOKE, STREAM):
        answer = await probe.send("POST", probe.path(route), CHAT_BODY, operation("slow-start", x_timeout=b"0.3"))
        if answer.status != 504 or not answer.reason:
            raise Missed(f"{route.name}: HTTP {answer.status}, reason `{answer.reason}`")
    return ""


async def pause(probe: Probe) -> str:
    """A pause longer than X-Timeout breaks the stream."""
    try:
        async with asyncio.timeout(probe.daemon.seconds):
            async with await probe.client.stream(probe.provider.id, request("slow-stream", timeout=0.3)) as stream:
                records = [record async for record in stream]
    except CallFailed as error:
        if error.kind != "transport":
            raise Missed(f"it failed otherwise: {error}") from None
        return ""
    except TimeoutError:
        raise Missed(f"it was still open after {probe.daemon.seconds:g} s") from None
    raise Missed(f"it ended cleanly after {len(records)} records")


async def steady(probe: Probe) -> str:
    """An answer that keeps arriving is never cut, however long it takes in all."""
    clock = asyncio.get_running_loop().time
    begun = clock()
    async with await probe.client.stream(probe.provider.id, request("drip", timeout=_PATIENCE)) as stream:
        records = [record async for record in stream]
    middle = clock()
    reply = await probe.client.invoke(probe.provider.id, request("drip", timeout=_PATIENCE))
    took = min(middle - begun, clock() - middle)
    if took <= _PATIENCE:
        raise Missed(f"`drip` took {took:.1f} s in all: too short to tell (it should take more than {_PATIENCE:g} s)")
    return f"{len(records)} records, {len(reply.body)} bytes"


async def odd_timeout(probe: Probe) -> str:
    """A timeout that cannot be read is passed over."""
    for raw in (b"soon", b"-1", b"0", b"1e3", b"5s", b"9" * 30):
        answer = await probe.send("POST", probe.path(INVOKE), CHAT_BODY, operation("echo", x_timeout=raw))
        if answer.status != 200:
            raise Missed(f"HTTP {answer.status} for `{raw.decode()}`")
    return ""


async def leaving(probe: Probe) -> str:
    """A client that leaves ends the work: before the first byte of an invoke and of a stream, and inside a stream."""
    for model, route in (("slow-start", "invoke"), ("slow-start", "stream"), ("slow-stream", "stream"), ("drip", "stream")):
        before = await _cancelled(probe)
        if model == "slow-start":
            await _leave_early(probe, route)
        else:
            async with await probe.client.stream(probe.provider.id, request(model)) as stream:
                await anext(stream)
        if not await _counted(probe, before):
            raise Missed(f"{route} of `{model}`: the work went on for {_ABORT_SECONDS:g} s and more")
    return ""


async def flushing(probe: Probe) -> str:
    """Each record goes out when it is there, the first before the second is."""
    clock = asyncio.get_running_loop().time
    begun = clock()
    try:
        async with asyncio.timeout(probe.daemon.seconds):
            async with await probe.client.stream(probe.provider.id, request("slow-stream")) as stream:
                await anext(stream)
    except TimeoutError:
        raise Missed("the first record waits for the second") from None
    first = clock() - begun
    times = [when async for when in _times(await probe.client.stream(probe.provider.id, request("drip")))]
    if len(times) < 3 or times[-1] - times[0] < _SPREAD:
        raise Missed("records that are made one by one came together")
    return f"first record after {first * 1000:.0f} ms"


async def head_first(probe: Probe) -> str:
    """The head of a stream goes out before its first record."""
    clock = asyncio.get_running_loop().time
    async with await probe.client.stream(probe.provider.id, request("drip")) as stream:
        opened = clock()
        await anext(stream)
        waited = clock() - opened
    if waited < 0.02:
        raise Missed("the head came with the first record")
    return f"{waited * 1000:.0f} ms before it"


async def _times(stream: Stream) -> AsyncIterator[float]:
    clock = asyncio.get_running_loop().time
    async with stream:
        async for _ in stream:
            yield clock()


async def _shown(probe: Probe, credential: Credential | None, timeout: float | None = None) -> dict[str, str]:  # noqa: ASYNC109 - a header
    reply = await probe.client.invoke(probe.provider.id, request("show-headers", timeout=timeout), credential)
    shown: dict[str, str] = {}
    for name, value in tree(reply.body).items():
        values: list[Any] = cast(list[Any], value) if isinstance(value, list) else [value]
        shown[name.lower()] = next((one for one in values if isinstance(one, str)), "")
    return shown


async def _cancelled(probe: Probe) -> int:
    reply = await probe.client.invoke(probe.provider.id, request("cancelled"))
    return next((value for value in tree(reply.body).values() if type(value) is int), 0)


async def _counted(probe: Probe, before: int) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_ABORT_SECONDS):
            while await _cancelled(probe) <= before:  # noqa: ASYNC110 - it happens in another process
                await asyncio.sleep(0.02)
            return True
    return False


async def _leave_early(probe: Probe, route: str) -> None:
    client: Client = probe.client
    call = client.invoke if route == "invoke" else client.stream
    with contextlib.suppress(CallFailed):
        await call(probe.provider.id, request("slow-start"), within=0.3)


CHECKS = (
    Check(group="I.4", name="invoke: JSON and losses", level="must", run=echo),
    Check(group="I.4", name="invoke: every header arrives", level="must", run=arrival),
    Check(group="I.4", name="invoke: speech", level="must", run=speech),
    Check(group="I.4", name="a surface of another provider is refused", level="must", run=foreign_surface),
    Check(group="I.5", name="every kind of credential arrives", level="must", run=credentials),
    Check(group="I.6", name="a stream comes to its end", level="must", run=streaming),
    Check(group="A3", name="a stream says what it is", level="should", run=content_type),
    Check(group="I.8", name="statuses, reasons, Retry-After", level="must", run=statuses),
    Check(group="I.10", name="a failed stream breaks", level="must", run=breaking),
    Check(group="I.19", name="a late beginning is 504", level="must", run=beginning),
    Check(group="I.19", name="a long pause breaks the stream", level="must", run=pause),
    Check(group="I.19", name="a slow and steady answer is whole", level="must", run=steady),
    Check(group="I.19", name="an odd timeout is passed over", level="should", run=odd_timeout),
    Check(group="I.20", name="leaving ends the work", level="must", run=leaving),
    Check(group="I.21", name="each record is flushed", level="must", run=flushing),
    Check(group="I.21", name="the head comes before the first record", level="must", run=head_first),
)
