"""What is known of models, as callers see it: cards, prices, lists and overrides of a running Trunkline."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.upstream import Upstream
from tests.wire.gateway import Gateway
from trunkline.base.clock import SystemClock
from trunkline.catalog.overrides import Overrides
from trunkline.gateway import discovery, overriding
from trunkline.store.engine import open_engine, sqlite_url

known = pytest.mark.config(providers={"openai": {"models": ["gpt-5-mini"]}, "anthropic": {"models": ["claude-haiku-5-5"]}})
finds = pytest.mark.config(catalog={"discover": True})


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked at every few seconds is looked at all the time."""
    monkeypatch.setattr(discovery, "TICK", 0.01)
    monkeypatch.setattr(overriding, "READ_SECONDS", 0.01)


@pytest.fixture
def alone(config: dict[str, Any]) -> None:
    """There is one provider that can be asked."""
    config["providers"] = {name: config["providers"][name] for name in ("home", "echo")}
    config["routes"] = {}


def listed(*models: str) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": model, "object": "model"} for model in models]}


async def until(gateway: Gateway, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The listing, once something is so in it. There is nothing else to wait for: a provider is asked in the background."""
    for _ in range(500):
        page = (await gateway.get("/v1/models")).json()
        if condition(page):
            return page
    raise AssertionError("it never came")


def ids(page: dict[str, Any]) -> list[str]:
    return [entry["id"] for entry in page["data"]]


@known
@pytest.mark.proves("catalog.listing")
async def test_the_listing_has_prices_limits_and_ends(gateway: Gateway) -> None:
    page = (await gateway.get("/v1/models")).json()
    entry = next(each for each in page["data"] if each["id"] == "openai/gpt-5-mini")
    assert (entry["max_input_tokens"], entry["max_tokens"], entry["shutdown_date"]) == (400_000, 128_000, "2026-12-11")
    assert page["prices"]["anthropic/claude-haiku-5-5"]["input_micro_cents_per_mtok"] == 10_000_000
    assert page["prices"]["echo/echo"]["input_micro_cents_per_mtok"] == 0
    record = next(each for each in page["models"] if each["id"] == "anthropic/claude-haiku-5-5")
    assert record["kind"]["anthropic"]["maxTokensCeiling"] == 128_000
    assert record["kind"]["anthropic"]["temperature"] is False


@known
@pytest.mark.proves("catalog.card", "G13")
async def test_a_parameter_that_a_known_model_refuses_is_left_out_and_told_without_configuration(
    gateway: Gateway, upstreams: dict[str, Upstream]
) -> None:
    upstreams["openai"].says("hello")
    asked = {"model": "gpt-5-mini", "messages": [{"role": "user", "content": "hi"}], "temperature": 0.2, "max_tokens": 9, "odd": [1.0]}
    reply = await gateway.post("/v1/chat/completions", asked)
    assert reply.status == 200
    sent = upstreams["openai"].calls[0].json()
    assert "temperature" not in sent
    assert (sent["max_completion_tokens"], sent["odd"]) == (9, [1.0])
    assert "x-losses" in reply.headers
    refused = await gateway.post("/v1/chat/completions", asked, [("x-trunkline-strict", "1")])
    assert (refused.status, refused.json()["error"]["code"]) == (422, "loss_refused")


@known
@pytest.mark.proves("catalog.card", "bytes.request")
async def test_a_request_that_holds_nothing_of_that_still_passes_to_the_byte(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["anthropic"].says("hello")
    body = b'{"max_tokens":9, "model":"claude-haiku-5-5" ,"messages":[{"role":"user","content":"hi"}]}'
    assert (await gateway.post("/v1/messages", body)).status == 200
    assert upstreams["anthropic"].calls[0].body == body


@pytest.fixture
def knowing_better(config: dict[str, Any]) -> None:
    config["providers"]["openai"]["models"] = {"gpt-5-mini": {"forbidden": []}}


@pytest.mark.proves("catalog.card", "catalog.order")
@pytest.mark.config(routes={"fast": {"targets": [{"model": "openai/gpt-5-mini"}]}})
@pytest.mark.usefixtures("knowing_better")
async def test_the_configuration_knows_better(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["openai"].says("hello")
    asked = {"model": "gpt-5-mini", "messages": [{"role": "user", "content": "hi"}], "temperature": 0.2}
    assert (await gateway.post("/v1/chat/completions", asked)).status == 200
    assert upstreams["openai"].calls[0].json()["temperature"] == 0.2


@finds
@pytest.mark.proves("catalog.discovery")
async def test_what_a_provider_lists_is_listed_and_called_by_its_bare_name(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["home"].answers(200, listed("org/qwen3", "llama"))  # the first of two providers at that address
    for name in ("home", "openai", "openai", "anthropic", "spare"):
        upstreams[name].answers(200, listed("common"))
    page = await until(gateway, lambda page: any(name.endswith("/llama") for name in ids(page)))
    owner = next(name for name in ids(page) if name.endswith("/llama")).partition("/")[0]
    assert owner in {"home", "attic"}
    for name in ("home", "openai", "anthropic", "spare"):
        for call in upstreams[name].calls:
            assert call.method == "GET"
    upstreams["home"].says("hello")
    said = {
        "home": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
        "attic": ("/v1/responses", {"input": "hi"}),
    }
    path, question = said[owner]
    assert (await gateway.post(path, {"model": "llama", **question})).status == 200
    assert upstreams["home"].calls[-1].json()["model"] == "llama"


@pytest.mark.usefixtures("alone", "hurried")
@pytest.mark.config(catalog={"discover": True, "ttl": 10})
@pytest.mark.proves("catalog.discovery")
async def test_a_list_that_cannot_be_renewed_stays_and_is_marked_stale(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    upstreams["home"].answers(200, listed("llama"))
    upstreams["home"].answers(500, {"error": {"message": "our datacenter burns"}}, times=None)
    page = await until(gateway, lambda page: "home/llama" in ids(page))
    assert "stale" not in page["data"][0]
    gateway.clock.advance(11)
    page = await until(gateway, lambda _: "a provider does not list its models" in gateway.log.getvalue())
    assert [(entry["id"], entry.get("stale", False)) for entry in page["data"]] == [("home/llama", True), ("echo/echo", False)]
    [line] = [each for each in gateway.log.records() if each["event"] == "a provider does not list its models"]
    assert (line["provider"], line["code"], line["upstream_status"]) == ("home", "upstream_down", 500)
    assert "datacenter" not in gateway.log.getvalue()


async def test_nobody_is_asked_unless_the_operator_says_so(gateway: Gateway, upstreams: dict[str, Upstream]) -> None:
    await gateway.get("/v1/models")
    assert all(upstream.calls == [] for upstream in upstreams.values())


@pytest.mark.usefixtures("hurried")
async def test_an_override_is_in_use_within_seconds(gateway: Gateway, tmp_path: Path) -> None:
    engine = open_engine(sqlite_url(tmp_path / "data"))
    price = {"rates": {"input": "3.00", "output": "15.00"}}
    Overrides(engine, SystemClock()).create(provider="openai", model="gpt-mini", card={"max_output": 777}, price=price)
    engine.dispose()
    page = await until(gateway, lambda page: "openai/gpt-mini" in page["prices"])
    assert page["prices"]["openai/gpt-mini"]["input_micro_cents_per_mtok"] == 300_000_000
    assert page["prices"]["fast"] == page["prices"]["openai/gpt-mini"], "a route shows its first target's"
    assert next(entry for entry in page["data"] if entry["id"] == "openai/gpt-mini")["max_tokens"] == 777
