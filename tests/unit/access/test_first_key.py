import io
import stat
from pathlib import Path

import pytest

from trunkline.access.first_key import deliver
from trunkline.base.secret import Secret
from trunkline.errors import StoreUnavailable

KEY = "swb_" + "c4nary" * 5 + "xy"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class GoneTerminal(Terminal):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_terminal_shows_the_key_and_no_file_has_it(tmp_path: Path) -> None:
    terminal = Terminal()
    where = deliver(Secret(KEY), tmp_path, terminal)
    assert KEY in terminal.getvalue()
    assert where == "shown on the terminal"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("terminal", [None, io.StringIO(), GoneTerminal()], ids=["none", "a pipe", "gone"])
def test_without_a_terminal_the_key_is_in_a_file_for_its_owner_alone(tmp_path: Path, terminal: io.StringIO | None) -> None:
    where = deliver(Secret(KEY), tmp_path / "data", terminal)
    path = tmp_path / "data" / "admin.key"
    assert where == f"written to {path}"
    assert path.read_text() == KEY + "\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert terminal is None or terminal.getvalue() == ""


def test_an_older_file_is_replaced_whatever_its_rights(tmp_path: Path) -> None:
    path = tmp_path / "admin.key"
    path.write_text("old")
    path.chmod(0o644)
    deliver(Secret(KEY), tmp_path, None)
    assert path.read_text() == KEY + "\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["admin.key"]


def test_a_link_in_the_file_s_place_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (tmp_path / "admin.key").symlink_to(victim)
    deliver(Secret(KEY), tmp_path, None)
    assert victim.read_text() == "untouched"
    assert not (tmp_path / "admin.key").is_symlink()


def test_a_key_that_cannot_be_written_is_not_in_the_error_nor_left_behind(tmp_path: Path) -> None:
    (tmp_path / "admin.key").mkdir()
    with pytest.raises(StoreUnavailable) as caught:
        deliver(Secret(KEY), tmp_path, None)
    assert str(tmp_path / "admin.key") in caught.value.message
    assert "reset-admin" in caught.value.hint
    assert KEY not in caught.value.sentence + repr(caught.value.__cause__)
    assert [file.name for file in Path(tmp_path).iterdir()] == ["admin.key"]
