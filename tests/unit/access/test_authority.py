import pytest

from tests.fakes.people import holder, operator
from trunkline.access.authority import check_gift, check_operator, check_role, is_operator, sees
from trunkline.errors import Denied


def test_the_command_line_and_operators_may_everything_everywhere() -> None:
    for by in (None, operator()):
        assert is_operator(by)
        assert sees(by, "acc_x")
        check_operator(by, "make accounts")
        check_role(by, "owner")
        check_gift(by, {"admin", "metrics"}, None)


def test_others_see_their_own_account() -> None:
    me = holder("acc_x", "owner")
    assert sees(me, "acc_x")
    assert not sees(me, "acc_default")
    assert not is_operator(me)
    with pytest.raises(Denied, match="make accounts"):
        check_operator(me, "make accounts")


def test_what_is_above_somebody_is_named() -> None:
    with pytest.raises(Denied) as caught:
        check_role(holder("acc_x", "admin"), "owner")
    assert caught.value.sentence == "the key `admin` is an admin's, and may not change what is an owner's. Ask an owner."


def test_a_gift_is_no_more_than_the_giver_has() -> None:
    me = holder("acc_x", "owner", ("inference", "account"), models=("a/*",))
    check_gift(me, {"inference"}, ["a/b", "a/c*"])
    with pytest.raises(Denied, match="`metrics`"):
        check_gift(me, {"inference", "metrics"}, ["a/b"])
    for models in (None, ["b"], ["a/b", "*"]):
        with pytest.raises(Denied, match="models"):
            check_gift(me, {"inference"}, models)
