import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from trunkline.errors import NotFound
from trunkline.model.caller import Caller
from trunkline.server import pages
from trunkline.surfaces import Listed
from trunkline.surfaces.models import SURFACE

MODELS = [Listed("fast", "trunkline", "openai_chat"), Listed("home/org/qwen3", "home", "openai_chat")]
ANN = Caller(id="key_a", kind="service", name="ann", scopes=frozenset({"inference"}))
[LISTING] = SURFACE.listings


def test_health_says_no_detail_and_is_open() -> None:
    page = pages.health()
    assert page.read("", ANN) == (200, b'{"status":"ok"}')
    assert page.scope is None


def test_readiness_is_a_status() -> None:
    ready = True
    page = pages.readiness(lambda: ready)
    assert page.scope is None
    assert page.read("", ANN) == (200, b'{"status":"ready"}')
    ready = False
    assert page.read("", ANN) == (503, b'{"status":"not ready"}')


def test_metrics_need_their_own_scope() -> None:
    page = pages.metrics(lambda: b"# none")
    assert page.scope == "metrics"
    assert page.read("", ANN) == (200, b"# none")


def test_all_models_are_on_one_page_and_each_below_it_by_its_whole_name() -> None:
    made = pages.listing(lambda _: MODELS, LISTING)
    assert {page.scope for page in made.values()} == {"inference"}
    status, body = made["/v1/models"].read("", ANN)
    assert status == 200
    assert [entry["id"] for entry in json.loads(body)["data"]] == ["fast", "home/org/qwen3"]
    status, body = made["/v1/models/"].read("home/org/qwen3", ANN)
    assert (status, json.loads(body)["id"], json.loads(body)["owned_by"]) == (200, "home/org/qwen3", "home")


def test_a_model_that_is_not_listed_is_told_the_nearest() -> None:
    made = pages.listing(lambda _: MODELS, LISTING)
    with pytest.raises(NotFound, match="there is no model `fsat`") as caught:
        made["/v1/models/"].read("fsat", ANN)
    assert caught.value.hint == "Did you mean `fast`?"
    with pytest.raises(NotFound) as caught:
        made["/v1/models/"].read("", ANN)
    assert caught.value.hint == "`GET /v1/models` lists the names."


def test_a_listing_shows_what_there_is_now_and_is_written_once_while_that_is_the_same() -> None:
    models: list[Listed] = []
    written: list[int] = []

    def write_all(listed: Sequence[Listed]) -> bytes:
        written.append(len(listed))
        return LISTING.write_all(listed)

    made = pages.listing(lambda _: models, replace(LISTING, write_all=write_all))
    page = made["/v1/models"]
    assert json.loads(page.read("", ANN)[1])["data"] == []
    assert page.read("", ANN) == page.read("", ANN)
    models = MODELS
    assert len(json.loads(page.read("", ANN)[1])["data"]) == 2
    assert made["/v1/models/"].read("fast", ANN)[0] == 200
    assert written == [0, 2]
