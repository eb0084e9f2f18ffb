from trunkline.base.metrics import Counter, Gauge, Registry, render


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
