import asyncio
import socket
import threading
from typing import Any

import pytest

from trunkline.net.names import EACH, Names
from trunkline_sdk.http1 import Origin

PATIENCE = 5.0


def origin(host: str) -> Origin:
    return Origin("http", host, 80, None)


class Slow:
    """A resolver whose servers answer when the test says so."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.asked: list[str] = []

    def __call__(self, host: str, port: int) -> list[tuple[Any, Any, Any, str, Any]]:
        self.asked.append(host)
        if host.startswith("slow"):
            assert self.answers.wait(PATIENCE)
        if host == "nobody.example":
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("8.8.8.8", port))] * 2


@pytest.mark.proves("host.starving")
async def test_names_that_are_never_answered_hold_up_who_asked_for_them_and_nobody_else() -> None:
    slow = Slow()
    names = Names(slow)
    greedy = [asyncio.ensure_future(names.resolve("greedy", origin(f"slow{number}.example"))) for number in range(50)]
    found = await asyncio.wait_for(names.resolve("other", origin("quick.example")), PATIENCE)
    assert [(address.family, address.sockaddr) for address in found] == [(socket.AF_INET, ("8.8.8.8", 80))]
    for task in greedy:  # who gives up does not get a thread more
        task.cancel()
    await asyncio.gather(*greedy, return_exceptions=True)
    again = asyncio.ensure_future(names.resolve("greedy", origin("quick.example")))
    await asyncio.wait_for(names.resolve("other", origin("quick.example")), PATIENCE)
    assert not again.done()
    assert [host for host in slow.asked if host.startswith("slow")] == [f"slow{number}.example" for number in range(EACH)]
    slow.answers.set()
    assert len(await asyncio.wait_for(again, PATIENCE)) == 1


async def test_a_name_that_is_unknown_is_an_error_and_frees_its_turn() -> None:
    names = Names(Slow())
    for _ in range(3 * EACH):
        with pytest.raises(OSError, match="unknown"):
            await asyncio.wait_for(names.resolve("a", origin("nobody.example")), PATIENCE)


async def test_numbers_are_read_as_the_system_reads_them() -> None:
    found = await Names().resolve("a", origin("127.0.0.1"))
    assert [address.sockaddr[0] for address in found] == ["127.0.0.1"]
