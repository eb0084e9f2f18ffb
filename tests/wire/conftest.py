"""A Trunkline in this process with fake providers behind it.

    async def test_a_busy_provider_is_left_alone(gateway, upstreams):
        upstreams["openai"].answers(529)
        ...

`@pytest.mark.config(providers={"openai": {"timeouts": {"silence": 0.2}}})` lays tables over its configuration; a module may have a
`config` fixture of its own, built on this one.
"""

import asyncio
import functools
import logging
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.fakes.upstream import Upstream
from tests.wire.gateway import Clock, Gateway, Lines, Recording
from tests.wire.sides import SIDES, Side
from trunkline.access.accounts import Accounts
from trunkline.access.keys import Keys
from trunkline.access.scopes import SCOPES
from trunkline.access.users import Users
from trunkline.app import database, lifecycle
from trunkline.app.config import read
from trunkline.base import members
from trunkline.base.clock import SystemClock
from trunkline.base.log import LogSettings, open_log
from trunkline_sdk import http1

PROVIDERS = {
    "openai": "sk-canary/open+ai=0001",
    "anthropic": "sk-ant-canary/anthro+pic=0002",
    "home": "canary/ho+me=0003",
    "spare": "canary/spa+re=0004",
}
"""The fakes, each with a credential whose characters have other spellings."""

LOAD_ONCE = functools.cache(members.load)
"""Looking for extensions takes most of the time of a start, and finds the same for every test."""

ROOTS_ONCE = functools.cache(http1.tls_context)
"""Reading the platform's trusted roots takes most of the rest."""


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that `trunkline serve` runs on."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def upstreams() -> AsyncIterator[dict[str, Upstream]]:
    """The fake providers, by the names that the configuration gives them."""
    async with AsyncExitStack() as stack:
        yield {name: await stack.enter_async_context(Upstream()) for name in PROVIDERS}


@pytest.fixture
def config(
    request: pytest.FixtureRequest, upstreams: dict[str, Upstream], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """The configuration as plain values."""
    for name, key in PROVIDERS.items():
        (tmp_path / f"{name}.key").write_text(f"{key}\n")
        monkeypatch.setenv(f"CANARY_{name.upper()}", key)
    timeouts = {"connect": 2, "first_byte": 5, "silence": 5}
    tree: dict[str, Any] = {
        "server": {"port": 0, "drain_seconds": 1},
        "providers": {
            "openai": {
                "kind": "openai",
                "base_url": f"{upstreams['openai'].base_url}/v1",
                "api_key": f"file:{tmp_path}/openai.key",
                "models": ["gpt-mini"],
            },
            "anthropic": {
                "kind": "anthropic",
                "base_url": upstreams["anthropic"].base_url,
                "api_key": "env:CANARY_ANTHROPIC",
                "models": ["claude-sonnet"],
            },
            "home": {"kind": "compatible", "base_url": f"{upstreams['home'].base_url}/v1", "api_key": "env:CANARY_HOME"},
            "spare": {"kind": "anthropic", "base_url": upstreams["spare"].base_url, "api_key": f"file:{tmp_path}/spare.key"},
            "echo": {"kind": "echo", "models": ["echo"]},
            "pro": {
                "kind": "openai",
                "base_url": f"{upstreams['openai'].base_url}/v1",
                "api_key": f"file:{tmp_path}/openai.key",
                "models": ["o9"],
                "speaks": ["openai_responses"],
            },
            "attic": {
                "kind": "openai",
                "base_url": f"{upstreams['home'].base_url}/v1",
                "api_key": "env:CANARY_HOME",
                "speaks": ["openai_responses"],
            },
        },
        "routes": {
            "fast": {"targets": [{"model": "openai/gpt-mini"}, {"model": "home/org/qwen3", "order": 1}]},
            "deep": {"targets": [{"model": "pro/o9"}, {"model": "attic/o8", "order": 1}]},
            "smart": {"targets": [{"model": "anthropic/claude-sonnet"}, {"model": "spare/claude-haiku", "order": 1}]},
        },
    }
    for provider in tree["providers"].values():
        provider["timeouts"] = dict(timeouts)
    for mark in request.node.iter_markers("config"):
        _lay_over(tree, mark.kwargs)
    return tree


@pytest.fixture(scope="session")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A data folder, and the keys that are in it by what they may do."""
    folder = tmp_path_factory.mktemp("keyed")
    engine = database.open_store(folder)
    keys = Keys(engine, SystemClock())
    owner = Users(engine, SystemClock()).create("owner", role="owner").id
    made = {scope: keys.create(f"for {scope}", {scope}, user=owner if scope == "account" else None)[1].reveal() for scope in SCOPES}
    engine.dispose()
    return folder, made


@pytest.fixture
def stored() -> dict[str, str]:
    """What is stored that is secret, by a name for it; a module may have some of its own."""
    return {}


@pytest.fixture
async def gateway(
    config: dict[str, Any],
    upstreams: dict[str, Upstream],
    keyed: tuple[Path, dict[str, str]],
    stored: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    quiet_root: None,
) -> AsyncIterator[Gateway]:
    """A running Trunkline. When the test is over, it is held to what is promised of everything that it said."""
    template, keys = keyed
    data = Path(shutil.copytree(template, tmp_path / "data"))
    lines = Lines()
    log, writer = open_log(LogSettings(format="json"), lines)
    recordings: list[Recording] = []

    def record(*given: Any) -> Recording:
        recordings.append(Recording(application(*given)))
        return recordings[-1]

    monkeypatch.setattr(members, "load", LOAD_ONCE)
    monkeypatch.setattr(lifecycle, "tls_context", ROOTS_ONCE)
    application = lifecycle.Application
    monkeypatch.setattr(lifecycle, "Application", record)
    clock = Clock()
    async with lifecycle.installed(read(config), data, log, clock=clock) as installation:
        gateway = Gateway(
            base_url=installation.urls[0],
            key=keys["inference"],
            metrics_key=keys["metrics"],
            secrets={**PROVIDERS, **keys},
            stored=stored,
            upstreams=upstreams,
            log=lines,
            recording=recordings[0],
            clock=clock,
            accounts=Accounts(installation._ground.engine, clock),
            users=Users(installation._ground.engine, clock),
            made_keys=Keys(installation._ground.engine, clock),
        )
        yield gateway
        async with asyncio.timeout(2):
            for plant in installation._plants:
                await plant.exchanges.idle()
        assert await gateway.in_flight() == 0
        await gateway.aclose()
    writer.close()
    gateway.check()


@pytest.fixture
def quiet_root() -> Iterator[None]:
    """The root logger as it was."""
    root = logging.getLogger()
    before = root.handlers[:]
    yield
    root.handlers[:] = before


@pytest.fixture(params=SIDES, ids=str)
def side(request: pytest.FixtureRequest) -> Side:
    """Each dialect in turn."""
    return request.param


def _lay_over(tree: dict[str, Any], tables: Mapping[str, Any]) -> None:
    for name, value in tables.items():
        if isinstance(value, Mapping):
            _lay_over(tree.setdefault(name, {}), value)
        else:
            tree[name] = value
