from dataclasses import replace
from pathlib import Path

import pytest

from tests.host.users import reachable
from trunkline.errors import LaunchFailed, SandboxTooWeak
from trunkline.host.sandbox.features import Features, Reach, delegated, reach
from trunkline.host.sandbox.inside.steps import STEPS
from trunkline.host.sandbox.planning import Plan, plan
from trunkline.host.sandbox.policy import Interpreter, Limits, Policy
from trunkline.host.sandbox.report import CONTROLS, Finding, judge
from trunkline.host.sandbox.users import Users

ALL = ("user", "mount", "pid", "net", "ipc", "uts")
FULL = Features(kernel="Linux 6.18 x86_64", user=1000, group=1000, landlock=7, seccomp=True, namespaces=ALL, own_root=True)
ROOT = replace(FULL, user=0, group=0, namespaces=ALL[1:])
BARE = replace(FULL, landlock=0, seccomp=False, namespaces=(), own_root=False)
INTERPRETER = Interpreter(readable=("/usr/lib/python3",), packages={})
POLICY = Policy(folder="/ext", interpreter=INTERPRETER)
ANYWHERE = Reach(shown=True, here=True)


def planned(features: Features, policy: Policy = POLICY, where: Reach = ANYWHERE) -> Plan:
    return plan(replace(policy, allow_unsandboxed=True), features, where, parent=77)


@pytest.mark.proves("sandbox.tiers")
@pytest.mark.parametrize(
    ("less", "tier"),
    [
        ({}, "A"),
        ({"own_root": False, "namespaces": ("user", "net", "ipc", "uts")}, "B"),
        ({"own_root": False, "namespaces": ("user", "net", "ipc", "uts"), "landlock": 3}, "C"),
        ({"own_root": False, "namespaces": ()}, "C"),
        ({"own_root": False, "namespaces": (), "landlock": 1}, "C"),
        ({"landlock": 0}, "C"),
        ({"landlock": 0, "own_root": False, "namespaces": ()}, "D"),
        ({"seccomp": False}, "D"),
        ({"seccomp": False, "landlock": 0}, "D"),
    ],
)
def test_the_tier_goes_by_what_the_machine_offers(less: dict[str, object], tier: str) -> None:
    features = replace(FULL, **less)  # pyright: ignore[reportArgumentType]
    assert planned(features).tier == tier


@pytest.mark.parametrize("features", [FULL, ROOT, BARE, replace(FULL, own_root=False, namespaces=("user", "net"))])
def test_steps_come_in_the_one_order_and_each_is_known(features: Features) -> None:
    names = [name for name, _ in planned(features).steps]
    assert names == [name for name in STEPS if name in names]
    assert "no_new_privileges" in names
    assert names.index("parent") > names.index("user")


@pytest.mark.proves("sandbox.tiers")
def test_below_the_minimum_nothing_is_planned_but_by_name() -> None:
    with pytest.raises(SandboxTooWeak, match=r"of tier D, and `/ext` needs C: .* \(Operation not permitted\)") as refused:
        plan(POLICY, replace(BARE, why_not="Operation not permitted"), ANYWHERE)
    assert "allow_unsandboxed" in refused.value.hint
    with pytest.raises(SandboxTooWeak, match="needs A"):
        plan(replace(POLICY, minimum="A"), replace(FULL, own_root=False), ANYWHERE)
    assert plan(replace(POLICY, minimum="A"), FULL, ANYWHERE).tier == "A"
    assert planned(BARE).tier == "D"


@pytest.mark.parametrize(
    ("features", "where", "user"),
    [
        (ROOT, ANYWHERE, 60600),
        (ROOT, Reach(shown=True, here=False), 60600),
        (ROOT, Reach(shown=False, here=False), None),
        (replace(ROOT, own_root=False), ANYWHERE, 60600),
        (replace(ROOT, own_root=False), Reach(shown=True, here=False), None),
        (FULL, ANYWHERE, None),
    ],
)
def test_root_gives_a_worker_a_user_of_the_pool_where_that_one_can_read_what_it_needs(
    features: Features, where: Reach, user: int | None
) -> None:
    made = planned(features, replace(POLICY, user=60600), where)
    assert made.user == user
    assert ("user", {"user": user}) in made.steps


def test_a_worker_may_fork_only_where_its_forks_end_with_it() -> None:
    for features, children in ((FULL, True), (replace(FULL, own_root=False), False), (BARE, False)):
        made = planned(features)
        assert made.children is children
        assert ("pid" in made.namespaces) is children
        assert dict(made.steps).get("seccomp", {"children": children}) == {"children": children}
    counted = planned(FULL, replace(POLICY, limits=Limits(cpu_seconds=7)))
    assert not counted.children
    assert dict(counted.steps)["seccomp"] == {"children": False}


def test_processes_are_counted_only_where_they_are_the_workers_own() -> None:
    assert "NPROC" in dict(planned(FULL).steps)["limits"]
    assert "NPROC" not in dict(planned(replace(FULL, namespaces=(), own_root=False)).steps)["limits"]
    limits = dict(planned(FULL, replace(POLICY, limits=Limits(cpu_seconds=7))).steps)["limits"]
    assert limits["CPU"] == 7
    assert (limits["AS"], limits["NICE"], limits["RTPRIO"]) == ((256 << 20) + (8 << 30), 0, 0)


def test_what_is_absent_is_told_as_absent() -> None:
    told = {control.control: control.status for control in planned(BARE).controls}
    assert [name for name, status in told.items() if status == "absent"] == ["namespaces", "own_root", "landlock", "seccomp"]
    assert "absent" not in {control.status for control in planned(FULL).controls}


@pytest.mark.proves("sandbox.report")
def test_what_was_attempted_and_never_answered_was_allowed() -> None:
    every = {attempt: "EPERM" for attempts in CONTROLS.values() for attempt in attempts}
    found = judged(every, cgroup=True)
    assert {finding.status for finding in found.values()} == {"enforced"}
    del every["shell"]
    found = judged(every)
    assert found["programs"].status == "absent"
    assert (found["memory"].status, found["memory"].detail) == ("partial", "enforced by polling: the host looks every 50 ms")
    assert found["files"].by == "root, user, landlock, seccomp"


@pytest.mark.proves("sandbox.report")
def test_what_no_attempt_tried_is_not_said_to_be_probed() -> None:
    every = {attempt: "EPERM" for attempts in CONTROLS.values() for attempt in attempts}
    found = judged(every, cgroup=True)
    assert {control for control, finding in found.items() if finding.evidence == "applied"} == {"memory"}
    assert found["memory"].by == "cgroup, limits, seccomp"
    unseen = judged(every, watched=False)["memory"]
    assert (unseen.status, unseen.detail) == ("partial", "the host cannot see what a worker and its forks hold")
    nothing = judged(every | dict.fromkeys(CONTROLS["memory"], "allowed"), watched=False)["memory"]
    assert nothing.status == "absent"


def judged(outcomes: dict[str, str], *, cgroup: bool = False, watched: bool = True) -> dict[str, Finding]:
    report = judge(outcomes, planned(FULL), kernel="", cgroup=cgroup, watched=watched)
    return {finding.control: finding for finding in report.findings}


@pytest.mark.proves("sandbox.report")
def test_policies_that_a_probe_cannot_tell_apart_have_one_digest() -> None:
    same = [POLICY, replace(POLICY, folder="/other"), replace(POLICY, minimum="A"), replace(POLICY, allow_unsandboxed=True)]
    assert len({policy.digest for policy in same}) == 1
    other = [
        POLICY,
        replace(POLICY, user=60600),
        replace(POLICY, limits=Limits(memory=1)),
        replace(POLICY, interpreter=Interpreter(readable=(), packages={})),
    ]
    assert len({policy.digest for policy in other}) == 4
    assert replace(POLICY, user=60600).digest == replace(POLICY, user=60601).digest


def test_reach_goes_by_the_modes_of_what_is_there(tmp_path: Path) -> None:
    reachable(tmp_path)
    folder = tmp_path / "kept" / "extension"
    folder.mkdir(parents=True)
    (folder / "main.py").touch()
    (folder / "main.py").chmod(0o644)
    (folder / "link").symlink_to("/nowhere")
    policy = Policy(folder=str(folder), interpreter=Interpreter(readable=(), packages={}))
    for path, mode in ((folder, 0o755), (folder.parent, 0o755)):
        path.chmod(mode)
    assert reach(policy) == Reach(shown=True, here=True)
    folder.parent.chmod(0o700)
    assert reach(policy) == Reach(shown=True, here=False)
    (folder / "main.py").chmod(0o600)
    assert reach(policy) == Reach(shown=False, here=False)


def test_a_cgroup_is_made_only_where_memory_is_delegated(tmp_path: Path) -> None:
    own, mounts, parent = tmp_path / "cgroup", tmp_path / "mountinfo", tmp_path / "fs" / "app.service"
    (parent / "host").mkdir(parents=True)
    own.write_text("1:cpu:/x\n0::/app.service/host\n")
    mounts.write_text(f"30 20 0:26 / {tmp_path / 'fs'} rw,nosuid - cgroup2 cgroup2 rw\n")
    assert delegated(own, mounts) is None
    (parent / "cgroup.subtree_control").write_text("cpu pids\n")
    assert delegated(own, mounts) is None
    (parent / "cgroup.subtree_control").write_text("cpu memory pids\n")
    assert delegated(own, mounts) == str(parent)
    assert delegated(own, tmp_path / "none") is None


def test_the_pool_gives_each_user_once() -> None:
    users = Users(100, 2)
    assert [users.take(), users.take()] == [100, 101]
    with pytest.raises(LaunchFailed):
        users.take()
    users.give(100)
    assert users.take() == 100
