"""python -m bench: build the load generator, run what is installed, print the ratios. `make bench` calls it."""

import argparse
import json
import math
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from bench import machine
from bench.gateways import Gateway, direct, litellm, nginx, portkey, tensorzero, trunkline
from bench.report import tables
from bench.runs import Bench, say
from bench.scenarios import LOADS

GATEWAYS = [module.GATEWAY for module in (direct, nginx, trunkline, litellm, portkey, tensorzero)]
FAST_SECONDS = 240.0  # after which the short form repeats nothing any more
FAST_END = 285.0  # by which its last round has to end; the processes have a moment to do so, too
LONG_SECONDS = 3600.0


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--fast", action="store_true", help="up to three rounds of short runs: at most five minutes")
    parser.add_argument("--rounds", type=int, help="interleaved rounds (5; up to 3 with --fast)")
    parser.add_argument("--only", default="", help="gateways, by comma")
    parser.add_argument("--loads", default="", help=f"of {','.join(load.name for load in LOADS)},idle")
    parser.add_argument("--tree", action="append", default=[], metavar="NAME=PATH", help="another checkout, as the row trunkline@NAME")
    parser.add_argument("--tries", type=int, help="of a run that others disturb (3; 1 with --fast)")
    given = parser.parse_args()
    machine.check()
    signal.signal(signal.SIGTERM, _ended)
    work = Path(os.environ.get("BENCH_WORK") or machine.BUILD).absolute()
    peers = Path(os.environ.get("BENCH_PEERS") or machine.BUILD / "peers").absolute()
    work.mkdir(parents=True, exist_ok=True)
    loads = given.loads.split(",") if given.loads else [*(load.name for load in LOADS), "idle"]
    trees = [
        trunkline.gateway(f"trunkline@{name}", Path(path).absolute()) for name, _, path in (tree.partition("=") for tree in given.tree)
    ]
    results = work / f"results-{time.strftime('%Y%m%d-%H%M%S')}.jsonl"
    with results.open("w", encoding="utf-8") as out:
        bench = Bench(
            work=work,
            peers=peers,
            results=out,
            tries=given.tries or (1 if given.fast else 3),
            fast=given.fast,
            until=time.monotonic() + (FAST_SECONDS if given.fast else LONG_SECONDS),
            end=time.monotonic() + FAST_END if given.fast else math.inf,
        )
        bench.measure(
            _installed(given.only.split(",") if given.only else [], peers) + trees,
            [load for load in LOADS if load.name in loads],
            given.rounds or (3 if given.fast else 5),
            idle="idle" in loads,
        )
    say(f"\n{tables([json.loads(line) for line in results.read_text(encoding='utf-8').splitlines()])}\n\n{results}")


def _ended(number: int, _: FrameType | None) -> None:
    """Leave by the way that ends what was started."""
    raise SystemExit(128 + number)


def _installed(names: Sequence[str], peers: Path) -> list[Gateway]:
    found: list[Gateway] = []
    for gateway in GATEWAYS:
        if names and gateway.name not in names:
            continue
        if missing := gateway.missing(peers):
            say(f"{gateway.name} is not installed: {missing}")
        else:
            found.append(gateway)
    return found


main()
