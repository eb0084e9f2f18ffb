"""Runs the checks, one after the other."""

import asyncio
from collections.abc import Sequence

from trunkline_sdk.daemon.check.credentials import CHECKS as CREDENTIALS
from trunkline_sdk.daemon.check.operations import CHECKS as OPERATIONS
from trunkline_sdk.daemon.check.probe import Check, Daemon, Missed, NotHere, Probe, client_for
from trunkline_sdk.daemon.check.refusals import CHECKS as REFUSALS
from trunkline_sdk.daemon.check.report import Finding, Outcome
from trunkline_sdk.daemon.errors import DaemonError
from trunkline_sdk.daemon.protocol.failures import clean
from trunkline_sdk.http1 import HttpError

_SECONDS = 60.0  # the most that one check takes


async def run(daemon: Daemon, *, fixtures: bool = False, only: Sequence[str] = ()) -> list[Finding]:
    """Every finding, in order. `fixtures`: the daemon serves the providers of section J. `only`: these groups (`I.20`), and `info`.

    Raises:
        AddressRefused: The base URL breaks a rule (A1).
    """
    every: Sequence[Check] = REFUSALS + (OPERATIONS + CREDENTIALS if fixtures else ())
    checks = [check for number, check in enumerate(every) if not number or not only or check.group in only]
    client, http = client_for(daemon)
    findings: list[Finding] = []
    async with client, http:
        probe = Probe(daemon, client, http)
        for check in checks:
            unknown = findings and findings[0].outcome == "failed"  # what it serves, so nothing else can be judged
            outcome, detail = ("skipped", "`info` cannot be read") if unknown else await _outcome(check, probe)
            findings.append(Finding(group=check.group, check=check.name, outcome=outcome, detail=clean(detail, [daemon.secret])))
    return findings


async def _outcome(check: Check, probe: Probe) -> tuple[Outcome, str]:
    try:
        async with asyncio.timeout(_SECONDS):
            return "ok", await check.run(probe)
    except NotHere as why:
        return "skipped", str(why)
    except Missed as why:
        detail = str(why)
    except TimeoutError:
        detail = f"not done after {_SECONDS:g} s"
    except (DaemonError, HttpError, OSError, ValueError, StopAsyncIteration) as error:
        detail = f"{type(error).__name__}: {error}"
    return ("failed" if check.level == "must" else "advice"), detail
