"""A provider that says how long it wants to be left alone is left alone so long, and the caller gets to know."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fakes.upstream import Upstream
from tests.wire.gateway import Gateway, Got
from tests.wire.sides import CHAT, MESSAGES, RESPONSES, Side

LIMITED: dict[Side, Any] = {
    CHAT: {"error": {"message": "slow down", "type": "rate_limit_error", "code": "rate_limit_exceeded"}},
    MESSAGES: {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}},
}
LIMITED[RESPONSES] = LIMITED[CHAT]


def wait(got: Got) -> int:
    return int(got.headers["retry-after"])


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.proves("G14")
async def test_each_target_is_left_alone_for_as_long_as_it_says_and_the_caller_gets_the_shortest_wait(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, stream: bool
) -> None:
    first, second = upstreams[side.first], upstreams[side.second]
    first.answers(429, LIMITED[side], retry_after=7)
    second.answers(429, LIMITED[side], retry_after=datetime.now(UTC) + timedelta(seconds=20))
    got = await gateway.ask(side, model=side.route, stream=stream)
    assert (got.status, side.error(got.json())[1]) == (429, "upstream_busy")
    assert wait(got) in {6, 7}
    assert (await gateway.told())["status"] == 429

    got = await gateway.ask(side, model=side.route, stream=stream)
    assert (got.status, side.error(got.json())[1]) == (429, "upstream_busy")
    assert wait(got) in {6, 7}
    assert (len(first.calls), len(second.calls)) == (1, 1), "neither is asked while it wants to be left alone"

    gateway.clock.advance(8)
    first.says("here I am")
    assert (await gateway.ask(side, model=side.route, stream=stream)).status == 200
    assert (len(first.calls), len(second.calls)) == (2, 1)

    first.answers(429, LIMITED[side], retry_after=60)
    got = await gateway.ask(side, model=side.route, stream=stream)
    assert wait(got) <= 12, "the second one's wait goes on"
    assert len(second.calls) == 1

    gateway.clock.advance(13)
    second.says("here I am")
    assert (await gateway.ask(side, model=side.route, stream=stream)).status == 200
    assert (len(first.calls), len(second.calls)) == (3, 2)


@pytest.mark.proves("G14", "failover")
async def test_a_busy_target_is_passed_over_while_another_answers(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    upstreams[side.first].answers(429, LIMITED[side], headers=[("retry-after-ms", "30000"), ("retry-after", "1")])
    upstreams[side.second].says("here I am", times=3)
    for _ in range(2):
        assert (await gateway.ask(side, model=side.route)).status == 200
    gateway.clock.advance(29)
    assert (await gateway.ask(side, model=side.route)).status == 200
    assert len(upstreams[side.first].calls) == 1
    gateway.clock.advance(2)
    upstreams[side.first].says("me again")
    assert (await gateway.ask(side, model=side.route)).status == 200
    assert len(upstreams[side.first].calls) == 2


@pytest.mark.proves("G14")
async def test_a_wait_is_told_though_another_target_is_broken(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    upstreams[side.first].answers(429, LIMITED[side], retry_after=9)
    upstreams[side.second].answers(500, times=4)
    for _ in range(2):
        got = await gateway.ask(side, model=side.route)
        assert got.status == 429
        assert wait(got) in {8, 9}


@pytest.mark.proves("G14")
async def test_a_refusal_is_told_though_another_target_is_busy(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    upstreams[side.first].answers(429, LIMITED[side], retry_after=9)
    upstreams[side.second].answers(400, LIMITED[side], times=2)
    assert [(await gateway.ask(side, model=side.route)).status for _ in range(2)] == [400, 400]


@pytest.mark.parametrize("status", [400, 404, 413, 422])
@pytest.mark.proves("G14")
async def test_what_the_caller_does_wrong_does_not_bench_a_target(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, status: int
) -> None:
    upstreams[side.first].answers(status, LIMITED[side], retry_after=60, times=8)
    upstreams[side.first].says("hello")
    for _ in range(8):
        assert (await gateway.ask(side, model=side.route)).status == status
    assert (await gateway.ask(side, model=side.route)).status == 200
    assert upstreams[side.second].calls == []
