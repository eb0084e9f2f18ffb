"""`log`: an extension's lines in the host's log, so many and so large."""

import json

import pytest

from tests.fakes.worker import Ground, Meeting
from trunkline.host.methods.log import METHODS, MOST_FIELDS, MOST_TEXT
from trunkline_sdk.channel import Call
from trunkline_sdk.rpc.errors import RpcError

RATE = METHODS.notices["log"].rate


async def heard(met: Meeting) -> None:
    """What was said before has been taken: a call behind it is answered."""
    with pytest.raises(RpcError):
        await met.asks("no such method")


async def test_a_line_says_whose_it_is_and_for_which_call(ground: Ground) -> None:
    async with ground.meet("weather") as met:

        async def tool(call: Call) -> object:
            met.worker.notify("log", {"level": "warning", "message": "in", "fields": {"n": 1}, "call": call.id})
            return json.loads(bytes(call.context))["call_id"]

        met.answers["tool"] = tool
        call = json.loads(bytes(await met.line.call("tool", user="usr_a", seconds=5)))
        met.worker.notify("log", {"level": "debug", "message": "out", "fields": {}, "extension": "other", "user": "usr_b", "call": 99})
        await heard(met)
    inner, outer = ground.lines("extension log")
    assert (inner["level"], inner["extension"], inner["message"], inner["fields"]) == ("warning", "weather", "in", {"n": 1})
    assert (inner["user"], inner["call"]) == ("usr_a", call)
    assert (outer["level"], outer["extension"], "user" in outer, "call" in outer) == ("debug", "weather", False, False)


@pytest.mark.proves("host.log")
async def test_a_flood_is_cut_and_what_was_dropped_is_counted(ground: Ground) -> None:
    async with ground.meet("weather") as met, ground.meet("quiet") as quiet:
        for number in range(RATE.burst + 500):
            met.worker.notify("log", {"level": "info", "message": str(number)})
        await heard(met)
        quiet.worker.notify("log", {"level": "info", "message": "heard"})
        await heard(quiet)
        ground.clock.advance(1 / RATE.per_second)
        for text in ("again", "and not again"):
            met.worker.notify("log", {"level": "info", "message": text})
        await heard(met)
    dropped = ground.lines("extension notifications dropped")
    assert [(line["extension"], line["method"], line["count"]) for line in dropped] == [("weather", "log", 500), ("weather", "log", 1)]
    messages = [line["message"] for line in ground.lines("extension log")]
    assert messages == [*map(str, range(RATE.burst)), "heard", "again"]


@pytest.mark.proves("host.log")
async def test_a_line_is_bounded_and_steers_no_terminal(ground: Ground) -> None:
    async with ground.meet("weather") as met:
        met.worker.notify("log", {"level": "info", "message": "a\x1b[31m\nb\u202ec" + "x" * MOST_TEXT, "fields": {"a": "y" * MOST_FIELDS}})
        met.worker.notify("log", {"level": "info", "message": "Authorization: Bearer canary-token"})
        await heard(met)
    long, secret = ground.lines("extension log")
    assert long["message"].startswith("a\\x1b[31m\\nb\\u202ec")
    assert len(long["message"]) < MOST_TEXT + 100
    assert (long["fields_left_out"], "fields" in long) == (MOST_FIELDS + len('{"a":""}'), False)
    assert "canary" not in secret["message"]


@pytest.mark.proves("host.lies")
@pytest.mark.parametrize("params", [None, 1, {}, {"level": "fatal", "message": "x"}, {"level": "info", "message": 1}])
async def test_a_line_that_is_none_is_passed_over_and_told(ground: Ground, params: object) -> None:
    async with ground.meet("weather") as met:
        met.worker.notify("log", params)
        await heard(met)
    assert ground.lines("extension log") == []
    (line,) = ground.lines("extension broke the protocol")
    assert line["what"].startswith("`log`: ")
