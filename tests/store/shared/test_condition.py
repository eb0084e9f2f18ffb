"""What `trunkline doctor` says of a shared store."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.services import REDIS
from tests.store.shared.test_link import server
from trunkline.app.diagnosis import diagnose
from trunkline.base.secret import Secret
from trunkline.errors import StoreReadOnly, StoreUnavailable
from trunkline.store.shared.address import address
from trunkline.store.shared.condition import look


async def looked(info: str) -> str:
    async with server(b"$%d\r\n%s\r\n" % (len(info), info.encode())) as url:
        return await look(replace(address(Secret(url)), username=None, password=None))


async def test_a_server_is_named_with_what_it_keeps() -> None:
    assert (await looked("# Server\r\nredis_version:7.0.0\r\nrole:master\r\naof_enabled:0\r\n")).startswith("Redis 7.0.0 at 127.0.0.1:")
    told = await looked("redis_version:7.2.4\r\nvalkey_version:8.1.0\r\nrole:master\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n")
    assert told.startswith("Valkey 8.1.0")
    assert told.endswith("kept over a restart")


async def test_a_server_that_throws_counters_away_is_no_shared_store() -> None:
    with pytest.raises(StoreUnavailable, match="allkeys-lru") as caught:
        await looked("role:master\r\nmaxmemory_policy:allkeys-lru\r\n")
    assert "noeviction" in caught.value.hint
    with pytest.raises(StoreReadOnly, match="replica"):
        await looked("role:slave\r\nmaxmemory_policy:noeviction\r\n")


@pytest.mark.needs("redis")
def test_doctor_looks_at_it_where_one_is_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "shared store" not in [finding.subject for finding in diagnose(None, tmp_path)]
    monkeypatch.setenv("TRUNKLINE_STORE__SHARED", os.environ[REDIS])
    [finding] = [finding for finding in diagnose(None, tmp_path) if finding.subject == "shared store"]
    assert finding.problem == ""
    monkeypatch.setenv("TRUNKLINE_STORE__SHARED", "redis://127.0.0.1:1")
    [finding] = [finding for finding in diagnose(None, tmp_path) if finding.subject == "shared store"]
    assert "cannot be reached" in finding.problem
