"""A provider on loopback that does what a test tells it, well or badly, and that is strict about what it is asked.

    async with Upstream() as up:
        up.answers(529, {"error": {"message": "busy"}}, retry_after=7)
        up.says("hello")
        ...                                   # call `up.base_url`
        assert up.calls[1].json()["stream"] is True
        await up.disconnected()
    assert up.violations == []

Each script answers one request, in order; `times=None` makes it answer all that follow. A step of a stream is bytes or a record that goes
out at once as an event (named if it has a type), an `asyncio.Event` that is waited for, or `NEVER`.
"""

import asyncio
import json
import socket
import ssl
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from http import HTTPStatus
from types import TracebackType
from typing import Any, Literal, Self

from tests.fakes import replies, requests
from tests.fakes.replies import Dialect, Thought, ToolCall


class _Never:
    async def wait(self) -> None:
        await asyncio.get_running_loop().create_future()


NEVER = _Never()
"""A step that is waited for until the client leaves."""

Gate = asyncio.Event | _Never
Headers = Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Call:
    """One request as it came."""

    method: str
    path: str
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def header(self, name: str) -> str | None:
        """The value of the first header of this name, whatever its case."""
        return next((value.decode("latin-1") for key, value in self.headers if key.lower() == name.lower().encode()), None)

    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """The answering side of one request, for a script to use and misuse."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.keep_alive = True

    async def send(self, data: bytes) -> None:
        """Raw bytes, at once."""
        try:
            self.writer.write(data)
        except RuntimeError as error:  # so says uvloop of a socket that is closed
            raise ConnectionResetError("the client has left") from error
        await self.writer.drain()

    async def head(self, status: int, headers: Headers = ()) -> None:
        phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else ""
        lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers), "", ""]
        await self.send("\r\n".join(lines).encode("latin-1"))

    async def chunk(self, data: bytes) -> None:
        """One part of a chunked body; an empty one ends it."""
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def reset(self) -> None:
        """End the connection with RST."""
        self.keep_alive = False
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # on, no seconds
        self.writer.transport.abort()

    def close(self) -> None:
        self.keep_alive = False
        self.writer.close()


Script = Callable[[Call, Wire], Awaitable[None]]


@dataclass
class _Turn:
    script: Script
    times: int | None


class _Peer(asyncio.StreamReaderProtocol):
    """A connection that says when its client has left, whatever is being read or written."""

    def __init__(
        self, reader: asyncio.StreamReader, serve: Callable[["_Peer", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
    ) -> None:
        super().__init__(reader, lambda stream, writer: serve(self, stream, writer), asyncio.get_running_loop())
        self.gone = asyncio.Event()

    def eof_received(self) -> bool | None:
        self.gone.set()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()
        super().connection_lost(exc)


@dataclass
class Upstream:
    """What came in is in `calls`, what was wrong with it in `violations`."""

    tls: ssl.SSLContext | None = None
    calls: list[Call] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    connections: int = 0
    """How many were ever accepted."""
    open: int = 0
    disconnects: int = 0
    """How often a client left before its answer was complete."""
    base_url: str = ""

    def __post_init__(self) -> None:
        self._turns: deque[_Turn] = deque()
        self._changed = asyncio.Event()
        self._served: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Peer(asyncio.StreamReader(), self._serve), "127.0.0.1", 0, ssl=self.tls)
        host, port = self._server.sockets[0].getsockname()
        self.base_url = f"{'https' if self.tls else 'http'}://{host}:{port}"
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
        tasks = list(self._served)
        for task, writer in self._served.items():
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*tasks, return_exceptions=True)

    def stop(self) -> None:
        """Refuse new connections."""
        assert self._server is not None
        self._server.close()

    # ------------------------------------------------------------------------------------------------------ scripts

    def does(self, script: Script, *, times: int | None = 1) -> None:
        """Answer with a script of the test's own."""
        self._turns.append(_Turn(script, times))

    def answers(
        self,
        status: int = 200,
        body: Any = b"",
        *,
        headers: Headers = (),
        retry_after: int | datetime | None = None,
        gate: asyncio.Event | None = None,
        times: int | None = 1,
    ) -> None:
        """One whole answer; a body that is not bytes goes out as JSON. `retry_after` is seconds, or a time, written as an HTTP date."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        fields = list(headers)
        if not isinstance(body, bytes):
            fields.append(("content-type", "application/json"))
        if isinstance(retry_after, datetime):
            fields.append(("retry-after", format_datetime(retry_after.astimezone(UTC), usegmt=True)))
        elif retry_after is not None:
            fields.append(("retry-after", str(retry_after)))

        async def script(_: Call, wire: Wire) -> None:
            if gate is not None:
                await gate.wait()
            await wire.head(status, [*fields, ("content-length", str(len(content)))])
            await wire.send(content)

        self.does(script, times=times)

    def streams(
        self,
        steps: Iterable[bytes | Mapping[str, Any] | Gate],
        *,
        status: int = 200,
        headers: Headers = (("content-type", "text/event-stream"),),
        pause: float = 0,
        cut: Literal["close", "reset"] | None = None,
        times: int | None = 1,
    ) -> None:
        """A chunked answer in steps, `pause` seconds between them; `cut` ends it without its last chunk."""
        told = list(steps)

        async def script(_: Call, wire: Wire) -> None:
            await _stream(wire, told, status=status, headers=headers, pause=pause, cut=cut)

        self.does(script, times=times)

    def raw(self, *steps: bytes | Gate, times: int | None = 1) -> None:
        """Just these bytes, framing and all, and then the end of the connection."""

        async def script(_: Call, wire: Wire) -> None:
            for step in steps:
                await (wire.send(step) if isinstance(step, bytes) else step.wait())
            wire.close()

        self.does(script, times=times)

    def hangs(self, *, times: int | None = 1) -> None:
        """Read the request and never answer."""
        self.raw(NEVER, times=times)

    def drops(self, *, times: int | None = 1) -> None:
        """Read the request and close."""
        self.raw(times=times)

    def says(
        self,
        text: str = "",
        *,
        tool_calls: Iterable[ToolCall] = (),
        thoughts: Iterable[Thought] = (),
        dialect: Dialect | None = None,
        stream: bool | None = None,
        usage: Mapping[str, Any] | None = None,
        pause: float = 0,
        gate: asyncio.Event | None = None,
        cut: Literal["close", "reset"] | None = None,
        times: int | None = 1,
    ) -> None:
        """A model's answer in the dialect of the path, whole or streamed as the request asks.

        `dialect` and `stream` overrule the request, `usage` the counts, in the dialect's own keys. `gate` stands before a stream's last half,
        `cut` ends a stream within its last half, in the middle of an event. What is encrypted of a thought is told in Responses only to who
        asks for it (`include`), as the vendor does.
        """
        wanted, thought = list(tool_calls), list(thoughts)

        async def script(call: Call, wire: Wire) -> None:
            request = call.json()
            spoken = dialect or requests.dialect_of(call.path)
            assert spoken is not None, f"no dialect belongs to {call.path}"
            shown = thought
            if spoken == "openai_responses" and "reasoning.encrypted_content" not in (request.get("include") or []):
                shown = [replace(each, encrypted="") for each in thought]
            reply = replies.Reply(text=text, tool_calls=wanted, thoughts=shown, model=request["model"], usage=usage)
            if not (request.get("stream", False) if stream is None else stream):
                body = json.dumps(replies.whole(spoken, reply)).encode()
                await wire.head(200, [("content-type", "application/json"), ("content-length", str(len(body)))])
                await wire.send(body)
                return
            steps: list[bytes | Gate] = [*replies.events(spoken, reply, include_usage=_wants_usage(request))]
            half = len(steps) // 2
            if cut is not None:
                last = steps[half]
                assert isinstance(last, bytes)
                steps[half:] = [last[: len(last) // 2]]
            if gate is not None:
                steps.insert(half, gate)
            await _stream(wire, steps, status=200, headers=[("content-type", "text/event-stream; charset=utf-8")], pause=pause, cut=cut)

        self.does(script, times=times)

    # ------------------------------------------------------------------------------------------------------- waiting

    async def called(self, count: int = 1, *, timeout: float = 5) -> Call:
        """Wait for that many requests; the last of them."""
        await self._until(lambda: len(self.calls) >= count, timeout)
        return self.calls[count - 1]

    async def disconnected(self, timeout: float = 1, *, count: int = 1) -> None:
        """Wait until that many clients have left before their answer was complete."""
        await self._until(lambda: self.disconnects >= count, timeout)

    async def idle(self, timeout: float = 5) -> None:
        """Wait until no connection is open."""
        await self._until(lambda: self.open == 0, timeout)

    async def _until(self, condition: Callable[[], bool], timeout: float) -> None:
        async with asyncio.timeout(timeout):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    # ------------------------------------------------------------------------------------------------------- serving

    async def _serve(self, peer: _Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._served[task] = writer
        self.connections += 1
        self.open += 1
        try:
            while (call := await self._receive(reader)) is not None:
                self.calls.append(call)
                self.violations += requests.violations(call)
                self._changed.set()
                wire = Wire(writer)
                if not await self._play(call, wire, peer):
                    self.disconnects += 1
                    break
                if not wire.keep_alive or (call.header("connection") or "").lower() == "close":
                    break
        finally:
            writer.close()
            self.open -= 1
            del self._served[task]
            self._changed.set()

    async def _receive(self, reader: asyncio.StreamReader) -> Call | None:
        try:
            return Call(*await requests.read(reader))
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            self.disconnects += bool(getattr(error, "partial", b""))
        except (ValueError, asyncio.LimitOverrunError) as error:
            self.violations.append(f"the request is no HTTP/1.1: {error}")
        return None

    async def _play(self, call: Call, wire: Wire, peer: _Peer) -> bool:
        """Whether the answer was given before the client left."""
        playing = asyncio.create_task(self._answer(call, wire))
        leaving = asyncio.create_task(peer.gone.wait())
        try:
            await asyncio.wait([playing, leaving], return_when=asyncio.FIRST_COMPLETED)
            return playing.done() and playing.result()
        finally:
            playing.cancel()
            leaving.cancel()
            await asyncio.gather(playing, leaving, return_exceptions=True)

    async def _answer(self, call: Call, wire: Wire) -> bool:
        try:
            await self._next(call)(call, wire)
        except ConnectionError:
            return False
        except Exception as error:  # noqa: BLE001 - a script that fails is a finding of the test
            self.violations.append(f"the script failed: {error!r}")
            wire.close()
        return True

    def _next(self, call: Call) -> Script:
        assert self._turns, f"nobody said how to answer {call.method} {call.path}"
        turn = self._turns[0]
        if turn.times is not None:
            turn.times -= 1
            if turn.times == 0:
                self._turns.popleft()
        return turn.script


async def _stream(
    wire: Wire,
    steps: Iterable[bytes | Mapping[str, Any] | Gate],
    *,
    status: int,
    headers: Headers,
    pause: float,
    cut: Literal["close", "reset"] | None,
) -> None:
    await wire.head(status, [*headers, ("transfer-encoding", "chunked")])
    for number, step in enumerate(steps):
        if number and pause:
            await asyncio.sleep(pause)
        match step:
            case b"":  # would be the last chunk
                pass
            case bytes():
                await wire.chunk(step)
            case Mapping():
                await wire.chunk(replies.named(step) if "type" in step else replies.data(step))
            case _:
                await step.wait()
    match cut:
        case "close":
            wire.close()
        case "reset":
            wire.reset()
        case None:
            await wire.chunk(b"")


def _wants_usage(request: Mapping[str, Any]) -> bool:
    return bool((request.get("stream_options") or {}).get("include_usage"))
