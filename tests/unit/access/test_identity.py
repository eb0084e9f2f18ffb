from dataclasses import replace

import pytest

from trunkline.access.identity import Identity
from trunkline.access.settings import AccountSettings
from trunkline.model.caller import Caller

ANN = Caller(id="key_a", kind="service", name="ann", scopes=frozenset({"inference"}))


class Ring:
    """Knows one key, and remembers who asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str | None, str]] = []

    async def identify(self, key: str | None, address: str) -> Caller:
        self.asked.append((key, address))
        return ANN

    async def for_end_user(self, caller: Caller, external_id: str, *, make: bool) -> Caller:
        return replace(caller, user=f"{external_id}, {'made' if make else 'known'}")


async def test_who_asks_is_who_the_ring_knows_by_the_key_of_the_request() -> None:
    ring = Ring()
    identity = Identity(ring, AccountSettings())
    assert await identify(identity, [(b"x-api-key", b"k")]) is ANN
    assert await identify(identity, []) is ANN
    assert ring.asked == [("k", "192.0.2.1"), (None, "192.0.2.1")]


@pytest.mark.parametrize(("setting", "user"), [("refuse", "ada, known"), ("create", "ada, made")])
async def test_whether_an_end_user_is_made_is_a_setting(setting: str, user: str) -> None:
    identity = Identity(Ring(), AccountSettings(unknown_end_users=setting))
    assert (await identity.for_end_user(ANN, "ada")).user == user


async def identify(identity: Identity, headers: list[tuple[bytes, bytes]]) -> Caller:
    return await identity.identify(headers, "192.0.2.1")
