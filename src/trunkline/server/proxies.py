"""Whose word counts for where a request comes from: only that of the proxies that the operator names. Pure."""

from collections.abc import Sequence
from ipaddress import ip_address, ip_network

from trunkline.errors import ConfigInvalid
from trunkline.gateway.headers import Headers


class Proxies:
    """The addresses and networks of trusted proxies."""

    def __init__(self, trusted: Sequence[str]) -> None:
        try:
            self._networks = [ip_network(each) for each in trusted]
        except ValueError as error:
            raise ConfigInvalid(f"`server.trusted_proxies`: {error}", hint="Name addresses or networks, such as `10.0.0.0/8`.") from None

    def caller(self, peer: str, headers: Headers) -> str:
        """The caller's address: the last one in `X-Forwarded-For` that is not a trusted proxy's, if the peer is one.

        What stands further left was written by somebody unknown, so it is not looked at. Some proxies add to the line that is there,
        others add a line: all of them are one list (RFC 9110, section 5.3).
        """
        if not self._networks or not self._trusts(peer):
            return peer
        lines = [value.decode("latin-1") for name, value in headers if name == b"x-forwarded-for"]
        address = peer
        for hop in reversed([hop.strip() for line in lines for hop in line.split(",")]):
            if not _is_address(hop):
                return address
            address = hop
            if not self._trusts(hop):
                return address
        return address

    def _trusts(self, address: str) -> bool:
        return _is_address(address) and any(ip_address(address) in network for network in self._networks)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
