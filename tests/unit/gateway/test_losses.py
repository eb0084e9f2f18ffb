"""Which losses are refused, and how they are told."""

import base64
import json

import pytest

from trunkline.base.codec import parse
from trunkline.errors import LossRefused
from trunkline.gateway.losses import DEFAULT, HEADER_BYTES, STRICT, LossRule, comment, header, judge
from trunkline.model.loss import Loss, approximated, dropped, renamed, unsupported

pytestmark = pytest.mark.proves("losses.rules")


def rule(action: str = "reject", **rest: str) -> LossRule:
    return parse({"action": action, **rest}, LossRule)


# -------------------------------------------------------------------------------------------------------------- rules
@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("", "anything.at.all", True),
        ("temperature", "temperature", True),
        ("temperature", "temperature.x", False),
        ("messages.*", "messages.0", True),
        ("messages.*", "messages", False),
        ("messages.*", "messages.0.content", False),
        ("messages.*.content", "messages.12.content", True),
        ("messages.**", "messages", True),
        ("messages.**", "messages.0.content.1", True),
        ("**.cache_control", "cache_control", True),
        ("**.cache_control", "messages.0.content.1.cache_control", True),
        ("**.cache_control", "messages.0.cache_control.ttl", False),
        ("messages.**.detail", "messages.0.content.1.detail", True),
        ("tool*", "tools", True),
        ("tool*.0", "tools.0", True),
        ("**", "x", True),
    ],
)
def test_a_pattern_fits_a_path_step_by_step(pattern: str, path: str, fits: bool) -> None:
    assert rule(path=pattern).fits(dropped(path)) == fits


@pytest.mark.parametrize(
    ("fields", "loss", "fits"),
    [
        ({"severity": "material"}, unsupported("a"), True),
        ({"severity": "material"}, dropped("a"), False),
        ({"class": "dropped"}, dropped("a"), True),
        ({"class": "dropped"}, approximated("a"), False),
        ({"class": "dropped", "severity": "material"}, dropped("a"), False),
        ({"class": "dropped", "severity": "material"}, dropped("a", material=True), True),
    ],
)
def test_a_rule_fits_by_severity_and_class(fields: dict[str, str], loss: Loss, fits: bool) -> None:
    assert rule(**fields).fits(loss) == fits


@pytest.mark.parametrize(
    ("loss", "by_default", "in_strict"),
    [
        (unsupported("a"), True, True),
        (dropped("a", material=True), False, True),
        (approximated("a", material=True), False, True),
        (Loss("a", "material", "renamed"), False, True),
        (dropped("a"), False, False),
        (approximated("a"), False, False),
        (renamed("a"), False, False),
        (Loss("a", "advisory", "unsupported"), False, False),
    ],
)
def test_by_default_content_and_tools_must_not_vanish_and_in_strict_nothing_that_matters(
    loss: Loss, by_default: bool, in_strict: bool
) -> None:
    for rules, refused in ((DEFAULT, by_default), ((*STRICT, *DEFAULT), in_strict)):
        if refused:
            with pytest.raises(LossRefused):
                judge([loss], rules)
        else:
            judge([loss], rules)


def test_the_first_rule_that_fits_decides() -> None:
    losses = [unsupported("messages.0.content.1")]
    judge(losses, [rule("allow", path="messages.**"), *DEFAULT])
    with pytest.raises(LossRefused):
        judge(losses, [*DEFAULT, rule("allow", path="messages.**")])
    with pytest.raises(LossRefused):
        judge([dropped("seed")], [rule("reject", path="seed")])


def test_no_losses_are_never_refused() -> None:
    judge([], [rule("reject")])


def test_a_refusal_names_the_paths_and_what_happened_and_not_endlessly_many() -> None:
    with pytest.raises(LossRefused) as caught:
        judge([dropped("seed"), *(unsupported(f"messages.{number}", "no audio") for number in range(7))], DEFAULT)
    assert (caught.value.code, caught.value.http_status) == ("loss_refused", 422)
    assert "`messages.0` is unsupported (no audio); `messages.1`" in caught.value.message
    assert caught.value.message.endswith("; and 2 more")
    assert "seed" not in caught.value.message
    assert caught.value.hint


# ---------------------------------------------------------------------------------------------------------------- told
def in_header(losses: list[Loss]) -> list[dict[str, str]]:
    [(name, value)] = header(losses)
    assert name == b"x-losses"
    assert len(value) <= HEADER_BYTES
    return json.loads(base64.b64decode(value, validate=True))


@pytest.mark.proves("losses.told")
def test_losses_are_told_in_a_header_as_base64_of_a_json_list() -> None:
    assert in_header([unsupported("messages.0.content.1", "kış 🛰"), dropped("seed")]) == [
        {"path": "messages.0.content.1", "class": "unsupported", "severity": "material", "detail": "kış 🛰"},
        {"path": "seed", "class": "dropped", "severity": "advisory", "detail": ""},
    ]


def test_without_losses_there_is_no_header() -> None:
    assert header([]) == []


def test_of_very_many_losses_the_material_ones_are_told_and_how_many_are_left_out() -> None:
    many = [dropped(f"messages.{number}.id", "x" * 40) for number in range(500)]
    told = in_header([*many, unsupported("tools.0", "the one that matters")])
    assert told == sorted(told, key=lambda loss: loss["path"])
    rest, *shown = told
    assert shown[-1]["path"] == "tools.0"
    assert rest == {"path": "**", "class": "dropped", "severity": "advisory", "detail": f"and {501 - len(shown)} more"}
    assert len(shown) > 20


def test_a_loss_that_is_larger_than_a_header_is_counted_at_least() -> None:
    assert in_header([dropped("a", "x" * 10_000)]) == [{"path": "**", "class": "dropped", "severity": "advisory", "detail": "and 1 more"}]


def test_a_comment_in_a_stream_is_one_line_whatever_stands_in_it() -> None:
    told = comment([dropped("a", "two\nlines\r\n\u2028")])
    assert told.startswith(b": trunkline.losses [")
    assert told.endswith(b"]\n\n")
    assert b"\n" not in told[:-2]
    assert b"\r" not in told
