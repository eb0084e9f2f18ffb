"""Credentials are renewed once (daemon contract, E4; I.13)."""

import pytest

from sdk.tests.daemon.renewal_contract import Provider, RenewalContract, coordinator, refusal
from sdk.tests.daemon.store_contract import StoreContract
from trunkline_sdk.daemon.tokenstore import MemoryStore, is_terminal


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


class TestMemoryStore(StoreContract, RenewalContract):
    """I.13, store suite and coordinator."""


@pytest.mark.parametrize("options", [{"skew": -1}, {"lease_wait": 0}, {"lease_wait": -1}])
def test_options_that_cannot_be(store: MemoryStore, options: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        coordinator(store, Provider(), **options)


def test_what_is_terminal() -> None:
    assert is_terminal(refusal(terminal=True))
    assert not is_terminal(refusal(terminal=False))
    assert not is_terminal(OSError())
    wrapped = RuntimeError("x")
    wrapped.__cause__ = refusal(terminal=True)
    assert is_terminal(wrapped)
