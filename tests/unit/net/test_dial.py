import asyncio
import socket
from collections.abc import Iterable

import pytest

from trunkline.base.egress import Egress, EgressSettings
from trunkline.errors import EgressDenied
from trunkline.net import dial as dial_module
from trunkline.net.dial import JudgingDial
from trunkline_sdk.http1 import Address, Origin, resolve

PROVIDER = Origin("http", "provider.example", 80, None)


def addresses(*numbers: str) -> list[Address]:
    return [Address(socket.AF_INET6, (number, 80, 0, 0)) if ":" in number else Address(socket.AF_INET, (number, 80)) for number in numbers]


class Names:
    """A resolver that answers as the test says, one answer after another, the last one for ever."""

    def __init__(self, *answers: Iterable[str]) -> None:
        self.answers = [addresses(*each) for each in answers]
        self.asked: list[str] = []

    async def __call__(self, origin: Origin) -> list[Address]:
        self.asked.append(origin.host)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The numeric addresses that would have been connected to, per dial."""
    seen: list[list[str]] = []

    async def connect_first(origin: Origin, found: list[Address], factory: object) -> tuple[None, None]:
        seen.append([each.sockaddr[0] for each in found])
        return None, None

    monkeypatch.setattr(dial_module, "connect_first", connect_first)
    return seen


def judging(names: object, *allow: str) -> JudgingDial:
    return JudgingDial(Egress(EgressSettings(allow=list(allow))), names)  # type: ignore[arg-type]


@pytest.mark.proves("G20")
@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "0251.0376.0251.0376",
        "169.254.43518",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "::ffff:0:127.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "0.0.0.0",
        "0",
        "::",
    ],
)
async def test_every_spelling_of_an_address_that_no_provider_has_is_refused_before_a_socket_is_made(
    host: str, dialled: list[list[str]]
) -> None:
    try:
        await resolve(Origin("http", host, 80, None))
    except OSError:
        pytest.fail("this machine's resolver does not read that spelling")
    with pytest.raises(EgressDenied) as refusal:
        await judging(resolve)(Origin("http", host, 80, None), asyncio.Protocol)
    assert refusal.value.code == "egress_denied"
    assert dialled == []


@pytest.mark.proves("G20")
@pytest.mark.parametrize("inside", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::ffff:10.0.0.1", "::1", "2001::1"])
async def test_a_name_that_is_public_first_and_inside_later_is_refused_every_time(inside: str, dialled: list[list[str]]) -> None:
    dial = judging(Names(["8.8.8.8"], [inside]))
    await dial(PROVIDER, asyncio.Protocol)
    for _ in range(3):
        with pytest.raises(EgressDenied):
            await dial(PROVIDER, asyncio.Protocol)
    assert dialled == [["8.8.8.8"]]


@pytest.mark.proves("G20")
async def test_an_answer_with_both_kinds_is_dialled_only_where_it_was_at_first(dialled: list[list[str]]) -> None:
    dial = judging(Names(["8.8.8.8"], ["127.0.0.1", "8.8.4.4", "169.254.169.254"], ["8.8.8.8"]))
    for _ in range(3):
        await dial(PROVIDER, asyncio.Protocol)
    assert dialled == [["8.8.8.8"], ["8.8.4.4"], ["8.8.8.8"]]


async def test_a_private_provider_of_the_operators_file_may_move_within_its_kind(dialled: list[list[str]]) -> None:
    dial = judging(Names(["10.0.0.1"], ["192.168.1.1"]))
    await dial(PROVIDER, asyncio.Protocol)
    await dial(PROVIDER, asyncio.Protocol)
    assert dialled == [["10.0.0.1"], ["192.168.1.1"]]


async def test_the_kind_is_remembered_for_each_host_and_port(dialled: list[list[str]]) -> None:
    dial = judging(Names(["8.8.8.8"], ["10.0.0.1"]))
    await dial(PROVIDER, asyncio.Protocol)
    await dial(Origin("http", "provider.example", 8080, None), asyncio.Protocol)
    assert dialled == [["8.8.8.8"], ["10.0.0.1"]]


async def test_a_refused_first_answer_decides_nothing(dialled: list[list[str]]) -> None:
    dial = judging(Names(["169.254.169.254"], ["10.0.0.1"]))
    with pytest.raises(EgressDenied):
        await dial(PROVIDER, asyncio.Protocol)
    await dial(PROVIDER, asyncio.Protocol)
    assert dialled == [["10.0.0.1"]]


@pytest.mark.proves("G20")
async def test_an_allowed_address_of_a_public_name_does_not_open_the_way_to_its_neighbours(dialled: list[list[str]]) -> None:
    dial = judging(Names(["8.8.8.8"], ["10.0.0.5"], ["10.0.0.6"]), "10.0.0.5")
    await dial(PROVIDER, asyncio.Protocol)
    await dial(PROVIDER, asyncio.Protocol)
    with pytest.raises(EgressDenied):
        await dial(PROVIDER, asyncio.Protocol)
    assert dialled == [["8.8.8.8"], ["10.0.0.5"]]


async def test_a_name_without_addresses_is_no_matter_of_egress(dialled: list[list[str]]) -> None:
    with pytest.raises(OSError, match="no address"):
        await judging(Names([]))(PROVIDER, asyncio.Protocol)
    assert dialled == []


async def test_the_judged_address_is_the_one_that_is_connected_to() -> None:
    """The name is asked once; its answer is dialled, whatever the name would say a moment later."""
    met: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        met.set_result(writer.get_extra_info("sockname")[0])
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]

        async def names(origin: Origin) -> list[Address]:
            return [Address(socket.AF_INET, ("127.0.0.1", port))]

        transport, _ = await judging(names)(Origin("http", "provider.example", port, None), asyncio.Protocol)
        assert await met == "127.0.0.1"
        transport.close()
