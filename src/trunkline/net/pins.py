"""Certificates that the operator knows: refused ones are told as such, and pins are held to before a byte is sent."""

import asyncio
import re
import ssl
from collections.abc import Callable, Collection
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from trunkline.errors import EgressDenied
from trunkline_sdk.http1 import Dial, Origin

P = TypeVar("P", bound=asyncio.Protocol)

_CERTIFICATE = re.compile(rf"{ssl.PEM_HEADER}.*?{ssl.PEM_FOOTER}", re.DOTALL)


class PinnedDial:
    """A `Dial` whose peer has to show one of these certificates, where any are named.

    Args:
        dial: connects, TLS included.
        pins: SHA-256 of the certificate (DER), in hexadecimal digits, with or without colons between bytes; none for whatever `dial` takes.
    """

    def __init__(self, dial: Dial, pins: Collection[str] = ()) -> None:
        self._dial = dial
        self._pins = frozenset(pin.replace(":", "").lower() for pin in pins)

    async def __call__(self, origin: Origin, factory: Callable[[], P], /) -> tuple[asyncio.Transport, P]:
        """Connect. Raises: `EgressDenied`: the certificate is not good, or another one; `OSError`."""
        try:
            transport, protocol = await self._dial(origin, factory)
        except ssl.SSLCertVerificationError as error:
            raise EgressDenied(f"its certificate is refused: {error.verify_message}") from None
        if self._pins and _fingerprint(transport) not in self._pins:
            transport.abort()
            raise EgressDenied("its certificate is none of those that are pinned")
        return transport, protocol


def _fingerprint(transport: asyncio.Transport) -> str:
    """Of the peer's certificate; empty without TLS."""
    peer = transport.get_extra_info("ssl_object")
    shown = peer.getpeercert(binary_form=True) if peer is not None else None
    return sha256(shown).hexdigest() if shown else ""


def pin_of(chain: Path) -> str:
    """The pin of whoever serves this chain (PEM), whose first certificate is its own; empty where there is none to be read."""
    try:
        found = _CERTIFICATE.search(chain.read_text(encoding="latin-1"))
        return sha256(ssl.PEM_cert_to_DER_cert(found[0])).hexdigest() if found else ""
    except (OSError, ValueError):
        return ""


def pins_alone() -> ssl.SSLContext:
    """TLS for a `PinnedDial` whose pins are all that counts: whoever signed the certificate, and for whichever name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    return context
