"""Who may ask a daemon, and that nobody else is heard (daemon contract, A4, H)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sdk.tests.daemon.conftest import PREFIX, Site
from sdk.tests.daemon.fixtures_daemon import Fixtures
from trunkline_sdk.daemon.protocol.headers import is_wrong_secret
from trunkline_sdk.daemon.server.guard import guard, host_name, is_loopback

ROUTES = [
    "info",
    "conf_chat/models",
    "conf_chat/invoke",
    "conf_chat/stream",
    "conf_chat/refresh",
    "conf_chat/oauth/start",
    "conf_chat/oauth/poll",
    "conf_chat/oauth/exchange",
    "nothing/there",
]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "authorization", [None, "", "Bearer", "Bearer wrong", "Bearer secret-1x", "secret-1", "Basic secret-1", "Bearer é"]
)
async def test_without_the_secret_every_route_is_401_before_the_body_is_read(
    site: Site, route: str, authorization: str | None
) -> None:  # I.3
    asking = await site.serve(Fixtures("secret-1"))
    reader, writer = await asyncio.open_connection("127.0.0.1", int(asking.url.rpartition(":")[2]))
    head = [f"POST {PREFIX}{route} HTTP/1.1", "host: localhost", "content-length: 1000000"]
    head += [] if authorization is None else [f"authorization: {authorization}"]
    writer.write("\r\n".join([*head, "", ""]).encode())  # and no body
    async with asyncio.timeout(10):
        answer = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    assert answer.startswith(b"HTTP/1.1 401 ")
    headers = [line.partition(b": ")[::2] for line in answer.split(b"\r\n")[1:-2]]
    assert is_wrong_secret(401, headers)  # K1


async def test_the_right_secret_is_let_in_and_both_are_while_it_changes(site: Site) -> None:  # I.3
    asking = await site.serve(Fixtures(["  new-secret ", "old-secret"]))
    for secret, status in {"new-secret": 200, "old-secret": 200, "older-secret": 401, "": 401}.items():
        assert (await asking.ask("info", headers={"authorization": f"Bearer {secret}"})).status == status
    assert (await asking.ask("info", headers={"authorization": "bearer   new-secret "})).status == 200


async def test_without_a_secret_anyone_is_let_in(site: Site) -> None:
    for secret in ("", "  ", ()):
        asking = await site.serve(Fixtures(secret))
        assert (await asking.ask("info", headers={"authorization": "Bearer whatever"})).status == 200


@pytest.mark.parametrize(("secrets", "why"), [(["a", "b", "c"], "are 3"), ("a\nb", "control character"), ("a\x7f", "control character")])
def test_secrets_that_cannot_be_are_refused(secrets: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        guard(secrets, ())


def test_a_guard_does_not_print_its_secrets() -> None:
    assert "canary" not in repr(guard("canary-secret", ["h"]))


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:1", 200),
        ("127.0.0.1:18888", 200),
        ("127.9.9.9", 200),
        ("[::1]:5", 200),
        ("daemon.internal:8443", 200),
        ("other.internal", 403),
        ("evil.example", 403),
        ("192.168.0.9", 403),
        ("localhost.evil.example", 403),
        ("", 403),
    ],
)
async def test_a_foreign_host_is_refused(site: Site, host: str, status: int) -> None:
    asking = await site.serve(Fixtures(hosts=["Daemon.internal"]))
    reader, writer = await asyncio.open_connection("127.0.0.1", int(asking.url.rpartition(":")[2]))
    writer.write(f"GET {PREFIX}info HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
    async with asyncio.timeout(10):
        assert (await reader.readuntil(b"\r\n")).split(b" ")[1] == str(status).encode()
    writer.close()


@pytest.mark.parametrize("origin", ["null", "https://evil.example", "http://localhost"])
async def test_a_browser_is_refused(site: Site, origin: str) -> None:
    answer = await (await site.serve(Fixtures())).ask("info", headers={"origin": origin})
    assert (answer.status, answer.error) == (403, "requests from browsers are refused")
    assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_over_a_unix_socket_any_host_will_do(site: Site, tmp_path: Path) -> None:
    await site.serve(Fixtures("secret-1"), unix=tmp_path / "d.sock")
    for authorization, status in {"Bearer secret-1": b"200", "Bearer x": b"401"}.items():
        reader, writer = await asyncio.open_unix_connection(tmp_path / "d.sock")
        writer.write(f"GET {PREFIX}info HTTP/1.1\r\nhost: daemon\r\nauthorization: {authorization}\r\n\r\n".encode())
        async with asyncio.timeout(10):
            assert (await reader.readuntil(b"\r\n")).split(b" ")[1] == status
        writer.close()


def test_names_of_hosts() -> None:
    named = {"h:1": "h", "H": "h", "[::1]:1": "::1", "[::1]": "::1", "::1": "::1", "10.0.0.1:5": "10.0.0.1", "": ""}
    assert {text: host_name(text) for text in named} == named
    assert [is_loopback(name) for name in ("localhost", "a.localhost", "127.3.2.1", "::1")] == [True] * 4
    assert [is_loopback(name) for name in ("", "0.0.0.0", "::", "example.org", "localhost.org")] == [False] * 5
