"""Metrics: the only import of prometheus_client."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

__all__ = ["Counter", "Gauge", "Histogram", "Registry", "render"]

Registry = CollectorRegistry
disable_created_metrics()  # a second series for each one, which nobody asked for


def render(registry: Registry) -> bytes:
    """All metrics of a registry, in the text format of Prometheus."""
    return generate_latest(registry)
