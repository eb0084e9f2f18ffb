import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.errors import ConfigInvalid, EgressDenied
from trunkline.host.grants import Grants, network


@pytest.mark.proves("host.grants")
@pytest.mark.parametrize(
    ("granted", "host", "port", "allowed"),
    [
        ("network:api.example.com", "api.example.com", 443, True),
        ("network:api.example.com", "api.example.com", 8080, True),
        ("network:api.example.com", "API.example.com.", 443, True),
        ("network:API.Example.com", "api.example.com", 443, True),
        ("network:api.example.com", "api.example.com.evil.net", 443, False),
        ("network:api.example.com", "xapi.example.com", 443, False),
        ("network:api.example.com", "a.api.example.com", 443, False),
        ("network:api.example.com", "apizexample.com", 443, False),
        ("network:api.example.com:8443", "api.example.com", 8443, True),
        ("network:api.example.com:8443", "api.example.com", 443, False),
        ("network:*.example.com", "a.example.com", 443, True),
        ("network:*.example.com", "a.b.example.com", 443, True),
        ("network:*.example.com", "example.com", 443, False),
        ("network:*.example.com", "evilexample.com", 443, False),
        ("network:*.example.com:8443", "a.example.com", 8443, True),
        ("network:*.example.com:8443", "a.example.com", 443, False),
        ("network:*", "anything.example", 1, True),
        ("network:localhost", "localhost", 80, True),
        ("network:localhost", "127.0.0.1", 80, True),
        ("network:localhost", "::1", 80, True),
        ("network:localhost", "127.0.0.2", 80, False),
        ("network:localhost:8080", "localhost", 80, False),
        ("network:[::1]:8080", "0:0:0:0:0:0:0:1", 8080, True),
        ("network:[::1]:8080", "::1", 80, False),
        ("network:127.0.0.1", "2130706433", 80, False),
        ("storage.collections", "api.example.com", 443, False),
    ],
)
def test_a_permission_of_the_network_allows_its_place_and_no_other(granted: str, host: str, port: int, allowed: bool) -> None:
    assert Grants([granted]).allows(network(host, port)) is allowed


@given(st.text("ab.", min_size=1, max_size=6), st.integers(1, 65535))
def test_a_pattern_allows_only_what_ends_in_it(host: str, port: int) -> None:
    allowed = Grants(["network:*.b.a"]).allows(f"network:{host}:{port}")
    assert allowed is host.endswith(".b.a")


def test_other_permissions_are_as_they_stand_or_end_in_a_star() -> None:
    grants = Grants(["user.list", "storage:*"])
    assert [grants.allows(each) for each in ("user.list", "user.list2", "storage:a", "storage", "network:a:1")] == [
        True,
        False,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        "network:",
        "network:http://a",
        "network:a b",
        "network:a:0",
        "network:a:70000",
        "network:a*b",
        "network:*.1",
        "network:*.0x7f",
        "network:[zz]",
        "network:[1::2::3]",
        "network:a/b",
        "network:.a",
        "network:u@a",
        "network:a:",
    ],
)
def test_a_permission_that_cannot_be_meant_is_refused_with_an_example(wrong: str) -> None:
    with pytest.raises(ConfigInvalid) as refusal:
        Grants([wrong])
    assert wrong in refusal.value.message
    assert "network:api.example.com" in refusal.value.hint


INSIDE = [
    "127.0.0.1",
    "10.1.2.3",
    "192.168.0.1",
    "169.254.169.254",
    "::1",
    "fd00::1",
    "fe80::1%2",
    "::ffff:8.8.8.8",
    "100.100.100.200",
    "0.0.0.0",
]


@pytest.mark.proves("host.addresses")
@pytest.mark.parametrize("address", INSIDE)
@pytest.mark.parametrize("granted", ["network:*", "network:api.example.com", "network:10.1.2.3:81"])
def test_no_address_inside_is_reached_that_the_operators_file_does_not_name(address: str, granted: str) -> None:
    for grants in (Grants([granted]), Grants(operator=[granted]), Grants(["network:10.1.2.3", "network:localhost"])):
        with pytest.raises(EgressDenied):
            grants.reachable("api.example.com", 80, [address], lambda _: True)


@pytest.mark.proves("host.addresses")
@pytest.mark.parametrize(
    ("named", "address", "listed", "reached"),
    [
        ("network:10.1.2.3", "10.1.2.3", False, True),
        ("network:10.1.2.3:80", "10.1.2.3", False, True),
        ("network:localhost", "127.0.0.1", False, True),
        ("network:localhost", "::1", False, True),
        ("network:localhost", "127.0.0.2", False, False),
        ("network:[fd00::1]", "fd00:0::1", False, True),
        ("network:169.254.169.254", "169.254.169.254", False, False),
        ("network:169.254.169.254", "169.254.169.254", True, True),
        ("network:*", "169.254.169.254", True, False),
    ],
)
def test_an_address_inside_takes_the_operators_own_word_and_a_metadata_address_two(
    named: str, address: str, listed: bool, reached: bool
) -> None:
    def found() -> list[str]:
        return Grants(operator=[named]).reachable("api.example.com", 80, [address], lambda _: listed)

    if reached:
        assert found() == [address]
    else:
        with pytest.raises(EgressDenied):
            found()


def test_of_an_answer_with_both_kinds_only_the_public_addresses_are_left() -> None:
    assert Grants(["network:*"]).reachable("a", 80, ["10.0.0.1", "8.8.8.8", "127.0.0.1"], lambda _: False) == ["8.8.8.8"]
