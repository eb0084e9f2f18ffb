"""Runs: one gateway under one load, and many of them in turns."""

import json
import math
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from bench import machine
from bench.gateways import Gateway, Launch, Place
from bench.machine import Process
from bench.scenarios import IDLE, SMALL, STEADY, Scenario, body

READY_SECONDS = 120.0
SETTLE_SECONDS = 8.0
STEADY_MOST = 2_000  # microseconds of nginx's p99 at a steady rate; a round that has more says something about the machine only

Run = dict[str, Any]
"""What was measured: one line of the results."""


class NotReady(Exception):
    """A gateway does not come up."""


@dataclass(slots=True)
class Running:
    """A gateway that runs, paused unless it is being measured."""

    gateway: Gateway
    launch: Launch
    port: int
    process: Process | None
    ready: float
    refuses: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Where things are, and how much care there is time for.

    Attributes:
        tries: how often a run is repeated while others use the machine.
        fast: shorter runs.
        until: by the monotonic clock: no repetitions after it.
        end: no further round that would not have ended by then, if it takes as long as those before it.
    """

    work: Path
    peers: Path
    results: TextIO
    tries: int
    fast: bool
    until: float
    end: float = math.inf

    def measure(self, gateways: Sequence[Gateway], scenarios: Sequence[Scenario], rounds: int, *, idle: bool) -> None:
        """All gateways under all loads, in turns; what is measured goes to the results as it comes."""
        port = machine.free_port()
        mock = [str(machine.build(Path(__file__).parent / "mock.c", self.work)), "-p", str(port)]
        self.keep({"kind": "machine", "at": time.strftime("%Y-%m-%d"), "fast": self.fast, "rounds": rounds, **machine.description()})
        with Process(mock, core=machine.LOAD_CORE, log=self.work / "mock.log"):
            if idle:
                self._measure_idle([gateway for gateway in gateways if gateway.name != "direct"], port, rounds)
            running: list[Running] = []
            try:
                for gateway in gateways:
                    running += self._started(gateway, port)
                longest = 0.0
                for number in range(rounds):
                    begun = time.monotonic()
                    if number and begun + longest > self.end:
                        break
                    order = running if number % 2 == 0 else running[::-1]
                    for scenario in scenarios:
                        self._turn(order, scenario, number)
                    longest = max(longest, time.monotonic() - begun)
            finally:
                for each in running:
                    if each.process:
                        each.process.stop()

    def keep(self, run: Run) -> None:
        """Write a line of the results."""
        self.results.write(json.dumps(run) + "\n")
        self.results.flush()

    # ------------------------------------------------------------------------------------------------ starting
    def start(self, gateway: Gateway, upstream: int) -> Running:
        """A gateway that has answered its first call. Raises: `NotReady`."""
        work = self.work / gateway.name
        work.mkdir(exist_ok=True)
        port = machine.free_port() if gateway.name != "direct" else upstream
        launch = gateway.launch(Place(work, port, upstream, self.peers))
        process = Process(launch.argv, core=machine.GATEWAY_CORE, log=work / "log", env=launch.env) if launch.argv else None
        begun = time.monotonic()
        running = Running(gateway, launch, port, process, 0.0)
        said = ""
        while (said := self._ask(running, SMALL)) != "":
            if time.monotonic() - begun > READY_SECONDS or (process and not process.alive):
                if process:
                    process.stop()
                raise NotReady(f"{gateway.name} does not come up: {said}; see {work / 'log'}")
            time.sleep(0.02)
        running.ready = time.monotonic() - begun
        return running

    def _started(self, gateway: Gateway, upstream: int) -> Iterable[Running]:
        try:
            running = self.start(gateway, upstream)
        except NotReady as error:
            say(str(error))
            return
        say(f"{gateway.name} is up after {running.ready:.1f} s")
        if running.process:
            self.load(running, SMALL, seconds=1.0, warm=0.0).communicate()
            running.process.pause()
        yield running

    def _ask(self, running: Running, scenario: Scenario) -> str:
        """Why one call of a scenario is not answered well, or nothing."""
        name = running.gateway.named(scenario.upstream)
        if name is None:
            return "it does not translate here" if scenario.upstream == "anthropic" else "it asks no daemons"
        headers = dict(header.split(": ", 1) for header in (*running.launch.headers, "Content-Type: application/json"))
        url = f"http://127.0.0.1:{running.port}/v1/chat/completions"
        request = urllib.request.Request(url, body(scenario, name.format(scenario.model.replace("-60000", "-1"))), headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                return "" if b"usage" in response.read() else "its answer has no usage"
        except urllib.error.HTTPError as error:
            return f"HTTP {error.code}"
        except (OSError, ValueError) as error:
            return type(error).__name__

    # ------------------------------------------------------------------------------------------------ under load
    def _turn(self, running: Sequence[Running], scenario: Scenario, number: int) -> None:
        """One round of one scenario: every gateway once, one right after the other."""
        for left in reversed(range(self.tries)):
            runs = [run for each in running if (run := self._tried(each, scenario, number))]
            nginx = next((run for run in runs if run["gateway"] == "nginx"), None)
            fine = scenario is not STEADY or nginx is None or nginx["p99"] <= STEADY_MOST
            if fine or not left or time.monotonic() > self.until:
                for run in runs:
                    self.keep(run if fine else {**run, "discarded": "nginx's p99 was above 2 ms"})
                return

    def _tried(self, running: Running, scenario: Scenario, number: int) -> Run | None:
        """The run of a few tries that others disturbed least; none if it is not for this gateway, or refused."""
        name = running.gateway.name
        if (scenario.gateways and name.partition("@")[0] not in scenario.gateways) or scenario.name in running.refuses:
            return None
        if running.process:
            running.process.resume()
        best: Run | None = None
        try:
            if number == 0 and (why := self._ask(running, scenario)):
                running.refuses[scenario.name] = why
                self.keep({"kind": "refused", "gateway": name, "scenario": scenario.name, "why": why})
                say(f"{name:12} {scenario.name:11} not measured: {why}")
                return None
            for _ in range(self.tries):
                run = self._run(running, scenario, number)
                if best is None or run["other"] < best["other"]:
                    best = run
                if best["other"] < 0.2 or time.monotonic() > self.until:
                    break
                machine.wait_for_quiet(5.0)
        finally:
            if running.process:
                self._settle(running.process)
                running.process.pause()
        assert best is not None
        say(
            f"{name:12} {scenario.name:11} {best['rps']:8.0f} req/s {best['eps']:7.0f} chunks/s {best['cpu_us']:8.1f} us each"
            f"  p50 {best['p50']:7.0f}  first byte {best['first_byte_p50']:7.0f}  errors {best['errors'] + best['bad']}  other {best['other']:.2f}"
        )
        return best

    def _run(self, running: Running, scenario: Scenario, number: int) -> Run:
        seconds = scenario.seconds * (0.5 if self.fast else 1.0)
        process = running.process
        busy, own, begun = machine.busy_seconds(), process.cpu if process else 0.0, time.monotonic()
        load = self.load(running, scenario, seconds=seconds, warm=scenario.warm)
        time.sleep(scenario.warm)
        before, at = process.cpu if process else 0.0, time.monotonic()
        time.sleep(max(0.0, begun + scenario.warm + seconds - time.monotonic()))
        after = process.cpu if process else 0.0
        share = (after - before) / (time.monotonic() - at)
        memory = process.memory if process else 0.0
        seen = outcome(load)
        elapsed = time.monotonic() - begun
        each = seen["eps"] if scenario.stream else seen["rps"]
        ours = (process.cpu if process else 0.0) - own + seen["cpu"]
        mock = 0.0 if scenario.stream else seen["cpu"]  # about what the load costs
        return {
            "kind": "run",
            "gateway": running.gateway.name,
            "scenario": scenario.name,
            "round": number,
            **seen,
            "cpu_share": round(share, 3),
            "cpu_us": round(share / each * 1e6, 2) if each else 0.0,
            "memory_mb": round(memory / 2**20, 1),
            "other": round(max(0.0, machine.busy_seconds() - busy - ours - mock) / elapsed, 2),
        }

    def load(self, running: Running, scenario: Scenario, *, seconds: float, warm: float) -> subprocess.Popen[str]:
        """Begin to put a load on a gateway; `outcome` waits for its end."""
        gateway = running.gateway
        name = gateway.named(scenario.upstream) or ""
        connections = _connections(scenario, gateway)
        asked = self.work / gateway.name / f"{scenario.name}.json"
        asked.write_bytes(body(scenario, name.format(scenario.model)))
        program = machine.build(Path(__file__).parent / "lg.c", self.work)
        options = {"-p": running.port, "-b": asked, "-c": connections, "-d": seconds, "-w": warm, "-l": scenario.ramp / connections * 1e6}
        if scenario.rate:
            options["-r"] = scenario.rate
        argv = ["taskset", "-c", machine.LOAD_CORE, program, *(each for option in options.items() for each in option)]
        argv += [each for header in running.launch.headers for each in ("-H", header)]
        return subprocess.Popen([str(each) for each in argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def _settle(self, process: Process) -> None:
        """Wait until a gateway that was overrun has come to rest, so that its next run does not pay for this one."""

        def rests() -> bool:
            before = process.cpu
            time.sleep(0.2)
            return process.cpu - before < 0.02

        machine.wait_until(rests, seconds=SETTLE_SECONDS, every=0)

    # ------------------------------------------------------------------------------------------------ memory
    def _measure_idle(self, gateways: Sequence[Gateway], upstream: int, rounds: int) -> None:
        """Start fresh, look at the memory, open streams that say nothing, look again."""
        for gateway in gateways:
            if self.fast and gateway.name.partition("@")[0] not in {"nginx", "trunkline"}:
                continue
            for number in range(min(rounds, 3)):
                try:
                    running = self.start(gateway, upstream)
                except NotReady as error:
                    say(str(error))
                    break
                assert running.process is not None
                with running.process as process:
                    self._keep_idle(running, process, number)

    def _keep_idle(self, running: Running, process: Process, number: int) -> None:
        name, connections = running.gateway.name, _connections(IDLE, running.gateway)
        fresh = process.memory
        load = self.load(running, IDLE, seconds=IDLE.seconds, warm=0.0)
        time.sleep(IDLE.seconds - 0.5)
        loaded = process.memory
        seen = outcome(load)
        run = {
            "kind": "idle",
            "gateway": name,
            "round": number,
            "ready_seconds": round(running.ready, 3),
            "fresh_mb": round(fresh / 2**20, 1),
        }
        if seen["in_flight"] == connections and not seen["errors"] and not seen["bad"]:
            run["stream_kb"] = round((loaded - fresh) / connections / 1024, 1)
        self.keep(run)
        say(f"{name:12} idle        {run}")


def _connections(scenario: Scenario, gateway: Gateway) -> int:
    if scenario is IDLE:
        return IDLE.connections if gateway.streams >= 300 else 100
    return min(scenario.connections, gateway.streams) if scenario.stream else scenario.connections


def outcome(load: subprocess.Popen[str]) -> Mapping[str, Any]:
    """What the load generator saw. Raises: `SystemExit`, where it failed."""
    told, complaint = load.communicate(timeout=60)
    if load.returncode:
        raise SystemExit(f"the load generator failed: {complaint}")
    return json.loads(told)


def say(line: str) -> None:
    """Tell the person who waits."""
    print(line, flush=True)
