"""Two peers, whose bytes arrive whenever they arrive: calls, answers, cancels, deadlines and streams in any order (a state machine)."""

from collections.abc import Callable
from typing import Literal

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from trunkline_sdk.rpc import events as kinds
from trunkline_sdk.rpc.errors import RpcError
from trunkline_sdk.rpc.messages import Hello, Limits
from trunkline_sdk.rpc.peer import Peer

Side = Literal["host", "worker"]
BOTH: tuple[Side, ...] = ("host", "worker")
SIDES = st.sampled_from(BOTH)
OTHER: dict[Side, Side] = {"host": "worker", "worker": "host"}
LIMITS = Limits(frame_bytes=4096, calls=4, stream_messages=4, stream_bytes=1024, streams=3)


class End:
    """One peer, what is on its way to it, and what its own side knows."""

    def __init__(self, role: Side) -> None:
        self.peer = Peer(role, limits=LIMITS, longest=50.0)
        self.coming = bytearray()
        self.open: set[int] = set()  # own calls
        self.settled: dict[int, str] = {}
        self.working: dict[int, bool] = {}  # calls of the other side: whether they were stopped
        self.answers: dict[int, str] = {}  # what was answered to the other side's calls
        self.sent: dict[int, list[bytes]] = {}  # own streams
        self.complete: dict[int, bool] = {}
        self.took: dict[int, list[bytes]] = {}  # streams of the other side
        self.unused: list[tuple[int, int]] = []
        self.taking: set[int] = set()
        self.ended: dict[int, str] = {}


class TwoPeers(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ends: dict[Side, End] = {"host": End("host"), "worker": End("worker")}
        self.now = 0.0

    @initialize()
    def meet(self) -> None:
        host, worker = self.ends["host"].peer, self.ends["worker"].peer
        worker.hello(Hello())
        (greeted,) = host.receive(worker.take(), now=0.0)
        assert isinstance(greeted, kinds.Greeted)
        host.welcome(greeted.hello)
        (welcomed,) = worker.receive(host.take(), now=0.0)
        assert isinstance(welcomed, kinds.Welcomed)

    # ------------------------------------------------------------------------------------------------ what a side does
    @rule(side=SIDES, seconds=st.sampled_from([0.0, 1.0, 5.0, 100.0]), data=st.data())
    def call(self, side: Side, seconds: float, data: st.DataObject) -> None:
        end = self.ends[side]
        during = data.draw(st.sampled_from([None, *end.working]))
        made = _made(lambda: end.peer.call("do", [side], now=self.now, seconds=seconds, during=during))
        if isinstance(made, int):
            end.open.add(made)
        else:
            assert made == ("cancelled" if during is not None and end.working[during] else "rate_limited")

    @precondition(lambda self: any(end.working for end in self.ends.values()))
    @rule(data=st.data(), good=st.booleans())
    def answer(self, data: st.DataObject, *, good: bool) -> None:
        side, call = data.draw(st.sampled_from([(side, call) for side, end in self.ends.items() for call in end.working]))
        end = self.ends[side]
        del end.working[call]
        word = f"{side} {call}"
        end.answers[call] = word if good else "failed"
        self.note(
            side,
            end.peer.answer(call, word, now=self.now) if good else end.peer.fail(call, RpcError("failed", "no"), now=self.now),
        )

    @precondition(lambda self: any(end.open for end in self.ends.values()))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        side, call = data.draw(st.sampled_from([(side, call) for side, end in self.ends.items() for call in sorted(end.open)]))
        self.ends[side].open.discard(call)
        self.ends[side].settled[call] = "given up"
        self.note(side, self.ends[side].peer.cancel(call, "enough", now=self.now))

    @rule(side=SIDES, data=st.data())
    def open_stream(self, side: Side, data: st.DataObject) -> None:
        end = self.ends[side]
        answering = data.draw(st.sampled_from([None, *end.working]))
        made = _made(lambda: end.peer.open_stream(answering=answering))
        if isinstance(made, int):
            end.sent[made], end.complete[made] = [], False
        else:
            assert made == "rate_limited"

    @precondition(lambda self: any(not done for end in self.ends.values() for done in end.complete.values()))
    @rule(data=st.data(), size=st.integers(0, 512), end_it=st.sampled_from(["no", "no", "no", "well", "badly"]))
    def send(self, data: st.DataObject, size: int, end_it: str) -> None:
        side, stream = data.draw(
            st.sampled_from([(side, n) for side, end in self.ends.items() for n, done in end.complete.items() if not done])
        )
        end = self.ends[side]
        if end_it != "no":
            end.complete[stream] = True
            end.peer.end_stream(stream, None if end_it == "well" else RpcError("failed", "broke off"))
            return
        piece = bytes([len(end.sent[stream]) % 256]) * size
        if end.peer.room(stream, size):
            if _made(lambda: end.peer.send(stream, piece)) == "cancelled":  # it is not wanted any more
                end.complete[stream] = True
            else:
                end.sent[stream].append(piece)

    @precondition(lambda self: any(end.unused for end in self.ends.values()))
    @rule(data=st.data())
    def use(self, data: st.DataObject) -> None:
        end = data.draw(st.sampled_from([end for end in self.ends.values() if end.unused]))
        stream, size = end.unused.pop(0)
        end.peer.used(stream, size)

    @precondition(lambda self: any(end.taking for end in self.ends.values()))
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        end, stream = data.draw(st.sampled_from([(end, n) for end in self.ends.values() for n in sorted(end.taking)]))
        end.taking.discard(stream)
        end.ended[stream] = "left"
        end.peer.cancel_stream(stream, "enough")

    # ------------------------------------------------------------------------------------------------ what the world does
    @rule(side=SIDES, most=st.sampled_from([1, 7, 300, 10_000]))
    def write(self, side: Side, most: int) -> None:
        self.ends[OTHER[side]].coming += self.ends[side].peer.take(most)

    @rule(side=SIDES, size=st.integers(1, 2000))
    def deliver(self, side: Side, size: int) -> None:
        end = self.ends[side]
        data = bytes(end.coming[:size])
        del end.coming[:size]
        self.note(side, end.peer.receive(data, now=self.now))

    @rule(seconds=st.sampled_from([0.0, 0.5, 3.0, 61.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        for side, end in self.ends.items():
            self.note(side, end.peer.tick(self.now))

    def note(self, side: Side, events: list[kinds.Event]) -> None:
        end, other = self.ends[side], self.ends[OTHER[side]]
        for event in events:
            match event:
                case kinds.Called(number, method, params):
                    assert number not in end.working
                    assert number not in end.answers
                    assert (method, msgspec.json.decode(params)) == ("do", [OTHER[side]])
                    end.working[number] = False
                case kinds.Stopped(number):
                    assert end.working[number] is False
                    end.working[number] = True
                case kinds.Answered(number, result):
                    assert other.answers[number] == msgspec.json.decode(result)
                    self.settle(end, number, "answered")
                case kinds.Failed(number, error):
                    assert error.code in {"failed", "deadline_exceeded", "cancelled", "rate_limited"}
                    self.settle(end, number, error.code)
                case kinds.Opened(number):
                    end.took[number] = []
                    end.taking.add(number)
                case kinds.Came(number, data):
                    assert number in end.taking
                    end.took[number].append(data)
                    end.unused.append((number, len(data)))
                case kinds.Ended(number, error):
                    end.taking.remove(number)
                    end.ended[number] = "well" if error is None else error.code
                    if error is None:
                        assert end.took[number] == other.sent[number]
                case kinds.Room():
                    pass
                case kinds.Unwanted(_, reason):
                    assert reason in {"enough", "cancelled"}
                case _:
                    raise AssertionError(event)

    @staticmethod
    def settle(end: End, call: int, how: str) -> None:
        assert call not in end.settled
        end.open.remove(call)
        end.settled[call] = how

    # ------------------------------------------------------------------------------------------------ what always holds
    @invariant()
    def nobody_says_what_may_not_be_said(self) -> None:
        assert all(end.peer.violations == 0 for end in self.ends.values())

    @invariant()
    def what_comes_is_what_was_sent(self) -> None:
        for side, end in self.ends.items():
            for stream, pieces in end.took.items():
                assert pieces == self.ends[OTHER[side]].sent[stream][: len(pieces)]
                window = [size for number, size in end.unused if number == stream]
                assert len(window) <= LIMITS.stream_messages
                assert sum(window) <= LIMITS.stream_bytes

    def teardown(self) -> None:
        """When all has arrived and time is over, every call has ended once, and nothing waits."""
        steps: list[Callable[[], None]] = [self._arrive, lambda: self.wait(61.0), self._arrive, self._finish, self._arrive]
        for step in steps:
            step()
        for side, end in self.ends.items():
            assert not end.open
            assert not self.ends[OTHER[side]].working
            assert not end.peer.pending
            assert end.peer.next_tick is None

    def _arrive(self) -> None:
        while any(end.coming or end.peer.pending for end in self.ends.values()):
            for side in self.ends:
                self.write(side, 10_000)
                self.deliver(side, 1 << 20)

    def _finish(self) -> None:
        for side, end in self.ends.items():
            for call in list(end.working):
                del end.working[call]
                end.answers[call] = "failed"
                self.note(side, end.peer.fail(call, RpcError("failed", "the end"), now=self.now))


def _made(make: Callable[[], int | None]) -> int | str | None:
    """What was made, or the code of the error that says why not."""
    try:
        return make()
    except RpcError as error:
        return error.code


TestTwoPeers = TwoPeers.TestCase
TestTwoPeers.settings = settings(max_examples=100, stateful_step_count=60, deadline=None)
