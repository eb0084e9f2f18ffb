"""The cases of `conformance.json`, which any implementation of the protocol can be held to."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from trunkline_sdk.rpc import events as kinds
from trunkline_sdk.rpc.errors import ProtocolBroken, RpcError
from trunkline_sdk.rpc.frames import MESSAGE, FrameReader, frame, piece
from trunkline_sdk.rpc.messages import Hello, Limits, Raw, Welcome, encode, notification
from trunkline_sdk.rpc.peer import Peer

CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("conformance.json").read_text(encoding="utf-8"))["cases"]
SMALL = Limits(frame_bytes=4096, calls=2, stream_messages=4, stream_bytes=1024, streams=2)


def shown(event: kinds.Event) -> str:
    """An event as the cases write it; what they leave out is not looked at."""
    name = type(event).__name__
    match event:
        case kinds.Called(number, method, _, seconds, during):
            return f"Called {number} {method}" + (f" {seconds}" if during else "")
        case kinds.Failed(number, error):
            return f"Failed {number} {error.code}"
        case kinds.Ended(number, error):
            return f"Ended {number}" + (f" {error.code}" if error else "")
        case kinds.Violation() | kinds.Greeted() | kinds.Welcomed():
            return name
        case _:
            return " ".join([name, *(bytes(each).decode() if isinstance(each, bytes | Raw) else str(each) for each in event)])


class End:
    """The end under test, and its clock."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.peer = Peer(case["role"], limits=SMALL)
        self.now = 0.0
        self.hello: Hello | None = None
        self.events: list[kinds.Event] = []
        self._reader = FrameReader()
        if case.get("met", True):
            if case["role"] == "host":
                (greeted,) = self.peer.receive(notification("hello", Hello(limits=SMALL)), now=0.0)
                assert isinstance(greeted, kinds.Greeted)
                self.peer.welcome(greeted.hello)
            else:
                self.peer.hello(Hello())
                self.peer.receive(notification("welcome", Welcome(limits=SMALL)), now=0.0)
            self.written()

    def written(self) -> list[Any]:
        data = b""
        while self.peer.pending:
            data += self.peer.take()
        return [json.loads(each.body) for each in self._reader.feed(data) if each.kind == MESSAGE]

    def step(self, step: dict[str, Any]) -> None:
        self.events = []
        if "now" in step:
            assert self.peer.next_tick == step["now"]
            self.now = step["now"]
            self.events = self.peer.tick(self.now)
        if "in" in step:
            self.receive(frame(MESSAGE, encode(step["in"])))
        if "in_hex" in step:
            self.receive(bytes.fromhex(step["in_hex"]))
        if "in_large" in step:
            self.receive(frame(MESSAGE, encode(step["in_large"]).replace(b"PAD", b"x" * 5000)))
        if "in_large_piece" in step:
            self.receive(piece(step["in_large_piece"], 0, b"x" * 5000))
        if "do" in step:
            self.do(*step["do"])

    def receive(self, data: bytes) -> None:
        for at in range(len(data)):  # every byte alone: it makes no difference
            self.events += self.peer.receive(data[at : at + 1], now=self.now)
        self.hello = next((event.hello for event in self.events if isinstance(event, kinds.Greeted)), self.hello)

    def do(self, what: str, *given: Any) -> None:
        peer, now = self.peer, self.now
        match what, given:
            case "hello", ():
                peer.hello(Hello())
            case "welcome", ():
                assert self.hello is not None
                peer.welcome(self.hello)
            case "call", (method, params, seconds):
                peer.call(method, params, now=now, seconds=seconds)
            case "call during", (parent, method, seconds):
                peer.call(method, now=now, seconds=seconds, during=parent)
            case "fail", (call, code):
                self.events += peer.fail(call, RpcError(code, code), now=now)
            case "answer large", (call,):
                self.events += peer.answer(call, "x" * 4996, now=now)
            case "used", (stream, size):
                peer.used(stream, size)
            case "open", ():
                peer.open_stream()
            case "fill", (stream,):
                while peer.room(stream, 512):
                    peer.send(stream, b"x" * 512)
            case _:
                raise AssertionError(what)


@pytest.mark.proves("worker.protocol")
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_an_end_keeps_the_protocol(case: dict[str, Any]) -> None:
    end = End(case)
    for step in cast("list[dict[str, Any]]", case["steps"]):
        raised = ""
        try:
            end.step(step)
        except RpcError as error:
            raised = error.code
        except ProtocolBroken:
            raised = "ProtocolBroken"
        assert raised == step.get("raises", "")
        written = end.written()
        if step.get("out") != "any":
            assert written == step.get("out", [])
        if not raised:
            assert [shown(event) for event in end.events] == step.get("events", [])
        if "late" in step:
            assert end.peer.late == step["late"]
        if "room" in step:
            assert end.peer.room(1, 512) is step["room"]


def test_who_breaks_the_rules_too_often_is_not_listened_to() -> None:
    end = End({"role": "host"})
    bad = frame(MESSAGE, b"x")
    for _ in range(100):
        end.peer.receive(bad, now=0.0)
    with pytest.raises(ProtocolBroken):
        end.peer.receive(bad, now=0.0)
