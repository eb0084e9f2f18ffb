"""An internet on loopback: names with public and other addresses, and whatever stands behind them.

net = Internet()
net.names["api.example.com"] = [["8.8.8.8"], ["10.0.0.1"]]     # one answer of the resolver after another, the last one for ever
net.hosts["8.8.8.8"] = upstream.base_url
Network(egress, resolve=net.resolve, connect=net.connect)
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import TypeVar
from urllib.parse import urlsplit

from trunkline_sdk.http1 import Address, Origin

P = TypeVar("P", bound=asyncio.Protocol)


class Internet:
    """What is asked of it stands in `asked`, whom somebody connected to in `reached`."""

    def __init__(self) -> None:
        self.names: dict[str, list[list[str]]] = {}
        self.hosts: dict[str, str] = {}
        self.asked: list[str] = []
        self.reached: list[tuple[str, int]] = []

    def put(self, name: str, address: str, base_url: str) -> None:
        """A name with one address, and what stands there."""
        self.names[name] = [[address]]
        self.hosts[address] = base_url

    async def resolve(self, _asker: str, origin: Origin) -> list[Address]:
        self.asked.append(origin.host)
        answers = self.names.get(origin.host)
        if answers is None:
            return [_address(str(ip_address(_number(origin.host))), origin.port)]
        return [_address(each, origin.port) for each in (answers.pop(0) if len(answers) > 1 else answers[0])]

    async def connect(self, origin: Origin, addresses: Sequence[Address], factory: Callable[[], P]) -> tuple[asyncio.Transport, P]:
        address = str(addresses[0].sockaddr[0])
        self.reached.append((address, origin.port))
        there = urlsplit(self.hosts[address])
        transport, protocol = await asyncio.get_running_loop().create_connection(
            factory, there.hostname, there.port, ssl=origin.ssl, server_hostname=None if origin.ssl is None else origin.host
        )
        return transport, protocol


def _number(host: str) -> str:
    """A host that is a number, in any spelling that resolvers read."""
    try:
        return str(ip_address(host))
    except ValueError:
        return socket.inet_ntoa(socket.inet_aton(host))


def _address(number: str, port: int) -> Address:
    return Address(socket.AF_INET6, (number, port, 0, 0)) if ":" in number else Address(socket.AF_INET, (number, port))
