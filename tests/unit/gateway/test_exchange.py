import asyncio

import pytest

from trunkline.errors import ShuttingDown
from trunkline.gateway.exchange import Attempt, Exchange, Exchanges, attempts_header
from trunkline.model.caller import Caller


def exchange(request_id: str = "rqe_a") -> Exchange:
    return Exchange(id=request_id, path="/", started=0.0, address="")


async def test_an_interruption_stops_the_work_at_its_wait() -> None:
    one = exchange()
    asyncio.get_running_loop().call_soon(one.interrupt)
    with pytest.raises(TimeoutError):
        async with one.scope():
            await asyncio.Event().wait()
    assert one.interrupted
    assert one.cause is None


async def test_an_interruption_before_the_work_stops_it_at_its_first_wait() -> None:
    one = exchange()
    one.interrupt()
    with pytest.raises(TimeoutError):
        async with one.scope():
            await asyncio.Event().wait()


async def test_only_the_first_interruption_counts() -> None:
    one = exchange()
    cause = ShuttingDown("x")
    one.interrupt(cause)
    one.interrupt()
    assert one.cause is cause


async def test_what_has_an_outcome_is_not_interrupted_any_more() -> None:
    one = exchange()
    async with one.scope():
        one.outcome = "ok"
    one.interrupt(ShuttingDown("x"))
    assert not one.interrupted


def test_the_attempts_are_told_in_a_header_and_none_are_not() -> None:
    tried = [Attempt("a/org/m", "upstream_busy", 1.0), Attempt("b/m", "ok", 2.0)]
    assert attempts_header(tried) == [(b"x-trunkline-attempts", b"a/org/m upstream_busy, b/m ok")]
    assert attempts_header([]) == []


def test_a_models_name_cannot_end_a_header_and_begin_another() -> None:
    [(_, told)] = attempts_header([Attempt("a/x\r\nset-cookie: a=1, b/m ok \u015f", "ok", 1.0)])
    assert told == b"a/x%0D%0Aset-cookie:%20a=1%2C%20b/m%20ok%20%C5%9F ok"


async def test_exchanges_are_counted_while_they_are_held() -> None:
    exchanges = Exchanges()
    await exchanges.idle()
    with exchanges.held(exchange("rqe_a")), exchanges.held(exchange("rqe_b")):
        assert len(exchanges) == 2
        waiting = asyncio.get_running_loop().create_task(exchanges.idle())
        await asyncio.sleep(0)
        assert not waiting.done()
    assert len(exchanges) == 0
    await asyncio.wait_for(waiting, 5)


async def test_exchanges_are_let_go_when_they_fail() -> None:
    exchanges = Exchanges()
    with pytest.raises(ZeroDivisionError), exchanges.held(exchange()):
        raise ZeroDivisionError
    assert len(exchanges) == 0
    await asyncio.wait_for(exchanges.idle(), 5)


async def test_all_of_them_are_interrupted_the_one_that_has_ended_already_included() -> None:
    exchanges = Exchanges()
    ended, running = exchange("rqe_a"), exchange("rqe_b")
    async with ended.scope():
        ended.outcome = "bad_request"
    with exchanges.held(ended), exchanges.held(running):
        exchanges.interrupt(ShuttingDown("x"))
    assert running.interrupted
    assert not ended.interrupted


async def test_calls_of_who_is_gone_are_interrupted_and_no_others() -> None:
    exchanges = Exchanges()
    cause = ShuttingDown("x")
    theirs, for_them, others, nobodys = (exchange(f"rqe_{name}") for name in "abcd")
    theirs.caller = Caller(id="key_a", kind="service", name="a", scopes=frozenset())
    for_them.caller = Caller(id="key_b", kind="service", name="b", scopes=frozenset(), user="usr_a")
    others.caller = Caller(id="key_b", kind="service", name="b", scopes=frozenset(), user="usr_b")
    with exchanges.held(theirs), exchanges.held(for_them), exchanges.held(others), exchanges.held(nobodys):
        exchanges.interrupt_of({"key_a", "usr_a"}, cause)
    assert [each.interrupted for each in (theirs, for_them, others, nobodys)] == [True, True, False, False]
    assert theirs.cause is for_them.cause is cause
