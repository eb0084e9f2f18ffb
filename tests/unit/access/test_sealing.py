import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.access import sealing
from trunkline.access.sealing import NONCE, TAG, VERSION, Unopened, seal, unseal
from trunkline.access.vault_key import SIZE, VaultKey

KEYS = st.binary(min_size=SIZE, max_size=SIZE).map(VaultKey)
PARTS = st.text(max_size=8)
PLACES = st.lists(PARTS, min_size=1, max_size=5)
SECRETS = st.text(max_size=200)


@given(KEYS, PLACES, SECRETS)
@pytest.mark.proves("vault.sealed")
def test_what_is_sealed_opens_at_its_place_with_its_key(key: VaultKey, place: list[str], secret: str) -> None:
    assert unseal(key, place, seal(key, place, secret)) == secret


@given(KEYS, PLACES, SECRETS, st.data())
@pytest.mark.proves("vault.sealed")
def test_any_byte_that_is_another_is_noticed(key: VaultKey, place: list[str], secret: str, data: st.DataObject) -> None:
    sealed = bytearray(seal(key, place, secret))
    at = data.draw(st.integers(0, len(sealed) - 1))
    sealed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(Unopened):
        unseal(key, place, bytes(sealed))


@given(KEYS, PLACES, SECRETS, st.data())
@pytest.mark.proves("vault.sealed")
def test_what_is_cut_or_longer_is_noticed(key: VaultKey, place: list[str], secret: str, data: st.DataObject) -> None:
    sealed = seal(key, place, secret)
    for other in (sealed[: data.draw(st.integers(0, len(sealed) - 1))], sealed + data.draw(st.binary(min_size=1, max_size=9))):
        with pytest.raises(Unopened):
            unseal(key, place, other)


@given(KEYS, PLACES, PLACES, SECRETS)
@pytest.mark.proves("vault.bound")
def test_at_another_place_it_does_not_open(key: VaultKey, place: list[str], other: list[str], secret: str) -> None:
    if place != other:
        with pytest.raises(Unopened):
            unseal(key, other, seal(key, place, secret))


@given(KEYS, st.lists(PARTS, min_size=2, max_size=4), SECRETS, st.data())
@pytest.mark.proves("vault.bound")
def test_a_place_is_not_another_whose_parts_are_joined_otherwise(key: VaultKey, place: list[str], secret: str, data: st.DataObject) -> None:
    whole = "".join(place)
    cut = data.draw(st.integers(0, len(whole)))
    other = [whole[:cut], whole[cut:], *[""] * (len(place) - 2)]
    if place != other:
        with pytest.raises(Unopened):
            unseal(key, other, seal(key, place, secret))


@given(KEYS, KEYS, PLACES, SECRETS)
@pytest.mark.proves("vault.sealed")
def test_with_another_key_it_does_not_open(key: VaultKey, other: VaultKey, place: list[str], secret: str) -> None:
    if key != other:
        with pytest.raises(Unopened):
            unseal(other, place, seal(key, place, secret))


def test_a_key_that_says_it_is_another_does_not_open(monkeypatch: pytest.MonkeyPatch) -> None:
    key = VaultKey(bytes(SIZE))
    sealed = seal(key, ["a"], "canary")
    object.__setattr__(key, "id", "vk_another")
    with pytest.raises(Unopened):
        unseal(key, ["a"], sealed)


def test_no_two_seals_are_the_same_and_each_is_as_long_as_it_says() -> None:
    key = VaultKey(bytes(SIZE))
    seals = {seal(key, ["a"], "canary") for _ in range(100)}
    assert len({sealed[1 : 1 + NONCE] for sealed in seals}) == 100
    assert {len(sealed) for sealed in seals} == {1 + NONCE + len("canary") + TAG}
    assert {sealed[:1] for sealed in seals} == {VERSION}


def test_the_nonce_comes_from_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing.os, "urandom", lambda size: b"n" * size)
    assert seal(VaultKey(bytes(SIZE)), ["a"], "x")[1 : 1 + NONCE] == b"n" * NONCE


def test_what_another_implementation_seals_as_described_opens() -> None:
    import hmac

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    key, place, nonce = VaultKey(bytes(range(SIZE))), ["credentials", "", "x"], bytes(NONCE)
    sealing_key = hmac.digest(bytes(range(SIZE)), b"trunkline vault: seal 1", "sha256")
    bound = b"\x01" + b"".join(len(part).to_bytes(4, "big") + part for part in map(str.encode, [key.id, *place]))
    assert unseal(key, place, b"\x01" + nonce + AESGCM(sealing_key).encrypt(nonce, b"canary", bound)) == "canary"
