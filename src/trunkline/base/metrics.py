"""Metrics: the only import of prometheus_client.

`Tally` and `Spread` are its counter and histogram for what is counted with every call: a place in a dict, without its locks and checks,
which cost more than the counting. They are changed and read in the event loop's thread alone.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

__all__ = ["Counter", "Gauge", "Histogram", "Registry", "Spread", "Tally", "render"]

Registry = CollectorRegistry
disable_created_metrics()  # a second series for each one, which nobody asked for


class Tally(Collector):
    """A counter for each combination of labels."""

    def __init__(self, name: str, words: str, labels: Sequence[str], *, registry: Registry) -> None:
        self._describe = name, words, labels
        self._counts: dict[tuple[str, ...], int] = {}
        registry.register(self)

    def add(self, *labels: str, count: int = 1) -> None:
        """Count; the labels in their order."""
        self._counts[labels] = self._counts.get(labels, 0) + count

    def collect(self) -> Iterator[CounterMetricFamily]:
        """For the registry."""
        name, words, labels = self._describe
        family = CounterMetricFamily(name, words, labels=labels)
        for values, count in self._counts.items():
            family.add_metric(values, count)
        yield family


class Spread(Collector):
    """A histogram for each value of a label."""

    def __init__(self, name: str, words: str, label: str, *, bounds: Sequence[float], registry: Registry) -> None:
        self._describe = name, words, (label,)
        self._bounds = bounds
        self._counts: dict[str, list[int]] = {}  # by the bound that a value does not pass; the last is for those that pass all
        self._sums: dict[str, float] = {}
        registry.register(self)

    def note(self, label: str, value: float) -> None:
        """Count a value."""
        counts = self._counts.get(label)
        if counts is None:
            counts = self._counts[label] = [0] * (len(self._bounds) + 1)
            self._sums[label] = 0.0
        counts[bisect_left(self._bounds, value)] += 1
        self._sums[label] += value

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """For the registry."""
        name, words, labels = self._describe
        family = HistogramMetricFamily(name, words, labels=labels)
        bounds = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        for label, counts in self._counts.items():
            family.add_metric([label], list(zip(bounds, accumulate(counts), strict=True)), self._sums[label])
        yield family


def render(registry: Registry) -> bytes:
    """All metrics of a registry, in the text format of Prometheus."""
    return generate_latest(registry)
