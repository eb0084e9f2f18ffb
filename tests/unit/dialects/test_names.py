"""Tools' names on their way to a vendor that refuses some, and back."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.dialects._names import UNCHANGED, Names, shortened
from trunkline.model.event import Reply
from trunkline.model.part import Text, ToolCall

LONG = "a" * 64
TWINS = [f"{LONG}-read", f"{LONG}-write"]


@pytest.mark.parametrize("name", ["read", "read_file-2", LONG])
def test_a_name_that_is_allowed_stays(name: str) -> None:
    names = Names([name])
    assert (names.short(name), names.original(name), names.changed, names.loss(name, "tools.0")) == (name, name, False, [])


@pytest.mark.proves("G8")
@pytest.mark.parametrize("name", [*TWINS, "files.read", "files/read", "lies\u0131 🛰", f"{LONG}."])
def test_a_name_that_is_not_allowed_becomes_one_that_is_and_comes_back(name: str) -> None:
    names = Names([name])
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", names.short(name))
    assert names.original(names.short(name)) == name
    assert names.changed


@pytest.mark.proves("G8")
def test_names_that_begin_alike_or_differ_only_in_what_is_not_allowed_stay_apart() -> None:
    several = [*TWINS, "files.read", "files/read", "files_read"]
    names = Names(several)
    assert len({names.short(name) for name in several}) == len(several)
    assert names.short("files_read") == "files_read"


@pytest.mark.proves("G8")
def test_a_short_name_is_the_same_in_every_turn_whatever_stands_around_it() -> None:
    alone, among = Names([TWINS[1]]), Names([*TWINS, "files.read"])
    assert alone.short(TWINS[1]) == among.short(TWINS[1]) == f"{'a' * 55}_{alone.short(TWINS[1])[-8:]}"
    assert alone.short("files.read") == among.short("files.read")


@pytest.mark.parametrize("order", [1, -1])
def test_a_name_that_happens_to_be_the_short_one_of_another_stays_apart(order: int) -> None:
    several = ["files.read", shortened("files.read", 64)][::order]
    names = Names(several)
    assert sorted(names.original(names.short(name)) for name in several) == sorted(several)
    assert len({names.short(name) for name in several}) == 2


@given(st.lists(st.text(min_size=1, max_size=80), max_size=6), st.integers(16, 256))
def test_whatever_the_names_are_they_are_allowed_unique_and_reversible(several: list[str], limit: int) -> None:
    names = Names(several, limit=limit)
    short = {name: names.short(name) for name in several}
    assert all(re.fullmatch(rf"[a-zA-Z0-9_-]{{1,{limit}}}", each) for each in short.values())
    assert len(set(short.values())) == len(set(several))
    assert all(names.original(each) == name for name, each in short.items())


def test_a_limit_of_the_models_counts() -> None:
    names = Names(["read_the_whole_file"], limit=16)
    assert len(names.short("read_the_whole_file")) == 16


@pytest.mark.proves("G8")
def test_a_changed_name_is_a_material_loss_once() -> None:
    names = Names(["files.read"])
    [loss] = names.loss("files.read", "tools.0")
    assert (loss.path, loss.severity, loss.change) == ("tools.0", "material", "renamed")
    assert names.short("files.read") in loss.detail
    assert names.loss_of_call("files.read", "messages.1.content.0") == []


def test_a_call_of_a_tool_that_there_is_no_more_has_an_allowed_name_too_and_is_told() -> None:
    names = Names(["read"])
    assert names.short("files.read") == Names(["files.read"]).short("files.read")
    assert [loss.path for loss in names.loss_of_call("files.read", "messages.1.content.0")] == ["messages.1.content.0"]
    assert names.loss_of_call("write", "x") == []


def test_a_reply_has_the_names_that_its_caller_knows() -> None:
    names = Names([*TWINS, "read"])
    calls = [ToolCall(id=str(number), name=names.short(name), arguments="{}") for number, name in enumerate([*TWINS, "read", "invented"])]
    reply = Reply(id="i", model="m", content=(Text(text=names.short(TWINS[0])), *calls))
    restored = names.restored(reply)
    assert [call.name for call in restored.tool_calls] == [*TWINS, "read", "invented"]
    assert restored.content[0] == reply.content[0]
    assert UNCHANGED.restored(reply) is reply
