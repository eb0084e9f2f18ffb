import pickle
import re
from base64 import b64encode, urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.access.vault_key import HEAD, SIZE, VaultKey, new_key, read_keys, write_keys
from trunkline.errors import VaultUnavailable

MATERIAL = st.binary(min_size=SIZE, max_size=SIZE)


@given(st.lists(MATERIAL, unique=True, max_size=4))
def test_keys_that_are_written_are_read_in_their_order(materials: list[bytes]) -> None:
    keys = tuple(map(VaultKey, materials))
    assert read_keys(HEAD + write_keys(keys), "here") == keys


@given(MATERIAL, st.sampled_from([", ", "\n", " ", "\r\n\t"]))
def test_a_key_may_be_written_in_each_usual_way_and_counts_once(material: bytes, between: str) -> None:
    ways = [b64encode(material), urlsafe_b64encode(material), urlsafe_b64encode(material).rstrip(b"="), material.hex().encode()]
    assert read_keys(between.join(way.decode() for way in ways), "here") == (VaultKey(material),)


@given(MATERIAL, MATERIAL)
def test_an_id_tells_keys_apart_and_nothing_of_them(one: bytes, other: bytes) -> None:
    assert re.fullmatch(r"vk_[a-z]{12}", VaultKey(one).id)
    assert (VaultKey(one).id == VaultKey(other).id) == (one == other)


@pytest.mark.parametrize("word", ["canary", "A" * 43 + "?", "é" * 43, "A" * 42, "00" * 31, "0" * 63, b64encode(b"x" * 33).decode()])
def test_what_is_no_key_is_refused_by_its_number_and_not_repeated(word: str) -> None:
    good = b64encode(bytes(SIZE)).decode()
    with pytest.raises(VaultUnavailable) as caught:
        read_keys(f"{good}, {word}", "the file `x`")
    assert "the file `x`: number 2 " in caught.value.message
    assert word not in caught.value.sentence
    assert "openssl rand" in caught.value.hint


def test_nothing_and_comments_hold_no_key() -> None:
    assert read_keys("", "here") == read_keys("# one\n\n  # two", "here") == ()


@pytest.mark.proves("vault.unread")
def test_a_key_does_not_print_or_pickle_itself() -> None:
    key = VaultKey(b"canary-canary-canary-canary-1234")
    for text in (repr(key), str(key), f"{key}", f"{[key]}"):
        assert "canary" not in text
        assert key.id in text
        assert str(key.sealing) not in text
    with pytest.raises(TypeError):
        pickle.dumps(key)


def test_new_keys_are_all_different() -> None:
    assert len({new_key().id for _ in range(100)}) == 100
