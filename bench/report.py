"""Results as tables: python -m bench.report RESULTS [--into docs/performance.md]."""

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.bars import Judged, Results, judge, read

BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"


def tables(lines: Sequence[dict[str, Any]]) -> str:
    """Markdown: the machine, the figures of every gateway, the bars."""
    results = read(lines)
    others = [line["other"] for line in lines if line["kind"] == "run"] or [0.0]
    rounds = len({line["round"] for line in lines if line["kind"] == "run"})
    parts = [
        _machine(next(line for line in lines if line["kind"] == "machine"), rounds, others),
        _figures(results),
        verdicts(judge(results)),
    ]
    for name in sorted(gateway for gateway in {gateway for gateway, _ in results.runs} if gateway.startswith("trunkline@")):
        parts += [f"The same for `{name}`:", verdicts(judge(results, name))]
    refused = [f"- `{gateway}`, {scenario}: {why}" for (gateway, scenario), why in sorted(results.refused.items())]
    return "\n\n".join([*parts, *(["Not measured:\n\n" + "\n".join(refused)] if refused else [])])


def _machine(line: dict[str, Any], rounds: int, others: Sequence[float]) -> str:
    how = f"{rounds} interleaved rounds{', the short form' if line['fast'] else ''}"
    return (
        f"{line['at']}, {line['cores']} cores of {line['cpu']}, {line['memory_gb']} GB, Linux {line['kernel']}, "
        f"CPython {line['python']}; median of {how}. Others used {statistics.median(others):.1f} of the cores meanwhile."
    )


def _figures(results: Results) -> str:
    gateways = list(dict.fromkeys([gateway for gateway, _ in results.runs] + list(results.idle)))
    columns = (
        ("1 KB req/s", "small", "rps", 0),
        ("CPU µs/req", "small", "cpu_us", 0),
        ("100 KB req/s", "large", "rps", 0),
        ("CPU µs/req", "large", "cpu_us", 0),
        ("300/s p50 µs", "steady", "p50", 0),
        ("p99 µs", "steady", "p99", 0),
        ("stream CPU µs/chunk", "streams", "cpu_us", 1),
        ("from a daemon", "daemon", "cpu_us", 1),
        ("first byte p50 µs", "first_byte", "first_byte_p50", 0),
        ("translated CPU µs/chunk", "translated", "cpu_us", 1),
    )
    rows: list[list[str]] = []
    for gateway in gateways:
        figures = [_cell(results.median(gateway, scenario, key), places) for _, scenario, key, places in columns]
        if gateway == "direct":
            figures = ["–" if key == "cpu_us" else figure for figure, (_, _, key, _) in zip(figures, columns, strict=True)]
        idle = results.idle.get(gateway, [])
        rows.append(
            [gateway, *figures, *(_median(idle, key, places) for key, places in (("stream_kb", 0), ("fresh_mb", 0), ("ready_seconds", 1)))]
        )
    return _table(["", *(column[0] for column in columns), "idle stream KB", "process MB", "ready s"], rows)


def verdicts(judged: Sequence[Judged]) -> str:
    """Markdown: what was measured, and whether it is as it must be."""
    rows = [[each.bar, each.what, _value(each), _bound(each), each.verdict] for each in judged]
    return _table(["", "measure", "median (least – most)", "bar", ""], rows, numbers=(2, 3))


def _value(judged: Judged) -> str:
    if not judged.values:
        return "–"
    places = 0 if judged.median >= 100 else 2 if judged.median < 10 else 1
    return f"{judged.median:,.{places}f} {judged.unit} ({min(judged.values):,.{places}f} – {max(judged.values):,.{places}f})"


def _bound(judged: Judged) -> str:
    if judged.most is not None:
        return f"≤ {judged.most:g} {judged.unit}"
    return f"≥ {judged.least:g} {judged.unit}" if judged.least is not None else ""


def _median(runs: Sequence[Any], key: str, places: int) -> str:
    values = [run[key] for run in runs if key in run]
    return _cell(statistics.median(values) if values else None, places)


def _cell(value: float | None, places: int) -> str:
    return "–" if value is None else f"{value:,.{places}f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] | None = None) -> str:
    right = range(1, len(head)) if numbers is None else numbers
    lines = [head, ["--:" if number in right else "---" for number in range(len(head))], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def show(text: str, page: Path | None, marks: tuple[str, str] = (BEGIN, END)) -> None:
    """Print it, or put it between the marks in a page."""
    if page is None:
        print(text)
        return
    begin, end = marks
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def main() -> None:
    """Print the tables, or put them between the marks in a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--into", type=Path, help="a page with the marks between which they go")
    given = parser.parse_args()
    show(tables([json.loads(line) for line in given.results.read_text(encoding="utf-8").splitlines()]), given.into)


if __name__ == "__main__":
    main()
