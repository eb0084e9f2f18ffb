from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.base.egress import Class, Egress, EgressSettings, classify
from trunkline.errors import ConfigInvalid, EgressDenied

FORBIDDEN = {
    "the unspecified address": "0.0.0.0",
    "this network": "0.1.2.3",
    "link-local": "169.254.1.1",
    "metadata of most clouds": "169.254.169.254",
    "metadata of Alibaba": "100.100.100.200",
    "metadata of Oracle": "192.0.0.192",
    "metadata of Azure": "168.63.129.16",
    "metadata of AWS over IPv6": "fd00:ec2::254",
    "the same, spelled out": "fd00:0ec2:0:0:0:0:0:0254",
    "metadata of Google over IPv6": "fd20:ce::254",
    "multicast": "224.0.0.1",
    "broadcast": "255.255.255.255",
    "reserved": "240.0.0.1",
    "benchmarks": "198.18.0.1",
    "documentation": "192.0.2.1",
    "the unspecified address of IPv6": "::",
    "link-local of IPv6": "fe80::1",
    "link-local with its interface": "fe80::1%eth0",
    "site-local": "fec0::1",
    "multicast of IPv6": "ff02::1",
    "documentation of IPv6": "2001:db8::1",
    "mapped loopback": "::ffff:127.0.0.1",
    "mapped metadata": "::ffff:169.254.169.254",
    "mapped metadata in hexadecimal": "::ffff:a9fe:a9fe",
    "mapped public": "::ffff:8.8.8.8",
    "translated loopback": "::ffff:0:127.0.0.1",
    "compatible loopback": "::127.0.0.1",
    "NAT64": "64:ff9b::7f00:1",
    "local NAT64": "64:ff9b:1::7f00:1",
    "Teredo": "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "first of Teredo": "2001::",
    "6to4": "2002:7f00:1::",
}


@pytest.mark.proves("G20")
@pytest.mark.parametrize("address", FORBIDDEN.values(), ids=FORBIDDEN)
def test_what_no_provider_has_is_forbidden(address: str) -> None:
    assert classify(address) == "forbidden"


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("::1", "loopback"),
        ("10.0.0.1", "private"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "private"),
        ("fd12::1", "private"),
        ("8.8.8.8", "public"),
        ("172.32.0.1", "public"),
        ("11.0.0.1", "public"),
        ("100.128.0.1", "public"),
        ("2606:4700::1111", "public"),
        ("2a00:1450:4001::1", "public"),
    ],
)
def test_every_other_address_has_its_kind(address: str, kind: Class) -> None:
    assert classify(address) == kind


@pytest.mark.proves("G20")
@given(st.ip_addresses(v=4))
def test_no_address_inside_another_is_let_through(inner: IPv4Address) -> None:
    number = int(inner)
    for outer in (f"::ffff:{inner}", f"::ffff:0:{inner}", f"64:ff9b::{inner}", f"2002:{number >> 16:x}:{number & 0xFFFF:x}::1"):
        assert classify(outer) == "forbidden"
    if number > 1:
        assert classify(f"::{inner}") == "forbidden"


def egress(*allow: str) -> Egress:
    return Egress(EgressSettings(allow=list(allow)))


@pytest.mark.proves("G20")
@pytest.mark.parametrize("address", FORBIDDEN.values(), ids=FORBIDDEN)
def test_a_forbidden_address_is_refused_and_the_refusal_says_how_to_allow_it(address: str) -> None:
    with pytest.raises(EgressDenied) as refusal:
        egress().permitted([address], None)
    assert refusal.value.code == "egress_denied"
    assert "egress.allow" in refusal.value.hint


def test_a_forbidden_address_beside_another_is_left_out() -> None:
    assert egress().permitted(["169.254.169.254", "8.8.8.8", "::ffff:8.8.8.8"], None) == (["8.8.8.8"], "public")


@pytest.mark.parametrize(("first", "kind"), [("8.8.8.8", "public"), ("10.0.0.1", "private"), ("127.0.0.1", "loopback")])
def test_the_first_answer_decides_the_kind_and_its_other_addresses_stay_in_order(first: str, kind: Class) -> None:
    others = ["8.8.4.4", "10.0.0.2", "::1"]
    permitted, known = egress().permitted([first, *others], None)
    assert known == kind
    assert permitted == [first, *(each for each in others if classify(each) == kind)]


@pytest.mark.proves("G20")
@pytest.mark.parametrize(
    ("known", "now"), [("public", "10.0.0.1"), ("public", "127.0.0.1"), ("private", "127.0.0.1"), ("loopback", "8.8.8.8")]
)
def test_a_name_whose_address_changes_its_kind_is_refused(known: Class, now: str) -> None:
    with pytest.raises(EgressDenied, match=f"had a {known} address and now has a {classify(now)} one"):
        egress().permitted([now], known)


@pytest.mark.proves("G20")
def test_of_a_changed_answer_only_the_known_kind_is_dialled() -> None:
    assert egress().permitted(["10.0.0.1", "8.8.4.4"], "public") == (["8.8.4.4"], "public")


def test_the_operator_may_allow_any_address_by_name_or_network() -> None:
    rules = egress("169.254.10.0/24", "::ffff:127.0.0.1")
    assert rules.permitted(["169.254.10.7"], None)[0] == ["169.254.10.7"]
    assert rules.permitted(["::ffff:127.0.0.1"], None)[0] == ["::ffff:127.0.0.1"]
    with pytest.raises(EgressDenied):
        rules.permitted(["169.254.169.254"], None)
    with pytest.raises(EgressDenied):
        egress("127.0.0.0/8").permitted(["::ffff:127.0.0.1"], None)


def test_an_allowed_address_goes_before_the_others() -> None:
    assert egress("10.0.0.5").permitted(["8.8.8.8", "10.0.0.5"], "public") == (["10.0.0.5"], "public")


@pytest.mark.proves("G20")
def test_an_allowed_address_does_not_open_the_way_to_its_neighbours() -> None:
    rules = egress("10.0.0.5")
    _, known = rules.permitted(["8.8.8.8"], None)
    _, known = rules.permitted(["10.0.0.5"], known)
    with pytest.raises(EgressDenied):
        rules.permitted(["10.0.0.6"], known)


@pytest.mark.parametrize("wrong", ["10.0.0.1/8", "localhost", "", "10.0.0.0/33", "example.com/24"])
def test_an_allowance_that_is_no_network_is_refused_with_its_text(wrong: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"egress\.allow") as refusal:
        egress(wrong)
    assert wrong in str(refusal.value)
