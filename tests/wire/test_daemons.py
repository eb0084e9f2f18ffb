"""Extension daemons behind a running Trunkline: what they serve is in the catalogue, under its names, and told to the operator."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.fakes.daemon import FakeDaemon
from tests.fakes.upstream import Upstream
from tests.wire.gateway import PROMPT, Gateway
from trunkline.gateway import daemons
from trunkline_sdk.daemon.messages import ModelInfo

SECRET = "daemon-canary/sec+ret=0005"
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
async def daemon(upstreams: dict[str, Upstream]) -> AsyncIterator[FakeDaemon]:
    async with FakeDaemon(upstreams["home"].base_url, secret=SECRET, only=("open", "pasted", "speech")) as daemon:
        daemon.models["pasted"] = (ModelInfo(id="only-here"),)
        yield daemon


@pytest.fixture
def config(config: dict[str, Any], daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("CANARY_DAEMON", SECRET)
    table = {"kind": "daemon", "base_url": daemon.url, "secret": "env:CANARY_DAEMON"}
    config["providers"]["x"] = table | config["providers"].get("x", {})
    return config


@pytest.fixture
def stored() -> dict[str, str]:
    return {"daemon": SECRET}


def behind(page: dict[str, Any], *daemons: str) -> list[str]:
    return [each["id"] for each in page["data"] if each["id"].partition("/")[0] in daemons]


async def until(gateway: Gateway, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The listing, once something is so in it; daemons are asked in the background."""
    async with asyncio.timeout(5):
        while not condition(page := (await gateway.get("/v1/models")).json()):
            pass
    return page


async def admin(gateway: Gateway, path: str) -> Any:
    return (await gateway.get(f"/api/v1{path}", [("authorization", f"Bearer {gateway.secrets['admin']}")])).json()


@pytest.mark.proves("daemon.providers", "daemon.models")
async def test_the_models_behind_a_daemon_are_listed_without_being_configured(gateway: Gateway) -> None:
    page = await until(gateway, lambda page: len(behind(page, "x")) == 5)
    assert behind(page, "x") == ["x/open/m", "x/open/embedder", "x/open/claude", "x/speech/m", "x/pasted/only-here"]
    assert behind(page, "home") == []  # nobody asks it: the configuration does not say so


@pytest.mark.proves("daemon.names", "daemon.surfaces")
async def test_where_a_call_goes_is_explained_by_every_name(gateway: Gateway) -> None:
    await until(gateway, lambda page: "x/pasted/only-here" in behind(page, "x"))
    for model in ("x/pasted/only-here", "pasted/only-here", "only-here"):
        [stop] = (await admin(gateway, f"/explain?model={model}&format=anthropic"))["stops"]
        assert (stop["target"], stop["format"], stop["how"]) == ("x/pasted/only-here", "openai_chat", "translated")
    [stop] = (await admin(gateway, "/explain?model=open/claude&format=openai_chat"))["stops"]
    assert (stop["format"], stop["how"]) == ("anthropic", "translated")


@pytest.mark.proves("daemon.told")
async def test_the_operator_sees_the_daemon_and_what_it_serves(gateway: Gateway) -> None:
    row = await admin(gateway, "/providers/x")
    assert (row["state"], row["daemon"]["version"], row["daemon"]["providers"]) == ("well", "0.0.1-fake", ["open", "speech", "pasted"])
    for path in ("x/pasted", "x%2Fpasted"):
        row = await admin(gateway, f"/providers/{path}")
        assert (row["credential"], row["state"], row["served"]["credential"]) == ("missing", "no credential", "token")


@pytest.mark.config(providers={"x": {"base_url": NOWHERE}}, routes={"first": {"targets": [{"model": "x/open/m"}]}})
async def test_a_daemon_that_is_not_there_holds_up_no_start(gateway: Gateway) -> None:
    row = await admin(gateway, "/providers/x")
    assert (row["state"], row["daemon"]["failure_code"]) == ("not reached", "upstream_down")
    page = (await gateway.get("/v1/models")).json()
    assert behind(page, "x") == []
    assert "first" in [each["id"] for each in page["data"]]  # a route is there, whatever becomes of its targets


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Daemons are looked at all the time."""
    monkeypatch.setattr(daemons, "TICK", 0.01)
    monkeypatch.setattr(daemons, "EVERY", 0.01)
    monkeypatch.setattr(daemons, "AGAIN", 0.01)


@pytest.mark.usefixtures("hurried")
@pytest.mark.proves("daemon.looks")
async def test_a_daemon_that_comes_back_with_other_providers_is_listed_with_them(
    gateway: Gateway, daemon: FakeDaemon, upstreams: dict[str, Upstream]
) -> None:
    await until(gateway, lambda page: "x/open/m" in behind(page, "x"))
    port = int(daemon.url.rpartition(":")[2])
    await daemon.__aexit__(None, None, None)
    async with FakeDaemon(upstreams["home"].base_url, secret=SECRET, only=("chat",), port=port):
        page = await until(gateway, lambda page: behind(page, "x") == ["x/chat/m"])
    assert behind(page, "x") == ["x/chat/m"]


# ---------------------------------------------------------------------------------------------------------------- calls
@pytest.mark.proves("daemon.names")
async def test_a_model_answers_by_each_of_its_names_to_every_sdk(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    await until(gateway, lambda page: "x/open/m" in behind(page, "x"))
    for name in ("x/open/m", "open/m"):
        upstreams["home"].says("from afar")
        reply = await gateway.openai().chat.completions.create(model=name, messages=[{"role": "user", "content": PROMPT}])
        assert reply.choices[0].message.content == "from afar"
        assert (await gateway.told())["attempts"][0].startswith("x/open/m ok")


@pytest.mark.proves("daemon.names")
@pytest.mark.config(
    providers={"x": {"base_url": NOWHERE}}, routes={"fast": {"targets": [{"model": "x/open/m"}, {"model": "home/qwen", "order": 1}]}}
)
async def test_a_route_goes_on_from_a_daemon_that_was_never_reached(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["home"].says("instead")
    reply = await gateway.openai().chat.completions.create(model="fast", messages=[{"role": "user", "content": PROMPT}])
    assert reply.choices[0].message.content == "instead"
    first, second = (await gateway.told())["attempts"]
    assert first.startswith("x/open/m upstream_down")
    assert second.startswith("home/qwen ok")
    refused = await gateway.post("/v1/chat/completions", {"model": "x/open/m", "messages": [{"role": "user", "content": PROMPT}]})
    assert (refused.status, refused.json()["error"]["code"]) == (502, "upstream_down")
