"""What each layer stops, as each kind of user, found by attempts from within: the table of docs/guides/sandbox.md."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.host.asked import COLUMNS
from tests.host.users import Run, as_oneself, as_root_for_all, as_somebody
from trunkline.host.sandbox.report import CONTROLS

pytestmark = [pytest.mark.needs("linux"), pytest.mark.needs("sandbox")]

# ✔ blocked, ✘ allowed; the columns are those of `COLUMNS`: none, Landlock ABI 7, ABI 3, seccomp, network namespace, own root, C, C with ABI 1, B, A
TABLE = """
write_own_folder           ✘ ✔ ✔ ✘ ✘ ✔ ✔ ✔ ✔ ✔
read_passwd                ✘ ✔ ✔ ✘ ✘ ✔ ✔ ✔ ✔ ✔
read_secret                ✘ ✔ ✔ ✘ ✘ ✔ ✔ ✔ ✔ ✔
read_by_link               ✘ ✔ ✔ ✘ ✘ ✔ ✔ ✔ ✔ ✔
truncate_outside           ✘ ✔ ✔ ✔ ✘ ✔ ✔ ✔ ✔ ✔
stat_outside               ✘ ✘ ✘ ✘ ✘ ✔ ✘ ✘ ✘ ✔
chmod_outside              ✘ ✘ ✘ ✔ ✘ ✔ ✔ ✔ ✔ ✔
utime_outside              ✘ ✘ ✘ ✔ ✘ ✔ ✔ ✔ ✔ ✔
attributes_outside         ✘ ✘ ✘ ✔ ✘ ✔ ✔ ✔ ✔ ✔
watch_outside              ✘ ✘ ✘ ✔ ✘ ✔ ✔ ✔ ✔ ✔
environ_of_host            ✘ ✔ ✔ ✘ ✔ ✔ ✔ ✔ ✔ ✔
trace_host                 ✘ ✔ ✔ ✔ ✔ ✔ ✔ ✔ ✔ ✔
signal_host                ✘ ✔ ✘ ✔ ✘ ✔ ✔ ✔ ✔ ✔
limits_of_host             ✘ ✘ ✘ ✔ ✘ ✔ ✔ ✔ ✔ ✔
signal_host_by_descriptor  ✘ ✘ ✘ ✔ ✘ ✔ ✔ ✔ ✔ ✔
tcp_connect                ✘ ✔ ✘ ✔ ✔ ✔ ✔ ✔ ✔ ✔
tcp_bind                   ✘ ✔ ✘ ✔ ✘ ✘ ✔ ✔ ✔ ✔
udp_send                   ✘ ✘ ✘ ✔ ✔ ✔ ✔ ✔ ✔ ✔
unix_path                  ✘ ✘ ✘ ✔ ✘ ✔ ✔ ✔ ✔ ✔
unix_abstract              ✘ ✔ ✘ ✔ ✔ ✔ ✔ ✔ ✔ ✔
datagram_pair              ✘ ✘ ✘ ✔ ✘ ✔ ✔ ✔ ✔ ✔
vsock                      ✘ ✘ ✘ ✔ ✘ ✘ ✔ ✔ ✔ ✔
netlink                    ✘ ✘ ✘ ✔ ✘ ✘ ✔ ✔ ✔ ✔
shell                      ✘ ✔ ✔ ✔ ✘ ✔ ✔ ✔ ✔ ✔
child_that_stays           ✘ ✘ ✘ ✔ ✘ ✔ ✔ ✔ ✔ ✔
outlive_host               ✘ ✘ ✘ ✔ ✘ ✘ ✔ ✔ ✔ ✔
user_namespace             ✘ ✘ ✘ ✔ ✘ ✘ ✔ ✔ ✔ ✔
io_uring                   ✘ ✘ ✘ ✔ ✘ ✘ ✔ ✔ ✔ ✔
allocate_beyond            ✔ ✔ ✔ ✔ ✔ ✔ ✔ ✔ ✔ ✔
memory_of_no_process       ✘ ✘ ✘ ✔ ✘ ✘ ✔ ✔ ✔ ✔
memory_of_no_mapping       ✘ ✘ ✘ ✔ ✘ ✘ ✔ ✔ ✔ ✔
environment                ✔ ✔ ✔ ✔ ✔ ✔ ✔ ✔ ✔ ✔
descriptors                ✔ ✔ ✔ ✔ ✔ ✔ ✔ ✔ ✔ ✔
"""
EXPECTED = {attempt: dict(zip(COLUMNS, marks, strict=True)) for attempt, *marks in map(str.split, TABLE.strip().splitlines())}

BY_USER = {"chmod_outside", "environ_of_host", "trace_host", "signal_host", "limits_of_host"}
"""Of these, some are blocked for a worker of root whatever the layer: without capabilities, or as a user of the pool, it has no right to them."""

WHO = [
    pytest.param(as_oneself, id="root", marks=pytest.mark.needs("root")),
    pytest.param(
        as_root_for_all, id="root, an interpreter for all", marks=[pytest.mark.needs("root"), pytest.mark.needs("interpreter_for_all")]
    ),
    pytest.param(as_somebody, id="an ordinary user", marks=pytest.mark.needs("interpreter_for_all")),
]
MADE_OF = {"none": "D", "landlock 7": "D", "landlock 3": "D", "seccomp": "D", "netns": "D", "own root": "D"}
MADE_OF |= {"C": "C", "C, landlock 1": "C", "B": "B", "A": "A"}


def asked(run: Run, *columns: str, warm: bool = False) -> dict[str, Any]:
    said, _ = run.start("probe", {"columns": columns, "warm": warm}).communicate(timeout=50)
    return json.loads(said)


def mark(outcome: str) -> str:
    return "✘" if outcome == "allowed" else "✔"


@pytest.mark.proves("sandbox.probes")
@pytest.mark.parametrize("who", WHO)
def test_each_layer_stops_what_the_table_says(who: Callable[[], Run]) -> None:
    found = asked(who(), *COLUMNS)
    for attempt, row in EXPECTED.items():
        marks = {column: mark(found[column]["attempts"][attempt]) for column in COLUMNS}
        if attempt in BY_USER and who is not as_somebody:
            assert all(marks[column] == "✔" for column in COLUMNS if row[column] == "✔"), attempt
        else:
            assert marks == row, attempt
    assert {column: found[column]["tier"] for column in COLUMNS} == MADE_OF


@pytest.mark.proves("sandbox.probes")
@pytest.mark.parametrize("who", WHO)
def test_a_forked_worker_is_as_apart_as_one_that_is_started_cold(who: Callable[[], Run]) -> None:
    columns = ("A", "B", "C")
    cold, warm = asked(who(), *columns), asked(who(), *columns, warm=True)
    assert {column: warm[column]["attempts"] for column in columns} == {column: cold[column]["attempts"] for column in columns}


@pytest.mark.proves("sandbox.report")
@pytest.mark.parametrize("who", WHO)
def test_the_report_says_what_the_attempts_came_to(who: Callable[[], Run]) -> None:
    for result in asked(who(), *COLUMNS).values():
        for control, attempts in CONTROLS.items():
            blocked = [mark(result["attempts"][attempt]) == "✔" for attempt in attempts]
            status = "enforced" if all(blocked) else "partial" if any(blocked) else "absent"
            if control == "memory" and all(blocked):
                status = "partial"  # without a cgroup: by polling
            assert result["statuses"][control] == status


def test_the_guide_has_the_table() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "sandbox.md").read_text(encoding="utf-8")
    shown = {
        attempt: dict(zip(COLUMNS, marks.split(" | "), strict=True))
        for attempt, marks in re.findall(r"^\| `(\w+)` \| ([✔✘ |]+) \|$", guide, re.MULTILINE)
    }
    assert shown == {attempt: row for attempt, row in EXPECTED.items() if len(set(row.values())) > 1}


@pytest.mark.needs("interpreter_for_all")
@pytest.mark.proves("sandbox.tiers")
def test_tiers_a_to_c_enforce_everything_but_what_their_report_names() -> None:
    found = asked(as_somebody(), "A", "B", "C")
    weaker = {column: {control for control, status in found[column]["statuses"].items() if status != "enforced"} for column in found}
    assert weaker == {"A": {"memory"}, "B": {"memory", "names"}, "C": {"memory", "names"}}
