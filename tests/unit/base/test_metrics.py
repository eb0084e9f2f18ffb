from trunkline.base.metrics import Counter, Gauge, Histogram, Registry, Spread, Tally, render


def test_metrics_are_rendered_as_prometheus_reads_them_with_one_series_each() -> None:
    registry = Registry()
    Counter("trunkline_calls", "Calls.", ["path"], registry=registry).labels("/v1/x").inc(3)
    Gauge("trunkline_open", "Open.", registry=registry).set(2)
    assert render(registry).decode().splitlines() == [
        "# HELP trunkline_calls_total Calls.",
        "# TYPE trunkline_calls_total counter",
        'trunkline_calls_total{path="/v1/x"} 3.0',
        "# HELP trunkline_open Open.",
        "# TYPE trunkline_open gauge",
        "trunkline_open 2.0",
    ]


def test_registries_know_nothing_of_each_other() -> None:
    one, other = Registry(), Registry()
    Counter("trunkline_calls", "Calls.", registry=one).inc()
    assert render(other) == b""


def test_what_is_counted_with_every_call_is_rendered_as_prometheus_own_counter_and_histogram_are() -> None:
    ours, theirs = Registry(), Registry()
    bounds = (0.01, 0.1, 1, 2.5)
    values = [0.001, 0.01, 0.05, 1, 1.5, 100]
    tally = Tally("trunkline_calls", "Calls.", ["path", "outcome"], registry=ours)
    spread = Spread("trunkline_seconds", "Time.", "path", bounds=bounds, registry=ours)
    counter = Counter("trunkline_calls", "Calls.", ["path", "outcome"], registry=theirs)
    histogram = Histogram("trunkline_seconds", "Time.", ["path"], buckets=bounds, registry=theirs)
    for path in ("/a", '/"b"\n'):
        tally.add(path, "ok")
        tally.add(path, "ok", count=4)
        counter.labels(path, "ok").inc(5)
        for value in values:
            spread.note(path, value)
            histogram.labels(path).observe(value)
    assert render(ours) == render(theirs)
