import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.access.scopes import SCOPES, from_text, granted, parse_scopes, to_text
from trunkline.errors import BadRequest
from trunkline.model.caller import Scope


@given(st.frozensets(st.sampled_from(SCOPES)))
def test_what_is_stored_is_read_back(scopes: frozenset[Scope]) -> None:
    assert from_text(to_text(scopes)) == scopes
    assert parse_scopes(list(scopes)) == scopes


def test_stored_scopes_are_a_sorted_list() -> None:
    assert to_text({"metrics", "inference"}) == '["inference","metrics"]'


@given(st.lists(st.text()), st.frozensets(st.sampled_from(SCOPES)))
def test_a_stored_scope_that_is_not_known_grants_nothing(unknown: list[str], scopes: frozenset[Scope]) -> None:
    assert from_text(to_text([*unknown, *scopes])) == scopes | (set(unknown) & set(SCOPES))


@given(st.text())
def test_a_stored_text_that_cannot_be_read_grants_nothing(text: str) -> None:
    assert from_text(text) <= set(SCOPES)
    assert from_text("{" + text) == frozenset()


def test_admin_includes_everything_and_the_others_only_themselves() -> None:
    assert granted({"admin"}) == set(SCOPES)
    assert granted({"inference"}) == {"inference"}
    assert granted({"metrics"}) == {"metrics"}
    assert granted({"account"}) == {"account"}
    assert granted([]) == frozenset()


def test_an_unknown_scope_is_refused_with_the_nearest() -> None:
    with pytest.raises(BadRequest) as caught:
        parse_scopes(["inferense"])
    assert caught.value.sentence == "there is no scope `inferense`. Did you mean `inference`?"
    with pytest.raises(BadRequest) as caught:
        parse_scopes(["qqq"])
    assert "inference, metrics, account, admin" in caught.value.hint
