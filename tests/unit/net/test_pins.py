import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest
import trustme

from trunkline.errors import EgressDenied
from trunkline.net.pins import PinnedDial, pin_of, pins_alone
from trunkline_sdk import http1


@dataclass
class Peer:
    """Somebody with a certificate, who counts the connections on which something was said."""

    url: str
    authority: trustme.CA
    fingerprint: str
    heard: int = 0

    def trusted(self) -> ssl.SSLContext:
        context = http1.tls_context()
        self.authority.configure_trust(context)
        return context


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued.configure_cert(context)
    shown = ssl.PEM_cert_to_DER_cert(issued.cert_chain_pems[0].bytes().decode())
    peer = Peer("", authority, sha256(shown).hexdigest())

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.read(65536):
            peer.heard += 1
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        peer.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        yield peer


async def got(peer: Peer, *pins: str, trusted: bool = True) -> bytes:
    dial = PinnedDial(http1.dial, pins)
    async with http1.Client(dial=dial, tls=peer.trusted() if trusted else http1.tls_context()) as client:
        return await (await client.request("GET", peer.url)).read()


@pytest.mark.proves("daemon.tls")
async def test_a_pinned_certificate_passes_however_its_fingerprint_is_written(peer: Peer) -> None:
    colons = ":".join(peer.fingerprint[at : at + 2] for at in range(0, 64, 2)).upper()
    for pins in ([], [peer.fingerprint], [colons], ["0" * 64, colons]):
        assert await got(peer, *pins) == b"ok"
    assert peer.heard == 4


@pytest.mark.proves("daemon.tls")
async def test_another_certificate_is_told_nothing(peer: Peer) -> None:
    with pytest.raises(EgressDenied, match="none of those that are pinned"):
        await got(peer, "0" * 64)
    assert peer.heard == 0


@pytest.mark.proves("daemon.tls")
async def test_a_pin_does_not_make_up_for_a_certificate_that_is_refused(peer: Peer) -> None:
    with pytest.raises(EgressDenied, match="its certificate is refused: unable to get local issuer certificate"):
        await got(peer, peer.fingerprint, trusted=False)
    assert peer.heard == 0


async def test_what_has_no_certificate_fits_no_pin() -> None:
    async def silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server, http1.Client(dial=PinnedDial(http1.dial, ["0" * 64])) as client:
        with pytest.raises(EgressDenied, match="pinned"):
            await client.request("GET", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")


async def test_where_pins_alone_count_they_have_to_fit(peer: Peer) -> None:
    async with http1.Client(dial=PinnedDial(http1.dial, [peer.fingerprint]), tls=pins_alone()) as client:
        assert await (await client.request("GET", peer.url)).read() == b"ok"
    async with http1.Client(dial=PinnedDial(http1.dial, ["0" * 64]), tls=pins_alone()) as client:
        with pytest.raises(EgressDenied, match="pinned"):
            await client.request("GET", peer.url)
    assert peer.heard == 1


def test_the_pin_of_a_chain_is_that_of_its_first_certificate(tmp_path: Path) -> None:
    issued = trustme.CA().create_child_ca().issue_cert("gateway.example")
    own, *above = [pem.bytes().decode() for pem in issued.cert_chain_pems]
    pin = sha256(ssl.PEM_cert_to_DER_cert(own)).hexdigest()
    chain = tmp_path / "chain.pem"
    chain.write_text(f"subject=gateway.example, für alle\n{own}{''.join(above)}", encoding="latin-1")
    assert above
    assert pin_of(chain) == pin
    for text in ("", ssl.PEM_HEADER, f"{ssl.PEM_HEADER}\nA\n{ssl.PEM_FOOTER}\n"):
        chain.write_text(text)
        assert pin_of(chain) == ""
    assert pin_of(tmp_path / "none.pem") == ""
