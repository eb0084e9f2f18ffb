"""Who may ask: the shared secret, and what a browser must not reach (daemon contract, A4 and H)."""

import hashlib
import hmac
import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from trunkline_sdk.daemon.protocol.headers import CHALLENGE, Headers
from trunkline_sdk.daemon.server.failures import Failure

_SECRETS = 2  # the new one and the one that it replaces


class SecretRefused(Failure):
    """The shared secret is missing or wrong. The answer is marked as the daemon's own (K1): an upstream's 401 is not."""

    def __init__(self) -> None:
        super().__init__(401, "unauthorized")

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The mark."""
        return [(b"www-authenticate", CHALLENGE)]


@dataclass(frozen=True, slots=True)
class Guard:
    """Judges the head of a request before its body is read.

    Attributes:
        secrets: one is enough to come in; two are valid while a secret is being changed; none lets everyone in.
        hosts: names beside loopback ones under which products reach this daemon, without port, lower case.
    """

    secrets: Sequence[bytes] = field(repr=False)
    hosts: frozenset[str] = frozenset()

    def judge(self, headers: Headers, *, unix: bool) -> None:
        """Let the request pass, or refuse it. Nobody's browser reaches a Unix socket, so there any `Host` will do.

        Raises:
            Failure: 403 for a browser or a foreign `Host`, 401 without the secret.
        """
        hosts: list[bytes] = []
        authorizations: list[bytes] = []
        for name, value in headers:
            if name == b"origin":
                raise Failure(403, "requests from browsers are refused")
            if name == b"host":
                hosts.append(value)
            elif name == b"authorization":
                authorizations.append(value)
        if not unix and (len(hosts) != 1 or not self._is_ours(hosts[0])):
            raise Failure(403, "the Host header names none of this daemon's hosts")
        if self.secrets and not (len(authorizations) == 1 and self._knows(authorizations[0])):
            raise SecretRefused

    def _is_ours(self, value: bytes) -> bool:
        name = host_name(value.decode("latin-1"))
        return name in self.hosts or is_loopback(name)

    def _knows(self, value: bytes) -> bool:
        scheme, _, offered = value.partition(b" ")
        if scheme.lower() != b"bearer":
            return False
        offered = offered.strip()
        return (
            sum([hmac.compare_digest(_digest(offered), _digest(secret)) for secret in self.secrets]) > 0
        )  # each is compared, whichever fits, and none by its length


def guard(secret: str | Sequence[str], hosts: Iterable[str]) -> Guard:
    """A guard from an operator's words; white space around a secret is cut, as clients do, and an empty one is none.

    Raises:
        ValueError: more than two secrets, or one that no header can carry.
    """
    given = [secret] if isinstance(secret, str) else secret
    secrets = [stripped.encode() for each in given if (stripped := each.strip())]
    if len(secrets) > _SECRETS:
        raise ValueError(f"a daemon has one secret, or two while it is being changed; these are {len(secrets)}")
    if any(byte < 0x20 or byte == 0x7F for each in secrets for byte in each):
        raise ValueError("the secret holds a control character, which no header can carry")
    return Guard(tuple(secrets), frozenset(host_name(host) for host in hosts))


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()


def host_name(authority: str) -> str:
    """The name in `name:port`, lower case; an IPv6 address without its brackets."""
    authority = authority.strip().lower()
    if authority.startswith("["):
        return authority[1:].partition("]")[0]
    return authority.partition(":")[0] if authority.count(":") < 2 else authority


def is_loopback(name: str) -> bool:
    """Whether a name or address can only be this machine."""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")
