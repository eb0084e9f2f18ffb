"""Where a listener listens, and what it says when it cannot."""

import socket
import ssl
import stat
from pathlib import Path

import pytest
import trustme

from sdk.tests.listen.conftest import House, echo, until
from trunkline_sdk.listen import Listener, ListenError, ListenLimits, Tls


@pytest.fixture
def tls(tmp_path: Path) -> tuple[Tls, ssl.SSLContext]:
    authority = trustme.CA()
    leaf = authority.issue_cert("localhost")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    for blob in leaf.cert_chain_pems:
        blob.write_to_path(cert, append=True)
    leaf.private_key_pem.write_to_path(key)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return Tls(cert, key), context


async def test_loopback_and_a_free_port_are_the_default(house: House) -> None:
    listener = Listener(echo)
    assert listener.urls == ()
    async with listener:
        (url,) = listener.urls
        assert url.startswith("http://127.0.0.1:")
        assert int(url.rpartition(":")[2]) > 0


async def test_an_address_that_is_taken_is_named(house: House) -> None:
    port = (await house.serve()).urls[0].rpartition(":")[2]
    with pytest.raises(ListenError, match=rf"cannot listen on 127\.0\.0\.1:{port}: .*[Aa]ddress already in use"):
        await Listener(echo, port=int(port)).start()


async def test_a_host_that_is_not_ours_is_named() -> None:
    with pytest.raises(ListenError, match=r"cannot listen on 192\.0\.2\.1:80: "):
        await Listener(echo, host="192.0.2.1", port=80).start()


async def test_an_ipv6_address_stands_in_brackets(house: House) -> None:
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6 loopback")
    listener = await house.serve(host="::1")
    assert listener.urls[0].startswith("http://[::1]:")
    client = await house.visit(listener)
    client.get("/six")
    assert (await client.answer()).body == b"/six"


async def test_tls_serves_and_says_https(house: House, tls: tuple[Tls, ssl.SSLContext]) -> None:
    listener = await house.serve(tls=tls[0])
    assert listener.urls[0].startswith("https://127.0.0.1:")
    client = await house.visit(listener, ssl=tls[1], server_hostname="localhost")
    for _ in range(2):
        client.post(b"secret" * 50_000)
        assert (await client.answer()).body == b"secret" * 50_000
    assert house.scopes[0]["scheme"] == "https"
    client.send(b"garbage\r\n\r\n")
    assert (await client.answer()).status == 400
    assert await client.rest() == b""
    await client.leave()
    await until(lambda: listener.connections == 0)


async def test_a_handshake_has_the_time_of_a_head(house: House, tls: tuple[Tls, ssl.SSLContext]) -> None:
    listener = await house.serve(tls=tls[0], limits=ListenLimits(head_seconds=0.05))
    client = await house.visit(listener)
    assert await client.rest() == b""


async def test_a_certificate_that_cannot_be_used_is_named(tls: tuple[Tls, ssl.SSLContext], tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("no key")
    for bad in (Tls(tmp_path / "absent.pem", tls[0].key), Tls(tls[0].cert, garbage), Tls(tls[0].key, tls[0].cert)):
        with pytest.raises(ListenError, match=rf"{bad.cert} with the key {bad.key}: "):
            await Listener(echo, tls=bad).start()


async def test_a_unix_socket_is_ours_alone_and_goes_with_us(house: House, tmp_path: Path) -> None:
    path = tmp_path / "t.sock"
    listener = await house.serve(unix=path)
    assert listener.urls == (f"unix:{path}",)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    client = await house.visit(listener)
    client.get("/u")
    assert (await client.answer()).body == b"/u"
    assert house.scopes[0]["client"] is None
    await listener.aclose()
    assert not path.exists()


async def test_a_socket_that_a_dead_server_left_is_replaced_and_a_live_one_is_not(house: House, tmp_path: Path) -> None:
    path = tmp_path / "t.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    listener = await house.serve(unix=path)
    with pytest.raises(ListenError, match=rf"cannot listen on {path}: Address already in use"):
        await Listener(echo, unix=path).start()
    client = await house.visit(listener)
    client.get("/still")
    assert (await client.answer()).body == b"/still"


async def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("data")
    with pytest.raises(ListenError, match="already in use"):
        await Listener(echo, unix=path).start()
    assert path.read_text() == "data"


async def test_the_socket_of_a_successor_is_not_removed(house: House, tmp_path: Path) -> None:
    path = tmp_path / "t.sock"
    first = await house.serve(unix=path)
    path.unlink()
    second = await house.serve(unix=path)
    await first.aclose()
    client = await house.visit(second)
    client.get("/second")
    assert (await client.answer()).body == b"/second"
