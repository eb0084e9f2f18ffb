"""What was found, for people and for programs."""

from collections.abc import Sequence
from typing import Literal

import msgspec

Outcome = Literal["ok", "failed", "advice", "skipped"]

_SIGNS: dict[Outcome, str] = {"ok": "ok", "failed": "FAILED", "advice": "advice", "skipped": "-"}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One check. `group` is the contract's (`I.3`, `K1`); `advice` is a miss of what the contract only advises."""

    group: str
    check: str
    outcome: Outcome
    detail: str = ""


def passed(findings: Sequence[Finding]) -> bool:
    """Whether the daemon keeps the contract, as far as it was asked."""
    return all(finding.outcome != "failed" for finding in findings)


def table(findings: Sequence[Finding]) -> str:
    """One line for each check, and how many came out how."""
    width = max((len(finding.check) for finding in findings), default=0)
    lines = [f"{one.group:<5} {one.check:<{width}}  {_SIGNS[one.outcome]:<6}  {one.detail}".rstrip() for one in findings]
    counts = {outcome: sum(one.outcome == outcome for one in findings) for outcome in _SIGNS}
    return "\n".join([*lines, "", ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)])


def as_json(findings: Sequence[Finding]) -> str:
    """One object: `passed`, and `findings`, a list."""
    return msgspec.json.encode({"passed": passed(findings), "findings": findings}).decode()
