"""What a sandbox was found to enforce here: by attempts from within, not by what was meant."""

from collections.abc import Mapping
from typing import Literal

from trunkline.base.codec import Record, replace
from trunkline.host.sandbox.planning import Plan
from trunkline.host.sandbox.policy import Tier

Status = Literal["enforced", "partial", "absent"]
ALLOWED = "allowed"

CONTROLS = {
    "files": ("write_own_folder", "read_passwd", "read_secret", "read_by_link", "truncate_outside", "attributes_outside", "watch_outside"),
    "names": ("stat_outside",),
    "modes": ("chmod_outside", "utime_outside"),
    "host": ("environ_of_host", "trace_host", "signal_host", "limits_of_host", "signal_host_by_descriptor"),
    "network": ("tcp_connect", "tcp_bind", "udp_send", "unix_path", "unix_abstract", "datagram_pair", "vsock", "netlink"),
    "programs": ("shell",),
    "children": ("child_that_stays",),
    "lifetime": ("outlive_host",),
    "kernel": ("user_namespace", "io_uring"),
    "memory": ("allocate_beyond", "memory_of_no_process", "memory_of_no_mapping"),
    "inheritance": ("environment", "descriptors"),
}
"""What is promised, and the attempts that would break it."""

LEFT_OPEN = {
    "stat_outside": "names, sizes and times of files outside can be seen",
    "chmod_outside": "modes of files of the same user can be changed",
    "utime_outside": "times of files of the same user can be changed",
    "truncate_outside": "files of the same user can be emptied",
    "attributes_outside": "extended attributes of files outside can be read",
    "watch_outside": "what happens in folders outside can be watched",
    "signal_host": "signals reach the host",
    "unix_path": "UNIX sockets of the machine can be reached",
    "child_that_stays": "what it forks may outlive it",
    "outlive_host": "it may outlive the host",
}
"""What it means where an attempt is allowed, if its name does not say it."""


class Finding(Record, frozen=True):
    """One control.

    Attributes:
        control: its name.
        status: whether every attempt against it failed, some, or none.
        by: by what means.
        evidence: `probe`: it was tried; `applied`: the kernel took the order, and that is all that is known.
        detail: what is left open.
        attempts: what became of each: `allowed`, or the error's name.
    """

    control: str
    status: Status
    by: str
    evidence: Literal["probe", "applied"]
    detail: str = ""
    attempts: dict[str, str] = {}


class Report(Record, frozen=True):
    """A policy on a kernel."""

    kernel: str
    tier: Tier
    findings: tuple[Finding, ...]


def judge(outcomes: Mapping[str, str], plan: Plan, *, kernel: str, cgroup: bool, watched: bool) -> Report:
    """Make a report of what the attempts came to.

    Args:
        outcomes: by attempt. One without an outcome was allowed: it ended the program that tried.
        plan: what was applied.
        kernel: its release.
        cgroup: whether the worker was in one with limits.
        watched: whether the host saw what the worker held.
    """
    found = [_found(control, {name: outcomes.get(name, ALLOWED) for name in attempts}, plan) for control, attempts in CONTROLS.items()]
    return Report(
        kernel=kernel,
        tier=plan.tier,
        findings=tuple(_of_memory(each, cgroup=cgroup, watched=watched) if each.control == "memory" else each for each in found),
    )


def _found(control: str, attempts: dict[str, str], plan: Plan) -> Finding:
    allowed = [name for name, outcome in attempts.items() if outcome == ALLOWED]
    status: Status = "enforced" if not allowed else "absent" if len(allowed) == len(attempts) else "partial"
    detail = "; ".join(LEFT_OPEN.get(name, name.replace("_", " ")) for name in allowed)
    return Finding(control=control, status=status, by=_means(control, plan), evidence="probe", detail=detail, attempts=attempts)


def _of_memory(found: Finding, *, cgroup: bool, watched: bool) -> Finding:
    """No attempt goes beyond what one process may have: what is said of all of a worker's is what was done, and what the host saw."""
    if cgroup:
        return replace(found, by=f"cgroup, {found.by}", evidence="applied")
    status: Status = "absent" if found.status == "absent" and not watched else "partial"
    seen = "enforced by polling: the host looks every 50 ms" if watched else "the host cannot see what a worker and its forks hold"
    return replace(found, status=status, detail="; ".join(filter(None, (found.detail, seen))))


def _means(control: str, plan: Plan) -> str:
    """Which of the steps that were done are about it."""
    done = {name for name, _ in plan.steps} | set(plan.namespaces)
    return ", ".join(step for step in MEANS[control] if step in done) or "nothing"


MEANS = {
    "files": ("root", "user", "landlock", "seccomp"),
    "names": ("root",),
    "modes": ("root", "user", "seccomp"),
    "host": ("pid", "user", "landlock", "seccomp"),
    "network": ("net", "root", "landlock", "seccomp"),
    "programs": ("root", "landlock", "seccomp"),
    "children": ("pid", "seccomp"),
    "lifetime": ("parent", "seccomp"),
    "kernel": ("seccomp",),
    "memory": ("limits", "seccomp"),
    "inheritance": ("limits",),
}
