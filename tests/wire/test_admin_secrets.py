"""Keys and credentials in no sink of the admin API, wherever somebody puts one.

That no answer and no line of the log holds one is checked after every test of this folder (`Gateway.check`), in every spelling; here are the
places where one gets close, and the sinks that are looked at by hand: the database, the metrics.
"""

import asyncio
import json
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.fakes.upstream import Upstream
from tests.wire.gateway import Gateway, Got, forms, question
from tests.wire.sides import Side


async def as_operator(gateway: Gateway, method: str, path: str, body: bytes = b"", **headers: str) -> Got:
    named = {"authorization": f"Bearer {gateway.secrets['admin']}"} | {name.replace("_", "-"): value for name, value in headers.items()}
    response = await gateway.open(method, path, body, named.items())
    found = {name.decode().lower(): value.decode("latin-1") for name, value in response.headers}
    return Got(response.status, found, await response.read())


async def rows(gateway: Gateway, count: int) -> list[dict[str, object]]:
    """The rows of calls, when there are so many."""
    async with asyncio.timeout(10):
        while True:
            found = (await as_operator(gateway, "GET", "/api/v1/exchanges")).json()["data"]
            if len(found) == count:
                return found


@pytest.mark.proves("admin.secrets")
async def test_a_key_that_somebody_puts_anywhere_comes_back_nowhere(gateway: Gateway) -> None:
    key = gateway.key
    spelled = quote(key, safe="")
    every = "".join(f"%{ord(letter):02x}" for letter in key)
    root = "/api/v1"
    asked = [
        await as_operator(gateway, "GET", f"{root}/{path}")
        for each in (spelled, every)
        for path in (
            each,
            f"exchanges/{each}",
            f"providers/{each}",
            f"routes/{each}",
            f"explain?model={each}",
            f"explain?model=fast&format={each}",
            f"exchanges?limit={each}",
            f"exchanges?{each}=1",
            f"exchanges?since={each}&since={each}",
            f"exchanges?outcome={each}&outcome={each}",
            f"exchanges?account={each}",
        )
    ]
    asked += [
        await as_operator(gateway, "GET", f"{root}/exchanges/x", if_match=f'"{key}"'),
        await as_operator(gateway, "GET", f"{root}/exchanges", if_none_match=f'"{key}"'),
        await as_operator(gateway, "GET", f"{root}/exchanges", x_request_id=key),
        await as_operator(gateway, "POST", f"{root}/exchanges", json.dumps({key: key}).encode(), content_type=f"text/{key}"),
        await as_operator(gateway, "POST", f"/openapi.json?{spelled}"),
        await as_operator(gateway, "GET", f"{root}/exchanges", authorization=f"Bearer {key}"),
    ]
    assert {got.status for got in asked} == {200, 400, 403, 404, 405}


@pytest.mark.proves("admin.secrets", "exchanges")
async def test_a_key_in_a_call_is_in_no_row(gateway: Gateway, upstreams: dict[str, Upstream], side: Side, tmp_path: Path) -> None:
    upstreams[side.first].says("hello", times=None)
    lost = "swb_" + "Lost" * 8  # one that no longer opens anything: who sent it gets it back in the error, and nobody else
    user = {"metadata": {"user_id": lost}} if side.dialect == "anthropic" else {"user": lost}
    assert (await gateway.post(side.path, {**question(side), "model": f"{lost}/x"})).status == 404
    assert (await gateway.post(side.path, {**question(side), "model": f"{side.first}/{lost}"})).status == 200
    assert (await gateway.post(side.path, {**question(side), **user}, [("x-request-id", lost)])).status == 200
    found = await rows(gateway, 3)
    assert {row["model"] for row in found} >= {"***/x", f"{side.first}/***"}
    stored = b"".join(path.read_bytes() for path in (tmp_path / "data").glob("trunkline.sqlite*")).decode("utf-8", "replace")
    for name, secret in {**gateway.secrets, "lost": lost}.items():
        assert not any(secret in form for form in {stored, *forms(stored)}), name
    assert "canary prompt" not in stored


@pytest.mark.proves("admin.secrets")
async def test_what_is_listed_and_described_holds_no_secret(gateway: Gateway) -> None:
    for path in ("/api/v1/providers", "/api/v1/routes", "/openapi.json", "/docs/api", "/metrics"):
        got = await as_operator(gateway, "GET", path)
        assert got.status == 200
        for name, secret in gateway.secrets.items():
            assert not any(secret in form for form in forms(got.body.decode())), f"{name} at {path}"
    providers = (await as_operator(gateway, "GET", "/api/v1/providers")).json()["data"]
    assert {row["name"]: row["credential"] for row in providers}["openai"] == "present"
