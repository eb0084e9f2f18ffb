import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = [path for folder in ("src", "sdk", "tests", "bench", "docs", "examples", "tools") for path in (ROOT / folder).glob("**/*.py")]


def test_no_module_is_over_600_lines() -> None:
    assert [path for path in MODULES if len(path.read_text(encoding="utf-8").splitlines()) > 600] == []


def test_help_does_not_import_what_commands_need() -> None:
    code = "import sys; from trunkline.cli import make_app; make_app(); print([m for m in ('sqlalchemy', 'uvicorn', 'msgspec', 'structlog') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
