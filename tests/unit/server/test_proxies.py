import pytest

from trunkline.errors import ConfigInvalid
from trunkline.server.proxies import Proxies

PROXY, OTHER_PROXY, CLIENT, LIAR = "10.0.0.1", "10.0.0.2", "192.0.2.7", "203.0.113.9"


def said(*lines: str) -> list[tuple[bytes, bytes]]:
    return [(b"host", b"x"), *((b"x-forwarded-for", line.encode()) for line in lines)]


def test_without_trusted_proxies_nobodys_word_counts() -> None:
    assert Proxies([]).caller(PROXY, said(CLIENT)) == PROXY


def test_the_word_of_a_peer_that_is_no_trusted_proxy_does_not_count() -> None:
    assert Proxies(["10.0.0.0/8"]).caller(LIAR, said(CLIENT)) == LIAR


@pytest.mark.parametrize("trusted", ["10.0.0.1", "10.0.0.0/8"])
def test_a_trusted_proxy_says_who_the_caller_is(trusted: str) -> None:
    assert Proxies([trusted]).caller(PROXY, said(CLIENT)) == CLIENT


def test_behind_several_proxies_the_last_address_that_is_not_theirs_counts() -> None:
    assert Proxies(["10.0.0.0/8"]).caller(PROXY, said(f"{LIAR}, {CLIENT}, {OTHER_PROXY}")) == CLIENT


def test_a_line_that_a_proxy_added_counts_and_not_the_one_that_the_caller_wrote_before_it() -> None:
    assert Proxies(["10.0.0.0/8"]).caller(PROXY, said(LIAR, CLIENT)) == CLIENT


@pytest.mark.parametrize(
    ("lines", "address"),
    [((), PROXY), (("",), PROXY), (("unknown",), PROXY), ((f"{CLIENT}:4711",), PROXY), ((f"junk, {OTHER_PROXY}",), OTHER_PROXY)],
)
def test_where_the_proxy_says_nothing_usable_the_nearest_known_address_counts(lines: tuple[str, ...], address: str) -> None:
    assert Proxies(["10.0.0.0/8"]).caller(PROXY, said(*lines)) == address


def test_a_chain_of_proxies_alone_is_as_far_as_it_goes() -> None:
    assert Proxies(["10.0.0.0/8"]).caller(PROXY, said(OTHER_PROXY)) == OTHER_PROXY


def test_ipv6_is_meant_too() -> None:
    assert Proxies(["fd00::/8"]).caller("fd00::1", said("2001:db8::7")) == "2001:db8::7"


@pytest.mark.parametrize("peer", ["", "/run/x.sock"])
def test_a_peer_without_an_address_is_trusted_by_nobody(peer: str) -> None:
    assert Proxies(["0.0.0.0/0"]).caller(peer, said(CLIENT)) == peer


@pytest.mark.parametrize("wrong", ["10.0.0.1/8", "proxy.test", "", "*"])
def test_what_is_no_network_is_a_configuration_error(wrong: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"server\.trusted_proxies"):
        Proxies([wrong])
