"""May this address be dialled? Pure: resolving and dialling live in `net`.

What is judged is always the numeric address that would be dialled, never a name or its spelling: `http://2852039166` is
169.254.169.254 by the time it comes here.
"""

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Annotated, Literal

from trunkline.base.codec import Meta, Record
from trunkline.errors import ConfigInvalid, EgressDenied

Class = Literal["public", "private", "loopback", "forbidden"]

# Addresses outside the link-local ranges that hand out credentials of the machine: AWS, Google, Alibaba, Oracle, Azure.
METADATA = frozenset({"fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "192.0.0.192", "168.63.129.16"})
PRIVATE = [ip_network(each) for each in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")]
LOOPBACK = ip_address("::1")
# An IPv4 address inside an IPv6 one: whoever routes it decides where it goes, so that the outside says nothing about it.
EMBEDDING = [
    ip_network(each) for each in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/32", "2002::/16")
]


class EgressSettings(Record, frozen=True):
    """What may be dialled beyond what the rules allow."""

    allow: Annotated[
        list[str],
        Meta(description="Addresses or networks that may be dialled although nothing else allows them, such as `169.254.10.0/24`."),
    ] = []


def classify(address: str) -> Class:
    """What kind of address it is; `forbidden` are those that no ordinary upstream has."""
    ip = ip_address(address.partition("%")[0])
    # First, since later Pythons look inside a mapped address: `::ffff:127.0.0.1` is no loopback here.
    if isinstance(ip, IPv6Address) and ip != LOOPBACK and (ip.is_site_local or any(ip in network for network in EMBEDDING)):
        return "forbidden"
    if ip.is_loopback:
        return "loopback"
    if ip.is_link_local or ip.is_unspecified or ip.is_multicast or str(ip) in METADATA:
        return "forbidden"
    if any(ip in network for network in PRIVATE):
        return "private"
    return "public" if ip.is_global else "forbidden"


class Egress:
    """The operator's rules."""

    def __init__(self, settings: EgressSettings) -> None:
        self._allow: list[IPv4Network | IPv6Network] = []
        for each in settings.allow:
            try:
                self._allow.append(ip_network(each))
            except ValueError as error:
                raise ConfigInvalid(f"`egress.allow`: {error}", hint="Name addresses or networks, such as `10.0.0.0/8`.") from None

    def permitted(self, addresses: Sequence[str], known: Class | None) -> tuple[list[str], Class]:
        """Which of a name's addresses may be dialled.

        Args:
            addresses: numeric, in the resolver's order.
            known: the class of address that this name had at first; None for the first time.

        Returns:
            The permitted ones, and the class that the name has from now on: always its first one.

        Raises:
            EgressDenied: none is.
        """
        listed = [address for address in addresses if self.listed(address)]
        if listed:
            return listed, known or classify(listed[0])
        judged: list[tuple[str, Class]] = [(address, classify(address)) for address in addresses]
        ordinary = [each for each in judged if each[1] != "forbidden"]
        if not ordinary:
            raise EgressDenied(
                "the provider's address is one that no provider has (link-local, metadata, or an address inside another)",
                hint="If it is meant, the operator can name it in `egress.allow`.",
            )
        wanted = known or ordinary[0][1]
        fitting = [address for address, kind in ordinary if kind == wanted]
        if not fitting:
            raise EgressDenied(
                f"the provider's name had a {wanted} address and now has a {ordinary[0][1]} one",
                hint="If its address was moved on purpose, reload the configuration; else somebody may be tampering with its name.",
            )
        return fitting, wanted

    def listed(self, address: str) -> bool:
        """Whether `egress.allow` has this numeric address."""
        ip = ip_address(address.partition("%")[0])
        return any(ip in network for network in self._allow)
