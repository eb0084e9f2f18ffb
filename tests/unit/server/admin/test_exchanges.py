from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.fakes.admin import Asking, member
from trunkline.errors import NotFound
from trunkline.gateway.records import ExchangeRow, Records
from trunkline.server.admin.exchanges import RESOURCE

ROW = ExchangeRow(
    id="rqe_a",
    at=1_800_000_000.5,
    account="acc_one",
    key="key_a",
    user="usr_a",
    end_user="bob",
    path="/v1/messages",
    model="fast",
    target="b/m",
    status=502,
    outcome="upstream_down",
    stream=True,
    attempts='[{"target":"a/m","outcome":"upstream_busy","seconds":0.5},{"target":"b/m","outcome":"upstream_down","seconds":1.0}]',
    losses='[{"path":"seed","class":"dropped","severity":"advisory","detail":""}]',
    usage='{"input":1,"cache_read":2,"cache_write":3,"output":4,"reasoning":5,"approximated":true,"of_later":6}',
    tool_calls=1,
    sent=99,
    seconds=1.75,
    first_byte=None,
)


class Fake(Records):
    """Rows in memory; what was asked for is kept."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def get(self, exchange: str) -> ExchangeRow:
        if exchange != ROW.id:
            raise NotFound(f"there is no exchange `{exchange}`", hint="They are kept for a while.")
        return ROW

    def list(self, **asked: Any) -> Sequence[ExchangeRow]:
        self.asked.append({name: value for name, value in asked.items() if value is not None})
        return [ROW]


@pytest.fixture
def rows() -> Fake:
    return Fake()


@pytest.fixture
def api(rows: Fake) -> Iterator[Asking]:
    asking = Asking({"exchanges": RESOURCE}, [rows])
    yield asking
    asking.pool.close()
    assert asking.crashes == []


async def test_a_call_is_told_whole(api: Asking) -> None:
    told = (await api.get("/exchanges/rqe_a")).json
    assert (told["outcome"], told["error"], told["status"]) == ("error", "upstream_down", 502)
    assert [each["outcome"] for each in told["attempts"]] == ["upstream_busy", "upstream_down"]
    assert told["losses"] == [{"path": "seed", "class": "dropped", "severity": "advisory", "detail": ""}]
    assert told["usage"] == {"input": 1, "cache_read": 2, "cache_write": 3, "output": 4, "reasoning": 5, "approximated": True}
    assert (told["user"], told["end_user"], told["first_byte"], told["at"]) == ("usr_a", "bob", None, 1_800_000_000.5)


async def test_filters_go_to_the_database_and_an_account_sees_its_own(api: Asking, rows: Fake) -> None:
    query = "account=acc_one&key=key_a&model=fast&outcome=error&since=1.5&until=2e9&after=rqe_z&limit=7"
    assert (await api.get(f"/exchanges?{query}")).status == 200
    everything = {"account": "acc_one", "key": "key_a", "model": "fast", "outcome": "error", "since": 1.5, "until": 2e9, "after": "rqe_z"}
    assert rows.asked.pop() == {**everything, "limit": 8}
    await api.get("/exchanges")
    assert rows.asked.pop() == {"limit": 51}, "the operator sees every account"
    api.caller = member("acc_one")
    await api.get("/exchanges")
    assert rows.asked.pop() == {"account": "acc_one", "limit": 51}
    assert (await api.get("/exchanges?account=acc_two")).status == 404
    assert rows.asked == []


@pytest.mark.proves("admin.hidden")
async def test_another_accounts_call_is_not_there(api: Asking) -> None:
    api.caller = member("acc_two")
    reply, nothing = [await api.get(f"/exchanges/{wanted}") for wanted in ("rqe_a", "rqe_b")]
    assert reply.status == nothing.status == 404
    assert reply.said.replace("rqe_a", "rqe_b") == nothing.said
    api.caller = member("acc_one", "member")
    assert (await api.get("/exchanges/rqe_a")).status == 403
