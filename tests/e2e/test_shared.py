"""The installed server with its counters, messages and leases on Valkey or Redis, by a line that can be cut."""

import os
from pathlib import Path

import pytest

from tests.fakes.cut import Cut
from tests.fakes.server import Server, trunkline
from tests.services import REDIS

pytestmark = pytest.mark.needs("redis")

CONFIG = """
[store]
shared = "env:SHARED"
[providers.echo]
kind = "echo"
models = ["echo"]
"""
CHAT = {"model": "echo", "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.proves("shared.outage")
def test_a_server_starts_serves_and_stops_while_its_shared_store_is_away(tmp_path: Path, redis_prefix: str) -> None:
    with Cut(os.environ[REDIS]) as line:
        line.cut()
        with Server(tmp_path / "one", config=CONFIG, SHARED=f"{line.url}?prefix={redis_prefix}") as server:
            assert server.ask("POST", "/v1/chat/completions", CHAT).status == 200
            assert server.said("a background task failed", task="bus")
            line.mend()
            connected = line.connections
            while line.connections == connected == 0:
                assert server.ask("POST", "/v1/chat/completions", CHAT).status == 200
            line.cut()
            assert server.ask("POST", "/v1/chat/completions", CHAT).status == 200
            assert server.ask("GET", "/readyz", key=None).status == 200
            assert server.stop() == 0
        assert not [text for text in server.raw if "Traceback" in text and "StoreUnavailable" not in text]


def test_a_shared_store_that_cannot_be_meant_is_an_error_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "trunkline.toml").write_text(CONFIG)
    result = trunkline("serve", "--config", tmp_path / "trunkline.toml", home=tmp_path, SHARED="redis://:hunter2@/0")
    assert result.returncode == 1
    assert "store.shared" in result.stderr
    assert "hunter2" not in result.stderr
    assert not (tmp_path / ".local").exists()
