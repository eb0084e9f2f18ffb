"""The local model's server with a stand-in for xllamacpp. The real one: `tests/e2e/test_local_server.py`."""

import json
import os
from pathlib import Path

import pytest

from trunkline.base.process import Process
from trunkline.providers import _local_server
from trunkline.providers._local_server import Settings, command, threads

SETTINGS = Settings(model="/models/tiny.gguf", api_key="canary" * 6, aliases=["tiny", "small"], threads=3, context=1000, parallel=2)
STAND_IN = """
import json, sys
from types import SimpleNamespace

print("a library that prints")

def CommonParams():
    return SimpleNamespace(model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace())

class Server:
    listening_address = "http://127.0.0.1:4711"

    def __init__(self, params):
        print(json.dumps(vars(params), default=lambda it: sorted(it) if isinstance(it, set) else vars(it)), file=sys.stderr)
"""


@pytest.fixture
def xllamacpp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "xllamacpp.py"
    module.write_text(STAND_IN)
    return module


async def test_its_first_line_is_its_port_whatever_a_library_prints(xllamacpp: Path) -> None:
    async with await Process.start(command(SETTINGS)) as server:
        assert json.loads(await server.first_line()) == {"port": 4711}
        assert server.alive


async def test_llama_cpp_is_told_what_the_settings_say(xllamacpp: Path) -> None:
    async with await Process.start(command(SETTINGS)) as server:
        await server.first_line()
    params = json.loads(next(line for line in server.last_words if "api_keys" in line))
    assert params == {
        "model": {"path": "/models/tiny.gguf"},
        "model_alias": ["small", "tiny"],
        "api_keys": [SETTINGS.api_key],
        "hostnames": ["127.0.0.1"],
        "port": 0,
        "cpuparams": {"n_threads": 3},
        "cpuparams_batch": {"n_threads": 3},
        "n_threads_http": 4,
        "n_parallel": 2,
        "n_ctx": 2000,
        "n_batch": 128,
        "n_ubatch": 128,
        "fit_params": False,
        "cache_ram_mib": 0,
        "verbosity": 1,
        "ui": False,
        "endpoint_props": False,
        "endpoint_slots": False,
        "endpoint_metrics": False,
    }


async def test_a_missing_engine_says_how_to_get_it(xllamacpp: Path) -> None:
    xllamacpp.write_text("raise ModuleNotFoundError(\"No module named 'xllamacpp'\")")
    async with await Process.start(command(SETTINGS)) as server:
        assert json.loads(await server.first_line()) == {
            "failed": "xllamacpp cannot be imported: No module named 'xllamacpp'",
            "hint": '`pip install "trunkline[local]"` brings it.',
        }
        assert await server.wait() == 1


async def test_a_model_that_cannot_be_served_is_named(xllamacpp: Path) -> None:
    xllamacpp.write_text(STAND_IN + "        raise RuntimeError('Failed to init server')")
    async with await Process.start(command(SETTINGS)) as server:
        assert json.loads(await server.first_line()) == {"failed": "llama.cpp cannot serve `/models/tiny.gguf`", "hint": ""}
        assert await server.wait() == 1


def test_the_key_stands_neither_in_the_arguments_nor_in_the_environment() -> None:
    server = command(SETTINGS)
    assert SETTINGS.api_key.encode() in server.stdin
    assert SETTINGS.api_key not in str((server.argv, server.env, server, SETTINGS))


def test_the_environment_is_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    environment = command(SETTINGS).env
    assert "OPENAI_API_KEY" not in environment
    assert environment["CUDA_VISIBLE_DEVICES"] == "1"


@pytest.mark.needs("linux")
@pytest.mark.parametrize(("cores", "expected"), [(1, 1), (2, 1), (4, 3), (5, 4), (64, 4)])
def test_one_core_is_left_to_others(monkeypatch: pytest.MonkeyPatch, cores: int, expected: int) -> None:
    monkeypatch.setattr(_local_server.os, "sched_getaffinity", lambda _: set(range(cores)))
    assert threads() == expected


def test_the_server_finds_what_this_process_finds() -> None:
    assert str(Path(_local_server.__file__).parents[2]) in command(SETTINGS).env["PYTHONPATH"].split(os.pathsep)
