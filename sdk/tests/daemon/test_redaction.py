"""Secrets are taken out of texts, however they are spelled."""

import json
from urllib.parse import quote, quote_plus

from hypothesis import given
from hypothesis import strategies as st

from trunkline_sdk.daemon.server.redaction import Redaction, headers

texts = st.text(st.characters(codec="utf-8"), min_size=6, max_size=40)


@given(secret=texts, around=texts)
def test_no_spelling_of_a_secret_is_left(secret: str, around: str) -> None:
    spelled = [secret, json.dumps(secret, ensure_ascii=False)[1:-1], quote(secret, safe=""), quote_plus(secret)]
    cleaned = Redaction([secret]).text("\0".join([around, *spelled]))
    assert not any(spelling in cleaned for spelling in spelled if spelling not in "***" * 20)


def test_of_two_secrets_the_longer_is_taken_whole() -> None:
    assert Redaction(["secret", "secret-longer"]).text("a secret-longer and a secret") == "a *** and a ***"


def test_short_ones_and_none_change_nothing() -> None:
    assert Redaction(["a", "", "abcde"]).text("a abcde") == "a abcde"
    assert "canary" not in repr(Redaction(["canary"]))


def test_headers_for_a_log() -> None:
    shown = headers([(b"Authorization", b"Bearer x"), (b"X-Credential-Anything", b"y"), (b"x-model", "é".encode()), (b"Cookie", b"z")])
    assert shown == [("Authorization", "***"), ("X-Credential-Anything", "***"), ("x-model", "é"), ("Cookie", "***")]
