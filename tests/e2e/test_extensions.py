"""Extensions of a real server: named in the operator's file, shown by the admin API, changed by a reload, gone with the server."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Refused
from tests.fakes.server import PATIENCE, Server, trunkline
from tests.host.users import reachable

pytestmark = [pytest.mark.needs("linux"), pytest.mark.needs("sandbox")]

WELL = 'def activate(context):\n    context.handle("forecast", lambda params, call: "rain")\n'
RAISES = "def activate(context):\n    raise LookupError('no such city')\n"


def until(server: Server, name: str, state: str) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE
    while True:
        shown = server.ask("GET", f"/api/v1/extensions/{name}").json
        if shown.get("state") == state:
            return shown
        assert time.monotonic() < deadline, shown
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.proves("extensions.api", "supervisor.activation")
def test_the_operators_file_names_them_and_the_api_says_how_they_are(tmp_path: Path) -> None:
    reachable(tmp_path)
    for name, code in {"well": WELL, "raises": RAISES}.items():
        (tmp_path / name).mkdir(mode=0o755)
        (tmp_path / name / "main.py").write_text(code)
    first = f'[extensions.well]\npath = "{tmp_path}/well"\nnetwork = ["api.example.com"]\n'
    second = f'[extensions.raises]\npath = "{tmp_path}/raises"\n'
    with Server(tmp_path, config=first + second) as server:
        well, raises = until(server, "well", "ready"), until(server, "raises", "failed_config")
        assert well["permissions"] == ["network:api.example.com"]
        assert (well["registered"], well["tier"], well["reason"]) == (["forecast"], "A", "")
        assert {each["control"] for each in well["controls"] if each["evidence"] == "applied"} >= {"landlock", "seccomp"}
        assert raises["reason"] == "LookupError: no such city (main.py:2)"
        assert (raises["pid"], raises["next_attempt"]) == (None, None)
        page = server.ask("GET", "/api/v1/extensions?limit=1").json
        assert ([row["id"] for row in page["data"]], page["next"]) == (["raises"], "raises")
        assert server.ask("GET", "/api/v1/extensions/nobody").status == 404
        metrics = server.ask("GET", "/metrics").body.decode()
        assert 'trunkline_extensions{state="ready"} 1.0' in metrics
        assert 'trunkline_extension_worker_ends_total{cause="config",extension="raises"} 1.0' in metrics
        (tmp_path / "raises" / "main.py").write_text(WELL)
        server.config.write_text(second)
        trunkline("reload", "--data", server.data, "--json", home=tmp_path)
        mended = until(server, "raises", "ready")
        deadline = time.monotonic() + PATIENCE
        while server.ask("GET", "/api/v1/extensions/well").status != 404:
            assert time.monotonic() < deadline
        assert is_gone(well["pid"])
        assert not is_gone(mended["pid"])
        assert "LookupError: no such city" in Path(server.data, "extensions", "raises", "log").read_text()
        assert server.stop() == 0
    assert is_gone(mended["pid"])
    assert Path(server.data, "extensions", "raises").stat().st_mode & 0o777 == 0o700


@pytest.mark.proves("extensions.api")
@pytest.mark.parametrize(
    ("file", "wrong"),
    [
        ('[extensions."Not this"]\npath = "/x"\n', "an extension's name has small letters"),
        ("[extensions.weather]\n", "extensions.weather"),
        ('[extensions.weather]\npath = "/x"\nnetwork = ["http://api.example.com"]\n', "`extensions.weather.network`"),
        ('[extensions.weather]\npath = "/x"\nmemory_mb = 1\n', "extensions.weather.memory_mb"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(tmp_path: Path, refused: Refused, file: str, wrong: str) -> None:
    (tmp_path / "trunkline.toml").write_text(file)
    told = refused("config", "check", "--config", str(tmp_path / "trunkline.toml"))
    assert told.returncode == 1
    assert wrong in told.stderr + told.stdout
