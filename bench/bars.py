"""The bars: what the ratios must be. Ratios are taken within a round, where everybody was measured in the same minute, then their median."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Run = Mapping[str, Any]
US = "trunkline"


@dataclass(frozen=True, slots=True)
class Results:
    """Lines of results, by what they are about."""

    runs: Mapping[tuple[str, str], Mapping[int, Run]]
    idle: Mapping[str, Sequence[Run]]
    refused: Mapping[tuple[str, str], str]

    def median(self, gateway: str, scenario: str, key: str) -> float | None:
        """The median of one figure over the rounds."""
        values = [run[key] for run in self.runs.get((gateway, scenario), {}).values()]
        return statistics.median(values) if values else None

    def paired(self, scenario: str, figure: Callable[..., float], *gateways: str) -> list[float]:
        """A figure of several gateways' runs, for each round that has all of them."""
        rounds = [self.runs.get((gateway, scenario), {}) for gateway in gateways]
        both = set(rounds[0]).intersection(*rounds[1:])
        return [figure(*(runs[number] for runs in rounds)) for number in sorted(both)]


@dataclass(frozen=True, slots=True)
class Judged:
    """One comparison: `values` by round. `most` and `least` are what it must not pass; with neither it only informs."""

    bar: str
    what: str
    values: list[float]
    unit: str = "×"
    most: float | None = None
    least: float | None = None
    note: str = ""

    @property
    def median(self) -> float:
        """Of the rounds."""
        return statistics.median(self.values)

    @property
    def verdict(self) -> str:
        """In a word."""
        if not self.values:
            return self.note or "not measured"
        if self.most is None and self.least is None:
            return "for information"
        fine = (self.most is None or self.median <= self.most) and (self.least is None or self.median >= self.least)
        return "met" if fine else "missed"


def read(lines: Iterable[Run]) -> Results:
    """Sort lines of results; runs that were discarded or had errors do not count."""
    runs: dict[tuple[str, str], dict[int, Run]] = {}
    idle: dict[str, list[Run]] = {}
    refused: dict[tuple[str, str], str] = {}
    for line in lines:
        match line["kind"]:
            case "run" if line["done"] + line["events"] == 0 or line["errors"] + line["bad"] > line["done"] / 100:
                refused[line["gateway"], line["scenario"]] = "errors under load"
            case "run" if "discarded" not in line:
                runs.setdefault((line["gateway"], line["scenario"]), {})[line["round"]] = line
            case "idle":
                idle.setdefault(line["gateway"], []).append(line)
            case "refused":
                refused[line["gateway"], line["scenario"]] = line["why"]
            case _:
                pass
    return Results(runs, idle, refused)


def judge(results: Results, us: str = US) -> list[Judged]:
    """Every bar that this harness knows, in the order of their numbers."""
    idle = results.idle.get(us, [])
    not_yet = _not_yet(results.refused.get((us, "translated"), ""))
    return [
        Judged("P1", "1 KB, requests per second of one core, against LiteLLM", results.paired("small", _cheaper, us, "litellm"), least=60),
        Judged("P1", "the same against Portkey", results.paired("small", _cheaper, us, "portkey"), least=5),
        Judged("P1", "the same against TensorZero, embedded", results.paired("small", _cheaper, us, "tensorzero"), least=2),
        Judged("P2", "1 KB, CPU per request, against nginx", results.paired("small", _dearer, us, "nginx"), most=10),
        Judged(
            "P3", "300 requests/s, added median, against what nginx adds", results.paired("steady", _added, us, "nginx", "direct"), most=3
        ),
        Judged("P3", "the same at p99", results.paired("steady", _later, us, "nginx")),
        Judged("P4", "100 KB, requests per second, against LiteLLM", results.paired("large", _more, us, "litellm"), least=40),
        Judged("P4", "the same as a share of nginx", results.paired("large", _more, us, "nginx"), least=0.15),
        Judged("P5", "300 streams, CPU per chunk, against nginx", results.paired("streams", _dearer, us, "nginx"), most=2.5),
        Judged("P5", "the same against LiteLLM", results.paired("streams", _cheaper, us, "litellm"), least=20),
        Judged("P5", "50 streams, added median to the first byte", results.paired("first_byte", _first_byte, us, "direct"), "ms", most=1.5),
        Judged("P5", "300 streams from a daemon, chunks per second of one core, as a share", _shares(results, us), least=0.8),
        Judged("P6", "the same as P5 with tool calls judged", [], most=1.3, note="not yet: nothing judges tool calls"),
        Judged("P7", "translated streams, chunks per second of one core", results.paired("translated", _per_core, us), "/s", note=not_yet),
        Judged("P7", "the same against LiteLLM", results.paired("translated", _cheaper, us, "litellm"), least=12, note=not_yet),
        Judged("P8", "an idle stream", [run["stream_kb"] for run in idle if "stream_kb" in run], "KB", most=80),
        Judged("P8", "the process after its start", [run["fresh_mb"] for run in idle], "MB", most=90),
        Judged("P8", "from the start to the first answer", [run["ready_seconds"] for run in idle], "s", most=1.5),
        Judged("P9", "limits, reservation, metering and journal on, added CPU", [], "µs", most=80, note="not yet: there is no ledger"),
    ]


def _shares(results: Results, us: str) -> list[float]:
    """For each round, what streams from a daemon yield of what the same ones from a compatible provider do."""
    plain, behind = results.runs.get((us, "streams"), {}), results.runs.get((us, "daemon"), {})
    return [plain[number]["cpu_us"] / behind[number]["cpu_us"] for number in sorted(plain.keys() & behind.keys())]


def _not_yet(why: str) -> str:
    return "not yet: translation is refused" if why == "HTTP 400" else why


def _dearer(one: Run, other: Run) -> float:
    return one["cpu_us"] / other["cpu_us"]


def _cheaper(one: Run, other: Run) -> float:
    return other["cpu_us"] / one["cpu_us"]


def _more(one: Run, other: Run) -> float:
    return one["rps"] / other["rps"]


def _per_core(one: Run) -> float:
    return 1e6 / one["cpu_us"]


def _added(one: Run, other: Run, direct: Run) -> float:
    return (one["p50"] - direct["p50"]) / max(1.0, other["p50"] - direct["p50"])


def _later(one: Run, other: Run) -> float:
    return one["p99"] / other["p99"]


def _first_byte(one: Run, direct: Run) -> float:
    return (one["first_byte_p50"] - direct["first_byte_p50"]) / 1000
