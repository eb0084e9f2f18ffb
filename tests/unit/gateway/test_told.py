import io
import json

import pytest

from trunkline.base.log import LogSettings, open_log
from trunkline.base.metrics import Registry, render
from trunkline.errors import StoreUnavailable, UpstreamDown
from trunkline.gateway.exchange import Attempt, Exchange
from trunkline.gateway.told import Teller
from trunkline.model.caller import Caller
from trunkline.model.loss import dropped, unsupported
from trunkline.model.usage import Usage


class Told:
    """A teller, and what it told."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        log, self._writer = open_log(LogSettings(format="json"), self._stream)
        self.registry = Registry()
        self.in_flight = 0
        self.teller = Teller(log, self.registry, lambda: self.in_flight)

    def lines(self) -> list[dict[str, object]]:
        self._writer.close()
        return [json.loads(line) for line in self._stream.getvalue().splitlines()]

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


@pytest.fixture
def told() -> Told:
    return Told()


def exchange(**rest: object) -> Exchange:
    return Exchange(id="rqe_a", path="/v1/messages", started=0.0, address="192.0.2.1", **rest)


def test_a_good_exchange_is_one_line_with_ids_and_numbers(told: Told) -> None:
    told.teller.tell(
        exchange(
            client_request_id="mine-1",
            caller=Caller(id="key_a", kind="service", name="ann", scopes=frozenset({"inference"})),
            model="fast",
            stream=True,
            attempts=[Attempt("a/m", "upstream_busy", 0.05), Attempt("b/org/m", "ok", 1.0)],
            status=200,
            outcome="ok",
            first_byte=0.25,
            sent=1234,
            usage=Usage(input=5, cache_read=80, output=2),
            tool_calls=1,
        ),
        1.5,
    )
    [line] = told.lines()
    assert line.pop("time")
    assert line == {
        "level": "info",
        "event": "exchange",
        "request_id": "rqe_a",
        "path": "/v1/messages",
        "status": 200,
        "outcome": "ok",
        "ms": 1500.0,
        "model": "fast",
        "stream": True,
        "address": "192.0.2.1",
        "sent": 1234,
        "attempts": ["a/m upstream_busy 50ms", "b/org/m ok 1000ms"],
        "key": "key_a",
        "account": "acc_default",
        "first_byte_ms": 250.0,
        "client_request_id": "mine-1",
        "tokens": {"input": 5, "cache_read": 80, "output": 2},
        "tool_calls": 1,
    }


def test_an_exchange_is_counted_by_what_became_of_it_and_its_attempts_by_provider(told: Told) -> None:
    told.teller.tell(
        exchange(
            attempts=[Attempt("a/m", "upstream_busy", 0.05), Attempt("b/org/m", "ok", 1.0)],
            outcome="ok",
            first_byte=0.25,
            usage=Usage(input=5, output=2),
        ),
        1.5,
    )
    told.in_flight = 3
    assert told.metric("trunkline_exchanges_total", path="/v1/messages", outcome="ok") == 1
    assert told.metric("trunkline_attempts_total", provider="a", outcome="upstream_busy") == 1
    assert told.metric("trunkline_attempts_total", provider="b", outcome="ok") == 1
    assert told.metric("trunkline_tokens_total", provider="b", bucket="input") == 5
    assert told.metric("trunkline_tokens_total", provider="b", bucket="output") == 2
    assert told.metric("trunkline_tokens_total", provider="a", bucket="input") is None
    assert told.metric("trunkline_exchange_seconds_sum", path="/v1/messages") == 1.5
    assert told.metric("trunkline_first_byte_seconds_sum", path="/v1/messages") == 0.25
    assert told.metric("trunkline_exchanges_in_flight") == 3
    assert b"# TYPE trunkline_exchanges_total counter" in render(told.registry)
    assert b"_created" not in render(told.registry)


@pytest.mark.proves("losses.told")
def test_losses_are_told_by_their_places_and_counted_by_what_they_are(told: Told) -> None:
    losses = (dropped("seed", "canary", material=True), dropped("messages.0.id"), dropped("top_k", material=True), unsupported("tools.0"))
    told.teller.tell(exchange(outcome="ok", losses=losses), 1)
    assert told.metric("trunkline_losses_total", **{"class": "dropped", "severity": "material"}) == 2
    assert told.metric("trunkline_losses_total", **{"class": "dropped", "severity": "advisory"}) == 1
    assert told.metric("trunkline_losses_total", **{"class": "unsupported", "severity": "material"}) == 1
    [line] = told.lines()
    assert line["losses"] == [
        "seed material dropped",
        "messages.0.id advisory dropped",
        "top_k material dropped",
        "tools.0 material unsupported",
    ]
    assert "canary" not in json.dumps(line)


def test_what_failed_early_is_told_without_what_there_was_not(told: Told) -> None:
    told.teller.tell(exchange(status=401, outcome="unauthenticated"), 0.001)
    [line] = told.lines()
    assert not {"key", "first_byte_ms", "client_request_id", "tokens", "tool_calls", "losses"} & line.keys()
    assert told.metric("trunkline_first_byte_seconds_count", path="/v1/messages") is None


def test_the_facts_of_an_error_are_told(told: Told) -> None:
    told.teller.tell(exchange(outcome="upstream_down", facts=UpstreamDown("the provider is down").facts), 1)
    told.teller.tell(exchange(outcome="store_unavailable", facts=StoreUnavailable("the disk is full", sqlite_code=13).facts), 1)
    first, second = told.lines()
    assert {*second} - {*first} == {"sqlite_code"}
    assert second["sqlite_code"] == 13


def test_a_crash_is_told_with_its_request_id_and_its_trace(told: Told) -> None:
    try:
        1 / 0  # noqa: B018 - for its trace
    except ZeroDivisionError as error:
        told.teller.crashed("rqe_a", error)
    [line] = told.lines()
    assert (line["level"], line["event"], line["request_id"]) == ("error", "crashed", "rqe_a")
    assert "ZeroDivisionError" in str(line["exception"])
    assert "test_told.py" in str(line["exception"])


def test_for_whom_a_call_was_is_told(told: Told) -> None:
    caller = Caller(id="key_a", kind="person", name="ann", scopes=frozenset(), account="acc_a", user="usr_a")
    told.teller.tell(exchange(outcome="ok", caller=caller, end_user="u1", client_user="u2"), 1)
    [line] = told.lines()
    whose = {"key": "key_a", "account": "acc_a", "user": "usr_a", "end_user": "u1", "client_user": "u2"}
    assert whose.items() <= line.items()


def test_whoever_keeps_rows_is_told_after_the_log() -> None:
    stream = io.StringIO()
    log, writer = open_log(LogSettings(format="json"), stream)
    noted: list[tuple[str, float]] = []
    teller = Teller(log, Registry(), lambda: 0, note=lambda exchange, seconds: noted.append((exchange.id, seconds)))
    teller.tell(exchange(outcome="ok", status=200), 1.5)
    writer.close()
    assert noted == [("rqe_a", 1.5)]
