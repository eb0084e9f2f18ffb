import pytest

from trunkline.errors import BadRequest
from trunkline.model.external_id import LONGEST, check


@pytest.mark.parametrize("text", ["u-1", "käthe@example.com", "user_0 1", "x" * LONGEST])
def test_a_line_is_an_id(text: str) -> None:
    assert check(text, "`user`") == text


@pytest.mark.parametrize("text", ["", "   ", "x" * (LONGEST + 1), "a\nb", "a\x00", "\ud800"])
def test_what_is_no_line_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(BadRequest, match="`user` has"):
        check(text, "`user`")
