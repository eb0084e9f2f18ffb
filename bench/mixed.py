"""What the gateway holds while it is used for minutes: python -m bench.mixed [--minutes 10] [--tree PATH] [--into docs/performance.md].

Small and large calls, streams, and translated streams, all at once; the end of each minute cuts off what is under way.
"""

import argparse
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench import machine
from bench.bars import Judged
from bench.gateways.trunkline import ROOT, gateway
from bench.report import show, verdicts
from bench.runs import Bench, Running, outcome, say
from bench.scenarios import LARGE, SMALL, STREAMS, TRANSLATED, Scenario

MARKS = "<!-- mixed: begin -->", "<!-- mixed: end -->"
LOADS = (
    replace(SMALL, name="mixed-small", connections=16, rate=100),
    replace(LARGE, name="mixed-large", connections=8, rate=10),
    replace(STREAMS, name="mixed-streams", connections=50, warm=0),
    replace(TRANSLATED, name="mixed-translated", connections=25, warm=0),
)
MOST = 1.05
"""Minute ten against minute three."""


@dataclass(frozen=True, slots=True)
class Minute:
    """What was seen: bytes, the median of its seconds; answers."""

    memory: float
    done: int


def minute(bench: Bench, running: Running, loads: Sequence[Scenario] = LOADS, seconds: float = 60.0) -> Minute:
    """All loads for so long."""
    assert running.process is not None
    under_way = [bench.load(running, load, seconds=seconds, warm=0) for load in loads]
    seen: list[float] = []
    while any(load.poll() is None for load in under_way):
        time.sleep(1.0)
        seen.append(running.process.memory)
    return Minute(statistics.median(seen), sum(outcome(load)["done"] for load in under_way))


def judge(minutes: Sequence[Minute]) -> list[Judged]:
    """The bar P10, and what it comes from."""
    early, late = minutes[min(2, len(minutes) - 1)], minutes[-1]
    return [
        Judged("P10", f"memory under mixed load, minute {len(minutes)} against minute 3", [late.memory / early.memory], most=MOST),
        Judged("P10", "the same, minute by minute", [minute.memory / 2**20 for minute in minutes], "MB"),
        Judged("P10", "answers a minute", [float(minute.done) for minute in minutes], ""),
    ]


def run(minutes: int, tree: Path, work: Path) -> list[Minute]:
    """One gateway, that many minutes."""
    with (work / "mixed.jsonl").open("w", encoding="utf-8") as results:
        bench = Bench(work=work, peers=work, results=results, tries=1, fast=False, until=0.0)
        port = machine.free_port()
        mock = [str(machine.build(Path(__file__).parent / "mock.c", work)), "-p", str(port)]
        with machine.Process(mock, core=machine.LOAD_CORE, log=work / "mock.log"):
            running = bench.start(gateway("trunkline@mixed", tree), port)
            assert running.process is not None
            with running.process:
                seen: list[Minute] = []
                for number in range(1, minutes + 1):
                    seen.append(minute(bench, running))
                    say(f"minute {number}: {seen[-1].memory / 2**20:.1f} MB, {seen[-1].done:,} answers")
                return seen


def main() -> None:
    """Print the table, or put it between the marks in a page."""
    parser = argparse.ArgumentParser(prog="python -m bench.mixed", description=__doc__)
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument("--tree", type=Path, default=ROOT, help="another checkout")
    parser.add_argument("--into", type=Path, help="a page with the marks between which it goes")
    given = parser.parse_args()
    machine.check()
    work = Path(os.environ.get("BENCH_WORK") or machine.BUILD).absolute()
    work.mkdir(parents=True, exist_ok=True)
    text = verdicts(judge(run(given.minutes, given.tree.absolute(), work)))
    show(text, given.into, MARKS)


if __name__ == "__main__":
    main()
