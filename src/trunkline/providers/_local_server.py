"""The local model's server, a program of its own: `python -m trunkline.providers._local_server`.

It reads one line from stdin, `Settings` as JSON; the key is there because everybody on the machine can read arguments, and every process
of the same user the environment. It says one line on stdout when llama.cpp listens, `{"port": 12345}`, or `{"failed": "…", "hint": "…"}`.
It serves until stdin ends. What llama.cpp has to say goes to stderr, errors only: its warnings quote requests.
"""

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from trunkline.base.codec import Record, decode, encode, text
from trunkline.base.process import Command

HOST = "127.0.0.1"
MOST_THREADS = 4
ERRORS_ONLY = 1  # llama.cpp's verbosity
BATCH = 128
"""Tokens of a prompt that are read between two looks at whether the caller is still there: about a second on one core."""
INHERITED = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
"""What a build of xllamacpp for graphics cards may need to find them."""


class Settings(Record, frozen=True):
    """What to serve.

    Attributes:
        model: path of a GGUF file.
        api_key: what callers must bring: every user of this machine can reach a loopback port.
        aliases: the names under which the model is listed.
        threads: for computing; `None` leaves one core to others, and takes four at most.
        context: tokens of one request, prompt and answer together.
        parallel: requests at a time; more of them wait. Memory for the context is taken for each.
    """

    model: str
    api_key: str
    aliases: list[str]
    threads: int | None = None
    context: int = 4096
    parallel: int = 2

    def __repr__(self) -> str:
        return f"Settings(model={self.model!r})"


def command(settings: Settings, *, hears: Callable[[str], None] | None = None) -> Command:
    """How to start the server."""
    found = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return Command(
        argv=(sys.executable, "-P", "-m", "trunkline.providers._local_server"),
        env={**found, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=encode(settings) + b"\n",
        hears=hears,
    )


def threads() -> int:
    """How many threads compute by default.

    One core is left to others: llama.cpp's threads wait for each other after every layer, and where one of them must share its core
    all are slow (2 threads on 2 cores, one core busy: 15 tokens a second; 1 thread: 49).
    """
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, min(MOST_THREADS, cores - 1))


def main() -> int:
    """Serve until stdin ends."""
    answer = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints, the answer's pipe carries the answer alone
    settings = decode(sys.stdin.buffer.readline(), Settings)
    try:
        xllamacpp: Any = importlib.import_module("xllamacpp")
    except ImportError as error:
        return _refuse(answer, f"xllamacpp cannot be imported: {error}", hint='`pip install "trunkline[local]"` brings it.')
    try:
        server = xllamacpp.Server(_params(settings, xllamacpp.CommonParams()))
    except (RuntimeError, ValueError):
        return _refuse(answer, f"llama.cpp cannot serve `{settings.model}`")
    _say(answer, {"port": int(server.listening_address.rpartition(":")[2])})
    sys.stdin.buffer.read()
    return 0


def _params(settings: Settings, params: Any) -> Any:
    params.model.path = settings.model
    params.model_alias = set(settings.aliases)
    params.api_keys = [settings.api_key]
    params.hostnames = [HOST]
    params.port = 0  # the kernel picks a free one
    for cpu in (params.cpuparams, params.cpuparams_batch):
        cpu.n_threads = settings.threads or threads()
    params.n_threads_http = settings.parallel + 2
    params.n_parallel = settings.parallel
    params.n_ctx = settings.context * settings.parallel
    params.n_batch = params.n_ubatch = BATCH
    params.fit_params = False  # the context is what the settings say
    params.cache_ram_mib = 0  # no store of old prompts; llama.cpp would take 8 GiB
    params.verbosity = ERRORS_ONLY
    params.ui = params.endpoint_props = params.endpoint_slots = params.endpoint_metrics = False
    return params


def _say(answer: int, what: dict[str, object]) -> None:
    os.write(answer, text(what).encode() + b"\n")


def _refuse(answer: int, why: str, *, hint: str = "") -> int:
    _say(answer, {"failed": why, "hint": hint})
    return 1


if __name__ == "__main__":
    status = main()
    if status:
        sys.exit(status)  # in order: llama.cpp's log has a thread, and says why it failed
    os._exit(status)  # at once, requests in flight or not: there is nothing to save
