"""The end of a server: whoever can finish in time does, and the others are told in their own format."""

import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.fakes.server import PATIENCE, Call, Peer, Provider, Server

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
OPENAI = (
    b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"hel"}}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
)
MESSAGES = (
    (
        b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":1}}}\n\n'
        b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"hel"}}\n\n'
    ),
    (
        b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
        b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}\n\n'
        b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    ),
)
FORMATS = {"openai": ("/v1/chat/completions", OPENAI), "anthropic": ("/v1/messages", MESSAGES)}


class Held:
    """A provider that begins its replies and goes on when the test says so."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Event()

    def wait_for(self, calls: int) -> None:
        """Return when so many more have begun."""
        for _ in range(calls):
            assert self.begun.acquire(timeout=PATIENCE)

    def __call__(self, peer: Peer) -> None:
        first, rest = MESSAGES if b" /v1/messages " in peer.head else OPENAI
        if json.loads(peer.body)["stream"]:
            peer.send(HEAD + first)
        self.begun.release()
        assert self.go_on.wait(PATIENCE)
        with suppress(ConnectionError):  # the gateway may have left
            peer.send(rest)


@contextmanager
def serving(home: Path, talk: Callable[[Peer], object], drain_seconds: float = 30) -> Iterator[Server]:
    """A server whose provider does as `talk` says."""
    with Provider(talk) as provider:
        config = f"""
            [server]
            drain_seconds = {drain_seconds}
            [providers.openai]
            kind = "compatible"
            base_url = "{provider.url}/v1"
            [providers.anthropic]
            kind = "anthropic"
            base_url = "{provider.url}"
        """
        try:
            with Server(home, config=config, ANTHROPIC_API_KEY="sk-up-0123456789") as server:
                yield server
        finally:
            if isinstance(talk, Held):
                talk.go_on.set()


def call(server: Server, name: str, *, stream: bool = True) -> Call:
    return server.call("POST", FORMATS[name][0], {"model": f"{name}/m", "max_tokens": 9, "stream": stream, "messages": []})


def last_event(body: bytes) -> dict[str, object]:
    assert body.endswith(b"\n\n")
    return json.loads(body.rpartition(b"data: ")[2])


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_an_idle_server_ends_at_once_with_status_0(tmp_path: Path, number: signal.Signals) -> None:
    with Server(tmp_path) as server:
        assert server.call("GET", "/healthz").response.status == 200  # and the connection stays open
        server.signal(number)
        assert server.ended(within=5) == 0
        server.said("stopped")
        assert (server.data / "trunkline.pid").read_text() == ""


@pytest.mark.proves("drain")
def test_calls_in_flight_finish_and_new_ones_are_not_taken(tmp_path: Path, held: Held) -> None:
    with serving(tmp_path, held) as server:
        calls = {name: call(server, name) for name in FORMATS}
        held.wait_for(len(calls))
        server.signal(signal.SIGTERM)
        assert server.said("stopping")["seconds"] == 30
        with pytest.raises(ConnectionError):
            server.ask("GET", "/healthz")
        held.go_on.set()
        for name, (_, parts) in FORMATS.items():
            assert calls[name].read().body == b"".join(parts)
        assert server.ended(within=5) == 0
        assert {line["outcome"] for line in server.lines if line["event"] == "exchange"} == {"ok"}


@pytest.mark.proves("drain", "errors.native")
def test_after_the_limit_streams_end_with_an_error_event_of_their_format_and_calls_with_an_error(tmp_path: Path, held: Held) -> None:
    with serving(tmp_path, held, drain_seconds=0.3) as server:
        streams = {name: call(server, name) for name in FORMATS}
        whole = call(server, "anthropic", stream=False)
        held.wait_for(3)
        server.signal(signal.SIGTERM)
        bodies = {name: stream.read().body for name, stream in streams.items()}
        for name, (_, (first, _)) in FORMATS.items():
            assert bodies[name].startswith(first)
            assert last_event(bodies[name])["error"]["code"] == "shutting_down"
            assert b"[DONE]" not in bodies[name]
            assert b"message_stop" not in bodies[name]
        assert b"\n\nevent: error\n" in bodies["anthropic"]
        refused = whole.read()
        assert (refused.status, refused.json["type"], refused.json["error"]["code"]) == (503, "error", "shutting_down")
        assert server.ended(within=5) == 0
        assert {line["outcome"] for line in server.lines if line["event"] == "exchange"} == {"shutting_down"}
        server.said("stopped")


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_second_signal_ends_calls_in_flight_at_once_and_they_are_told(tmp_path: Path, held: Held, second: signal.Signals) -> None:
    with serving(tmp_path, held) as server:
        stream = call(server, "anthropic")
        held.wait_for(1)
        server.signal(signal.SIGTERM)
        server.said("stopping")
        server.signal(second)
        assert last_event(stream.read().body)["error"]["code"] == "shutting_down"
        assert server.ended(within=5) == 0


def test_a_caller_that_does_not_read_does_not_keep_a_server_from_ending(tmp_path: Path) -> None:
    flooded = threading.Event()

    def flood(peer: Peer) -> None:
        piece = b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n' % (b"x" * 100_000)
        peer.send(HEAD)
        with suppress(ConnectionError):
            for _ in range(1000):  # more than all buffers on the way hold
                peer.send(piece)
                flooded.set()
            raise AssertionError("the gateway read all of it, although its caller does not")

    with serving(tmp_path, flood, drain_seconds=0.2) as server:
        slow = call(server, "openai")
        assert flooded.wait(PATIENCE)
        assert slow.response.status == 200  # and nothing of its body is read
        server.signal(signal.SIGTERM)
        assert server.ended(within=10) == 0


@pytest.mark.proves("G18")
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_a_caller_that_leaves_is_gone_at_the_provider_within_a_second(tmp_path: Path, name: str, stream: bool) -> None:
    begun, left = threading.Event(), threading.Event()
    gone: list[bool] = []

    def talk(peer: Peer) -> None:
        if stream:
            peer.send(HEAD + FORMATS[name][1][0])
        begun.set()
        assert left.wait(PATIENCE)
        gone.append(peer.gone(within=1))

    with serving(tmp_path, talk) as server:
        leaving = call(server, name, stream=stream)
        assert begun.wait(PATIENCE)
        assert b"trunkline_exchanges_in_flight 1.0" in server.ask("GET", "/metrics").body
        leaving.leave()
        left.set()
        line = server.said("exchange")
        assert (line["outcome"], line["attempts"][0].split()[1]) == ("interrupted", "interrupted")
        assert b"trunkline_exchanges_in_flight 0.0" in server.ask("GET", "/metrics").body
    assert gone == [True]
