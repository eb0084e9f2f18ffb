"""Trunkline as a default installation runs it: key check, metrics, and the log at `info`, as JSON into a file.

Calls name `provider/model`, so that the model's name is rewritten in every body.
"""

import importlib.util
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from bench.gateways import Gateway, Launch, Place

ROOT = Path(__file__).parents[2]

CONF = """\
[server]
port = {port}

[providers.up]
kind = "compatible"
base_url = "http://127.0.0.1:{upstream}/v1"
api_key = "env:BENCH_UPSTREAM_KEY"

[providers.claude]
kind = "anthropic"
base_url = "http://127.0.0.1:{upstream}"
api_key = "env:BENCH_UPSTREAM_KEY"
"""

DAEMON = """\

[providers.behind]
kind = "daemon"
base_url = "http://127.0.0.1:{upstream}"
"""


def missing(_: Path) -> str:
    """Whether this Python has what the server needs."""
    lacking = [name for name in ("httptools", "uvloop", "sqlalchemy", "structlog", "cyclopts") if importlib.util.find_spec(name) is None]
    return f"this Python lacks {', '.join(lacking)}: `make test` makes one that has all in .venv" if lacking else ""


def launch(place: Place, tree: Path) -> Launch:
    """A data folder of its own, with one key."""
    conf = place.work / "trunkline.toml"
    text = CONF + (DAEMON if _knows_daemons(tree) else "")
    conf.write_text(text.format(port=place.port, upstream=place.upstream), encoding="utf-8")
    env = {
        "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree / 'sdk/src'}",
        "TRUNKLINE_CONFIG": str(conf),
        "TRUNKLINE_DATA": str(place.work / "data"),
        "BENCH_UPSTREAM_KEY": "sk-upstream-secret",
    }
    command = [sys.executable, "-m", "trunkline"]
    made = subprocess.run([*command, "keys", "create", "bench"], env={**os.environ, **env}, capture_output=True, text=True, check=True)
    return Launch([*command, "serve"], env, (f"Authorization: Bearer {made.stdout.strip()}",))


def gateway(name: str, tree: Path) -> Gateway:
    """The Trunkline of a source tree."""
    daemon = "behind/chat/{}" if _knows_daemons(tree) else None
    return Gateway(name=name, missing=missing, launch=partial(launch, tree=tree), model="up/{}", claude="claude/{}", daemon=daemon)


def _knows_daemons(tree: Path) -> bool:
    return (tree / "src/trunkline/providers/daemon.py").exists()


GATEWAY = gateway("trunkline", ROOT)
