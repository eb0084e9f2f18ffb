"""The harness's own arithmetic: ratios within a round, verdicts, tables. Its runs are measurements, not tests."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench import mixed, report, workers
from bench.bars import Judged, judge, read
from bench.gateways import litellm, nginx, tensorzero
from bench.scenarios import IDLE, LARGE, LOADS, SMALL, STREAMS, body

MACHINE = {"kind": "machine", "at": "2026-01-02", "fast": False, "rounds": 3, "cpu": "A CPU", "cores": 2, "memory_gb": 8, "kernel": "6.1", "python": "3.11.7"}  # fmt: skip


def run(gateway: str, scenario: str, number: int, **figures: Any) -> dict[str, Any]:
    quiet = {"errors": 0, "bad": 0, "done": 1000, "events": 0, "other": 0.0, "rps": 1.0, "eps": 0.0, "cpu_us": 1.0}
    quiet |= {"p50": 1.0, "p99": 1.0, "first_byte_p50": 1.0}
    return {"kind": "run", "gateway": gateway, "scenario": scenario, "round": number, **quiet, **figures}


def verdict(lines: list[dict[str, Any]], bar: str, what: str) -> Judged:
    return next(each for each in judge(read(lines)) if each.bar == bar and what in each.what)


def test_a_ratio_is_taken_within_a_round_and_their_median_counts() -> None:
    lines = [run("nginx", "small", number, cpu_us=cpu) for number, cpu in enumerate([10, 20, 40])]
    lines += [run("trunkline", "small", number, cpu_us=cpu) for number, cpu in enumerate([90, 180, 2000])]
    judged = verdict(lines, "P2", "nginx")
    assert judged.values == [9, 9, 50]
    assert (judged.median, judged.verdict) == (9, "met")


def test_a_round_that_one_of_them_lacks_does_not_count() -> None:
    lines = [run("nginx", "small", 0, cpu_us=10), run("trunkline", "small", 0, cpu_us=200), run("trunkline", "small", 1, cpu_us=1)]
    judged = verdict(lines, "P2", "nginx")
    assert (judged.values, judged.verdict) == ([20], "missed")


@pytest.mark.parametrize("spoilt", [{"errors": 20}, {"bad": 1000}, {"done": 0}, {"discarded": "nginx's p99 was above 2 ms"}])
def test_a_run_that_went_wrong_does_not_count(spoilt: dict[str, Any]) -> None:
    lines = [run("nginx", "small", 0), run("trunkline", "small", 0, **spoilt)]
    assert verdict(lines, "P2", "nginx").verdict == "not measured"


def test_what_a_gateway_adds_is_what_it_takes_beyond_the_upstream_alone() -> None:
    lines = [run("direct", "steady", 0, p50=100), run("nginx", "steady", 0, p50=200), run("trunkline", "steady", 0, p50=350)]
    assert verdict(lines, "P3", "added median").values == [2.5]


def test_a_translation_that_is_refused_is_not_yet_there() -> None:
    lines = [{"kind": "refused", "gateway": "trunkline", "scenario": "translated", "why": "HTTP 400"}]
    assert verdict(lines, "P7", "LiteLLM").verdict == "not yet: translation is refused"


def test_memory_and_start_are_judged_by_fresh_processes() -> None:
    idle = {"kind": "idle", "gateway": "trunkline", "round": 0, "ready_seconds": 0.9, "fresh_mb": 91.0}
    lines = [{**idle, "stream_kb": 20.0}, idle]
    assert [verdict(lines, "P8", what).verdict for what in ("idle stream", "process", "first answer")] == ["met", "missed", "met"]


def test_workers_are_judged_against_the_least_that_could_do_the_same() -> None:
    least = {"bare_ms": 10.0, "imports_ms": 60.0, "echo_us": 30.0, "echo_chunks": 60_000.0, "idle_kb": 10_000.0}
    ours = {
        "warm_ms": 30.0,
        "cold_ms": 90.0,
        "call_us": 120.0,
        "calls": 9e3,
        "chunks": 3e4,
        "ping_ms": 1.0,
        "warm_kb": 5e3,
        "cold_kb": 12e3,
    }
    judged = workers.judge([{**least, **ours}], {"warm_s": 1.0, "cold_s": 4.0})
    ratios = [(each.bar, round(each.median, 2), each.verdict) for each in judged if each.unit == "×"]
    assert ratios == [
        ("W1", 3.0, "met"),
        ("W1", 1.5, "met"),
        ("W2", 4.0, "missed"),
        ("W3", 0.5, "met"),
        ("W4", 0.5, "met"),
        ("W4", 1.2, "met"),
    ]


def test_memory_under_load_is_judged_by_the_last_minute_against_the_third() -> None:
    minutes = [mixed.Minute(memory=mb * 2**20, done=100) for mb in (60, 70, 80, 100, 85)]
    bar, by_minute, _ = mixed.judge(minutes)
    assert (bar.bar, bar.what, bar.values, bar.verdict) == (
        "P10",
        "memory under mixed load, minute 5 against minute 3",
        [85 / 80],
        "missed",
    )
    assert by_minute.values == [60, 70, 80, 100, 85]


def test_the_tables_go_between_the_marks_of_a_page_and_leave_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results, page = tmp_path / "results.jsonl", tmp_path / "page.md"
    lines = [MACHINE, run("nginx", "small", 0, cpu_us=10), run("trunkline", "small", 0, cpu_us=95)]
    results.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n", encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["report", str(results), "--into", str(page)])
    report.main()
    report.main()
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{report.BEGIN}\n2026-01-02, 2 cores of A CPU")
    assert text.endswith(f"{report.END}\nafter\n")
    assert "| P2 | 1 KB, CPU per request, against nginx | 9.50 × (9.50 – 9.50) | ≤ 10 × | met |" in text
    assert "old" not in text


def test_requests_have_their_size_and_say_what_the_mock_is_to_do() -> None:
    for scenario in (*LOADS, IDLE):
        request = json.loads(body(scenario, scenario.model))
        assert request["model"].startswith("mock-")
        assert request.get("stream", False) == scenario.stream
        assert request["messages"][-1]["role"] == "user" or scenario is LARGE
    assert len(body(SMALL, "m")) == pytest.approx(1_000, rel=0.1)
    assert len(body(LARGE, "m")) == pytest.approx(100_000, rel=0.01)
    assert b'"stream":true' in body(STREAMS, "m")


def test_a_gateway_that_is_not_installed_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt install nginx-light" in nginx.GATEWAY.missing(tmp_path)
    assert [each.GATEWAY.missing(tmp_path).split("`")[1] for each in (litellm, tensorzero)] == ["make bench-peers"] * 2
