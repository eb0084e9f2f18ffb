"""What an extension was granted. Pure: names and numbers in, a verdict out.

A permission is a text: `storage.collections`, or, of the network, one of

| permission | allows |
| --- | --- |
| `network:api.example.com` | that host, any port |
| `network:api.example.com:8443` | that host and port |
| `network:*.example.com` | every host below it, not itself; a port may follow |
| `network:localhost` | `localhost`, `127.0.0.1` and `::1`; a port may follow |
| `network:[::1]:8080` | an IPv6 address stands in brackets |
| `network:*` | every host, any port |

A name says nothing about where it leads. So the addresses are judged once more when they are known: public ones may be dialled; others
(private, loopback) only where the operator's own file names that very address for this extension, and those that hand out a machine's
credentials, or lie inside another address, only where `egress.allow` lists them too.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from trunkline.base.egress import classify
from trunkline.errors import ConfigInvalid, EgressDenied

NETWORK = "network:"
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_GRANT = re.compile(
    r"network:(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>\*|(?:\*\.)?[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?))(?::(?P<port>[0-9]{1,5}))?"
)
_NUMERIC = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
"""A host that a resolver may read as a number: its last label is one (WHATWG URL, "ends in a number")."""


@dataclass(frozen=True, slots=True)
class _Place:
    """One granted place: a host, a `*.`-pattern or `*`, and a port or any."""

    host: str
    port: int | None

    def holds(self, host: str, port: int) -> bool:
        if self.port is not None and self.port != port:
            return False
        match self.host:
            case "*":
                return True
            case "localhost":
                return host in _LOCAL
            case _ if self.host.startswith("*."):
                return host.endswith(self.host[1:]) and _NUMERIC.fullmatch(host) is None
            case _:
                return host == self.host

    def names(self, address: str, port: int) -> bool:
        """Whether it names this numeric address itself."""
        hosts = _LOCAL if self.host == "localhost" else (self.host,)
        return address in hosts and self.port in {None, port}


def network(host: str, port: int) -> str:
    """The permission that it takes to ask a host (as the client's URL parser reads it) on a port."""
    return f"{NETWORK}[{ip_address(host)}]:{port}" if ":" in host else f"{NETWORK}{host.lower().removesuffix('.')}:{port}"


class Grants:
    """Of one extension.

    Args:
        permissions: what it was granted.
        operator: those of them that the operator's own file says, and nobody else: they may name addresses inside.

    Raises:
        ConfigInvalid: a permission cannot be read.
    """

    def __init__(self, permissions: Iterable[str] = (), *, operator: Iterable[str] = ()) -> None:
        own = list(operator)
        self.permissions = tuple(dict.fromkeys([*permissions, *own]))
        self._exact = frozenset(each for each in self.permissions if not each.startswith(NETWORK))
        self._places = [_place(each) for each in self.permissions if each.startswith(NETWORK)]
        self._named = [_place(each) for each in own if each.startswith(NETWORK)]

    def allows(self, permission: str) -> bool:
        """Whether a permission is among them: as it stands, by one that ends in `:*`, or, of the network, by its place."""
        if permission.startswith(NETWORK):
            host, _, port = permission.removeprefix(NETWORK).rpartition(":")
            return port.isdecimal() and any(place.holds(host.strip("[]"), int(port)) for place in self._places)
        return permission in self._exact or any(each.endswith(":*") and permission.startswith(each[:-1]) for each in self._exact)

    def reachable(self, host: str, port: int, addresses: Sequence[str], listed: Callable[[str], bool]) -> list[str]:
        """Which of the addresses that a granted host has just now may be dialled.

        Args:
            host: for the error.
            port: the port.
            addresses: numeric, in the resolver's order.
            listed: whether `egress.allow` has an address.

        Raises:
            EgressDenied: none of them.
        """
        found = [address for address in addresses if self._reachable(address, port, listed)]
        if not found:
            kinds = " and ".join(sorted({classify(each) for each in addresses}))
            raise EgressDenied(
                f"`{host}` has no public address ({kinds}), and nothing that was granted to this extension names the one it has",
                hint="The operator can name it, as a number, in the extension's `network`.",
            )
        return found

    def _reachable(self, address: str, port: int, listed: Callable[[str], bool]) -> bool:
        kind = classify(address)
        if kind == "public":
            return True
        plain = str(ip_address(address.partition("%")[0]))
        named = any(place.names(plain, port) for place in self._named)
        return named and (kind != "forbidden" or listed(address))


def _place(permission: str) -> _Place:
    found = _GRANT.fullmatch(permission)
    if found is None:
        raise _wrong(permission, "it is not of the form `network:HOST[:PORT]`")
    port = None if found["port"] is None else int(found["port"])
    if port is not None and not 1 <= port <= 65_535:
        raise _wrong(permission, "there is no such port")
    if found["six"] is not None:
        try:
            return _Place(str(ip_address(found["six"])), port)
        except ValueError:
            raise _wrong(permission, "what stands in brackets is no address") from None
    host = found["name"].lower()
    if host.startswith("*.") and _NUMERIC.fullmatch(host):
        raise _wrong(permission, "addresses have no subdomains")
    return _Place(host, port)


def _wrong(permission: str, why: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"the permission `{permission[:200]}`: {why}",
        hint="Such as `network:api.example.com`, `network:*.example.com:8443`, `network:[::1]:8080`, `network:*`.",
    )
