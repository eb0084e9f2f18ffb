import inspect
from collections.abc import Iterator
from typing import get_args

import pytest

from trunkline import errors
from trunkline.errors import (
    CallerError,
    ExtensionError,
    Fault,
    NotFound,
    OperatorError,
    TrunklineError,
    UpstreamBusy,
    UpstreamDown,
    UpstreamError,
    UpstreamRefused,
)

FAMILIES: dict[type[TrunklineError], Fault] = {
    CallerError: "caller",
    UpstreamError: "upstream",
    ExtensionError: "extension",
    OperatorError: "operator",
}


def below(kind: type[TrunklineError]) -> Iterator[type[TrunklineError]]:
    for child in kind.__subclasses__():
        yield child
        yield from below(child)


CONCRETE = [kind for kind in below(TrunklineError) if kind not in FAMILIES]
by_name = pytest.mark.parametrize("kind", CONCRETE, ids=lambda kind: kind.__name__)


def test_every_class_of_the_module_is_in_one_of_the_four_families() -> None:
    classes = {each for _, each in inspect.getmembers(errors, inspect.isclass) if each.__module__ == errors.__name__}
    assert classes == {TrunklineError, *FAMILIES, *CONCRETE}
    assert set(FAMILIES.values()) == set(get_args(Fault))


@by_name
def test_every_error_has_a_code_a_status_and_the_fault_of_its_family(kind: type[TrunklineError]) -> None:
    assert kind.code == kind.code.lower().strip("_")
    assert kind.code.replace("_", "").isalpha()
    assert 400 <= kind.status < 600
    assert [kind.fault] == [fault for family, fault in FAMILIES.items() if issubclass(kind, family)]
    assert isinstance(kind.retryable, bool)
    assert kind.__doc__


@by_name
def test_every_error_is_made_from_a_message_alone(kind: type[TrunklineError]) -> None:
    error = kind("it broke")
    assert (str(error), error.message, error.hint, error.retry_after, error.facts) == ("it broke", "it broke", "", None, {})
    assert error.http_status == kind.status


def test_codes_are_unique() -> None:
    codes = [kind.code for kind in CONCRETE]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("kind", [kind for kind in CONCRETE if issubclass(kind, CallerError)], ids=lambda kind: kind.__name__)
def test_a_callers_mistake_is_a_4xx_and_only_a_limit_passes_with_time(kind: type[TrunklineError]) -> None:
    assert 400 <= kind.status < 500
    assert kind.retryable == (kind is errors.LimitReached)


@pytest.mark.parametrize("kind", [kind for kind in CONCRETE if kind.fault not in {"caller", "upstream"}], ids=lambda kind: kind.__name__)
def test_what_is_not_the_callers_fault_is_a_5xx_unless_somebody_has_to_sign_in(kind: type[TrunklineError]) -> None:
    assert 500 <= kind.status < 600 or kind is errors.SignInNeeded


def test_the_providers_own_status_is_handed_on_only_where_it_speaks_to_the_caller() -> None:
    handed_on = {kind for kind in CONCRETE if issubclass(kind, UpstreamError) and kind("x", upstream_status=418).http_status == 418}
    assert handed_on == {UpstreamRefused, UpstreamBusy}
    assert UpstreamBusy("x", upstream_status=529).http_status == 529
    assert UpstreamDown("x", upstream_status=500).http_status == 502


def test_the_hint_follows_the_message_in_one_sentence() -> None:
    assert NotFound("there is no model `x`", hint="Did you mean `y`?").sentence == "there is no model `x`. Did you mean `y`?"
    assert NotFound("there is no model `x`").sentence == "there is no model `x`"


def test_facts_are_kept_for_the_log_and_stay_out_of_the_message() -> None:
    error = UpstreamDown("it broke", body=b"{}", target="a/b", tried=2)
    assert error.facts == {"target": "a/b", "tried": 2}
    assert str(error) == "it broke"
    assert error.body == b"{}"
