"""Small writes of a turn are made together, at its end, in order; nothing is lost by closing."""

import asyncio
from typing import Any

from trunkline_sdk.outbox import SMALL, Gathered, Outbox


class Wire(asyncio.Transport):
    """What is written to it, call by call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Any] = []
        self.closing = False

    def write(self, data: bytes) -> None:
        self.calls.append(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.calls.append([bytes(data) for data in list_of_data])

    def write_eof(self) -> None:
        self.calls.append("eof")

    def close(self) -> None:
        self.calls.append("close")
        self.closing = True

    def abort(self) -> None:
        self.calls.append("abort")
        self.closing = True

    def is_closing(self) -> bool:
        return self.closing

    def get_write_buffer_size(self) -> int:
        return 7


def gathered() -> tuple[Wire, Gathered]:
    wire = Wire()
    return wire, Gathered(wire, Outbox(asyncio.get_running_loop()))


async def test_writes_of_one_turn_are_one_and_those_of_the_next_another() -> None:
    wire, transport = gathered()
    transport.write(b"a")
    transport.writelines([b"b", b"c"])
    assert wire.calls == []
    assert transport.get_write_buffer_size() == 3 + 7
    await asyncio.sleep(0)
    transport.write(b"d")
    await asyncio.sleep(0)
    assert wire.calls == [b"abc", b"d"]
    assert transport.get_write_buffer_size() == 7


async def test_what_is_large_goes_at_once_behind_what_waits() -> None:
    wire, transport = gathered()
    large = bytes(SMALL)
    transport.write(b"head")
    transport.write(large)
    transport.write(b"tail")
    assert wire.calls == [[b"head", large]]
    await asyncio.sleep(0)
    assert wire.calls == [[b"head", large], b"tail"]


async def test_the_connections_of_one_owner_write_one_after_the_other() -> None:
    outbox = Outbox(asyncio.get_running_loop())
    wires = [Wire() for _ in range(3)]
    transports = [Gathered(wire, outbox) for wire in wires]
    for number, transport in enumerate(transports):
        transport.write(b"%d" % number)
    await asyncio.sleep(0)
    assert [wire.calls for wire in wires] == [[b"0"], [b"1"], [b"2"]]


async def test_closing_and_ending_our_side_come_behind_what_was_written() -> None:
    for end in ("close", "write_eof"):
        wire, transport = gathered()
        transport.write(b"last words")
        getattr(transport, end)()
        assert wire.calls == [b"last words", end.removeprefix("write_")]
        await asyncio.sleep(0)
        assert len(wire.calls) == 2


async def test_an_abort_drops_what_waits() -> None:
    wire, transport = gathered()
    transport.write(b"never")
    transport.abort()
    await asyncio.sleep(0)
    assert wire.calls == ["abort"]
    assert transport.get_write_buffer_size() == 7
