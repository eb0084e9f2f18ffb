"""What is imported when: nothing during a request, and little for a page of help."""

import json
import subprocess
import sys
from pathlib import Path

from tests.fakes.server import PATIENCE, environment

SCRIPT = """
import asyncio, io, json, sys
from pathlib import Path
from trunkline.app.config import read
from trunkline.app.lifecycle import installed
from trunkline.base.log import LogSettings, open_log
from trunkline_sdk.http1 import Client

CALL = {"model": "echo", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
REQUESTS = [
    ("POST", "/v1/chat/completions", CALL),
    ("POST", "/v1/chat/completions", {**CALL, "stream": True}),
    ("POST", "/v1/messages", CALL),
    ("POST", "/v1/messages", {**CALL, "stream": True}),
    ("POST", "/v1/messages", {**CALL, "model": "ehco"}),
    ("POST", "/v1/chat/completions", {**CALL, "model": "gone/x"}),
    ("GET", "/v1/models", None),
    ("GET", "/metrics", None),
    ("GET", "/nothing", None),
    ("GET", "/api/v1/providers", None),
    ("GET", "/api/v1/exchanges?limit=1", None),
    ("GET", "/api/v1/exchanges/rqe_x", None),
    ("GET", "/api/v1/explain?model=echo", None),
    ("GET", "/openapi.json", None),
    ("GET", "/docs/api", None),
]

async def main(data):
    log, writer = open_log(LogSettings(), io.StringIO())
    config = read({"server": {"port": 0}, "providers": {
        "echo": {"kind": "echo", "models": ["echo"]},
        "gone": {"kind": "compatible", "base_url": "http://127.0.0.1:9/v1"},
    }})
    grown = []
    async with installed(config, data, log) as installation, Client() as client:
        key = (data / "admin.key").read_text().strip()
        headers = [(b"authorization", f"Bearer {key}".encode())]
        for method, path, body in REQUESTS * 2:
            before = set(sys.modules)
            response = await client.request(method, installation.urls[0] + path, headers, json.dumps(body).encode() if body else b"")
            await response.read()
            grown.append([f"{method} {path} {response.status}", sorted(set(sys.modules) - before)])
    writer.close()
    print(json.dumps(grown))

asyncio.run(main(Path(sys.argv[1])))
"""

HEAVY = {
    "sqlalchemy",
    "alembic",
    "uvicorn",
    "uvloop",
    "httptools",
    "structlog",
    "prometheus_client",
    "asyncio",
    "ssl",
    "msgspec",
    "markdown_it",
}


def run(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment(home), timeout=PATIENCE, check=True, cwd=home
    )


def test_after_the_first_request_none_imports_anything(tmp_path: Path) -> None:
    grown = json.loads(run("-c", SCRIPT, str(tmp_path / "data"), home=tmp_path).stdout)
    kinds = len(grown) // 2
    assert [request for request, _ in grown[:kinds]] == [request for request, _ in grown[kinds:]]
    assert {request.rpartition(" ")[2] for request, _ in grown} == {"200", "404", "502"}
    assert [(request, modules) for request, modules in grown[1:] if modules] == []


def test_a_page_of_help_imports_none_of_the_server(tmp_path: Path) -> None:
    told = run("-X", "importtime", "-m", "trunkline", "--help", home=tmp_path).stderr
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in told.splitlines() if line.startswith("import time:")}
    assert "cyclopts" in imported
    assert imported & HEAVY == set()
