import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from trunkline.app.folder import PID_FILE, sole_user, user
from trunkline.errors import Conflict, StoreUnavailable


def test_the_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    data = tmp_path / "deep" / "data"
    with sole_user(data):
        assert stat.S_IMODE(data.stat().st_mode) == 0o700


def test_a_second_user_is_refused_with_the_first_ones_process(tmp_path: Path) -> None:
    with sole_user(tmp_path), pytest.raises(Conflict, match=rf"process {os.getpid()}\b") as caught, sole_user(tmp_path):
        pass
    assert "--data" in caught.value.hint
    with sole_user(tmp_path):
        pass


def test_who_uses_it_is_known_while_it_does(tmp_path: Path) -> None:
    assert user(tmp_path) is None
    with sole_user(tmp_path):
        assert user(tmp_path) == os.getpid()
    assert user(tmp_path) is None


def test_what_a_killed_process_left_behind_is_nobodys(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from trunkline.app.folder import sole_user; held = sole_user(Path(sys.argv[1]))"
    )
    code += "; held.__enter__(); os.kill(os.getpid(), signal.SIGKILL)"
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert killed.returncode == -9
    assert (tmp_path / PID_FILE).read_text().strip().isdigit(), "its id is still there, and may be another process's by now"
    assert user(tmp_path) is None
    with sole_user(tmp_path):
        assert user(tmp_path) == os.getpid()


def test_a_folder_that_cannot_be_made_is_an_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="cannot be used") as caught, sole_user(tmp_path / "file" / "data"):
        pass
    assert str(tmp_path / "file" / "data") in caught.value.message
