import copy
import json
import pickle
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trunkline.base.secret import MASK, SHORTEST, Secret, scrub

Spell = Callable[[str], str]
CANARY = "sk-Ca+na/ry=%&~! \"'\\_key"
secrets = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=SHORTEST, max_size=40)


def test_a_secret_does_not_print_itself() -> None:
    secret = Secret(CANARY)
    texts = [
        str(secret),
        repr(secret),
        f"{secret}",
        f"{secret!r}",
        f"{secret:>40}",
        f"{secret!s}",
        repr([secret]),
    ]
    assert not [text for text in texts if "Ca" in text]
    assert secret.reveal() == CANARY


def test_a_secret_is_neither_pickled_nor_copied() -> None:
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="not pickled") as refusal:
            leave(Secret(CANARY))
        assert CANARY not in str(refusal.value)


def test_secrets_are_compared_by_what_they_hold() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1
    assert Secret("a")
    assert not Secret("")


def plain(text: str) -> str:
    return text


def in_a_path(text: str) -> str:
    return quote(text)


def in_a_query(text: str) -> str:
    return quote(text, safe="")


def in_a_query_in_a_query(text: str) -> str:
    return in_a_query(in_a_query(text))


def form(text: str) -> str:
    return quote_plus(text)


def as_javascript_does(text: str) -> str:
    return quote(text, safe="!'()*~-_.")


def every_character(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def lower_escapes(text: str) -> str:
    head, *rest = quote(text, safe="").split("%")
    return "%".join([head, *(part[:2].lower() + part[2:] for part in rest)])


def mixed_case(text: str) -> str:
    return quote(text, safe="").replace("%2F", "%2f").replace("%5C", "%5c")


def in_json(text: str) -> str:
    return json.dumps(text)[1:-1]


def in_json_for_html(text: str) -> str:
    return in_json(text).replace("&", "\\u0026").replace("/", "\\/")


def in_json_in_json(text: str) -> str:
    return in_json(in_json_for_html(text))


SPELLINGS = [
    plain,
    in_a_path,
    in_a_query,
    in_a_query_in_a_query,
    form,
    as_javascript_does,
    every_character,
    lower_escapes,
    mixed_case,
    in_json,
    in_json_for_html,
    in_json_in_json,
]


@pytest.mark.proves("G19")
@pytest.mark.parametrize("spell", SPELLINGS, ids=lambda spell: spell.__name__)
def test_a_secret_is_taken_out_however_it_is_spelled(spell: Spell) -> None:
    text = f"GET /v1?key={spell(CANARY)}&x=1 failed for `{spell(CANARY)}`."
    assert scrub(text.encode(), [CANARY]).decode() == f"GET /v1?key={MASK}&x=1 failed for `{MASK}`."


@pytest.mark.proves("G19")
@given(secrets, st.lists(st.sampled_from(SPELLINGS), min_size=1, max_size=3), st.text(max_size=10))
@example("aaaaaa", [plain, plain], "")
@example("\\\\\\\\\\\\", [in_json], "\\")
def test_no_spelling_of_any_secret_is_left(secret: str, spells: list[Spell], between: str) -> None:
    text = between + between.join(spell(secret) for spell in spells) + between
    left = scrub(text.encode(), [secret]).decode()
    assert left.count(MASK) >= len(spells)
    assert all(spell(secret) not in left for spell in spells if secret not in MASK * 20)


def test_letters_beyond_ascii_are_taken_out_too() -> None:
    secret = "schlüssel-鍵"
    for spelled in (secret, quote(secret), quote(secret).lower()):
        assert scrub(f"a {spelled} b".encode(), [secret]) == b"a *** b"


def test_a_secret_that_is_the_beginning_of_another_leaves_nothing_of_it() -> None:
    assert scrub(b"sk-canary sk-canary-longer", ["sk-canary", "sk-canary-longer"]) == b"*** ***"


@pytest.mark.parametrize("secret", ["", "a", "abcde"])
def test_a_secret_too_short_to_be_told_from_a_word_is_left(secret: str) -> None:
    assert scrub(b"abcde is a word", [secret]) == b"abcde is a word"


@pytest.mark.parametrize("text", [b"", b"sk-Canary", b"sk-canar y", b"\xff\xfe sk-", b"%73k"])
def test_what_is_no_secret_stays_to_the_byte(text: bytes) -> None:
    assert scrub(text, ["sk-canary"]) == text
