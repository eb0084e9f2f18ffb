"""From a policy and what the machine offers to a tier and the steps, in order. Pure.

Order (trunkline.host.sandbox.inside.steps has the same): namespaces, a root of its own, the user, limits, parent's death, no new privileges,
Landlock, seccomp. Each needs what the ones before it left; the last two take away what those needed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from trunkline.errors import SandboxTooWeak
from trunkline.host.sandbox.features import Features, Reach
from trunkline.host.sandbox.policy import DEVICES, Policy, Tier
from trunkline_sdk.rpc.messages import Control

Values = Mapping[str, object]

NEEDS = {
    "A": "namespaces with a root of its own, Landlock and seccomp",
    "B": "a network namespace, Landlock ABI 4 and seccomp",
    "C": "Landlock, or namespaces with a root of its own, and seccomp",
}
TCP_ABI = 4
MAPPED = 8 << 30
"""Bytes of address space beyond what a worker may hold: for libraries, and for the stacks and arenas of threads. What maps them (1/512 of
it) is in no size of a process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a worker is started.

    Attributes:
        tier: what it amounts to.
        namespaces: that it is forked into.
        steps: by name, with their values, in the order in which they are done.
        controls: what is applied and what is absent, for the worker's hello.
        children: whether it may fork: where no fork outlives it, and none has seconds of its own.
        user: of the pool, whom it becomes; `None`: it stays the host's.
    """

    tier: Tier
    namespaces: tuple[str, ...]
    steps: tuple[tuple[str, Values], ...]
    controls: tuple[Control, ...]
    children: bool
    user: int | None


def plan(policy: Policy, features: Features, reach: Reach, *, parent: int = 0) -> Plan:
    """The strongest that this machine can do.

    Args:
        policy: what is to hold.
        features: of the machine.
        reach: what a user of the pool can read.
        parent: the host's process id.

    Raises:
        SandboxTooWeak: that is weaker than the policy's minimum, and it does not say `allow_unsandboxed`.
    """
    tier = _tier(features)
    if tier > policy.minimum and not policy.allow_unsandboxed:
        missing = f" ({features.why_not})" if features.why_not else ""
        raise SandboxTooWeak(
            f"this machine's sandbox is of tier {tier}, and `{policy.folder}` needs {policy.minimum}: {NEEDS[policy.minimum]}{missing}",
            hint="`trunkline ext doctor` says what is missing. `allow_unsandboxed = true` for this extension runs its code without.",
        )
    own_root = features.own_root
    namespaces = features.namespaces if own_root else tuple(name for name in features.namespaces if name not in {"mount", "pid"})
    user = policy.user if features.user == 0 and (reach.shown if own_root else reach.here) else None
    seen: Values = {"readable": policy.readable, "writable": DEVICES}
    steps: list[tuple[str, Values]] = []
    if "user" in namespaces:
        steps.append(("ids", {"user": features.user, "group": features.group}))
    if own_root:
        steps.append(("root", seen))
    if features.linux:
        steps.append(("user", {"user": user}))
    limits = _limits(policy, own_users=user is not None or "user" in namespaces, linux=features.linux)
    steps.append(("limits", limits))
    if features.linux:
        steps += [("parent", {"pid": parent}), ("no_new_privileges", {})]
    if features.landlock:
        steps.append(("landlock", {"abi": features.landlock, **seen}))
    children = own_root and policy.limits.cpu_seconds is None
    if features.seccomp:
        steps.append(("seccomp", {"children": children}))
    return Plan(
        tier=tier,
        namespaces=namespaces,
        steps=tuple(steps),
        controls=_controls(policy, features, namespaces, user, limits, own_root=own_root),
        children=children,
        user=user,
    )


def _tier(features: Features) -> Tier:
    if not features.seccomp or not (features.landlock or features.own_root):
        return "D"
    if features.own_root and features.landlock:
        return "A"
    return "B" if "net" in features.namespaces and features.landlock >= TCP_ABI else "C"


def _limits(policy: Policy, *, own_users: bool, linux: bool) -> dict[str, int]:
    limits = policy.limits
    most = {"CORE": 0, "DATA": limits.memory, "NOFILE": limits.open_files, "FSIZE": limits.file_size}
    if linux:
        most |= {"AS": limits.memory + MAPPED, "NICE": 0, "RTPRIO": 0}
    if own_users:  # else all that this user runs on the machine would be counted
        most["NPROC"] = limits.processes
    if limits.cpu_seconds is not None:
        most["CPU"] = limits.cpu_seconds
    return most


def _controls(
    policy: Policy, features: Features, namespaces: tuple[str, ...], user: int | None, limits: Mapping[str, int], *, own_root: bool
) -> tuple[Control, ...]:
    def applied(control: str, by: str, detail: str = "") -> Control:
        return Control(control, by, "applied", detail)

    def either(control: str, by: str, *, there: bool, detail: str = "") -> Control:
        return applied(control, by, detail) if there else Control(control, by, "absent", features.why_not)

    return (
        applied("environment", "empty environment, other descriptors closed"),
        either("namespaces", ", ".join(namespaces) or "none", there=bool(namespaces)),
        either("own_root", "mount namespace", there=own_root),
        either("user", f"user {user}" if user is not None else "the host's own, without capabilities", there=features.linux),
        applied("limits", ", ".join(f"{name} {most}" for name, most in limits.items())),
        applied("memory", "cgroup memory.max" if features.cgroup else "the host looks every 50 ms", f"{policy.limits.memory} bytes"),
        either("parent_death", "SIGKILL when the host ends", there=features.linux),
        either("no_new_privileges", "prctl", there=features.linux),
        either("landlock", f"ABI {features.landlock}", there=features.landlock > 0),
        either("seccomp", "system calls are filtered", there=features.seccomp),
    )
