"""``python -m trunkline_sdk.daemon.check URL``: see the package."""

import argparse
import asyncio
import os
import sys

from trunkline_sdk.daemon import check
from trunkline_sdk.daemon.check.probe import Daemon
from trunkline_sdk.daemon.check.report import as_json, passed, table
from trunkline_sdk.daemon.check.running import run
from trunkline_sdk.daemon.errors import AddressRefused
from trunkline_sdk.daemon.protocol.headers import BadHeader
from trunkline_sdk.daemon.protocol.routes import base_url


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 where the daemon keeps the contract, 1 where it does not, 2 where it cannot be asked."""
    parser = argparse.ArgumentParser(prog="python -m trunkline_sdk.daemon.check", description=(check.__doc__ or "").replace("``", ""))
    parser.add_argument("url", help="base URL of the daemon, such as http://127.0.0.1:18888")
    parser.add_argument("--fixtures", action="store_true", help="the daemon serves the providers of the contract's section J")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--provider", default="", help="the provider to ask (with --fixtures: conf_chat)")
    parser.add_argument("--speech", default="conf_speech", help="the fixture provider that speaks")
    parser.add_argument("--only", action="append", default=[], metavar="GROUP", help="such as I.20; may be given several times")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long to wait for what should come at once")
    given = parser.parse_args(arguments)
    try:
        daemon = Daemon(
            base=base_url(given.url),
            secret=os.environ.get("DAEMON_SECRET", "").strip(),
            provider=given.provider or ("conf_chat" if given.fixtures else ""),
            speech=given.speech,
            seconds=given.seconds,
        )
        findings = asyncio.run(run(daemon, fixtures=given.fixtures, only=given.only))
    except (AddressRefused, BadHeader) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write((as_json(findings) if given.json else table(findings)) + "\n")
    return 0 if passed(findings) else 1


if __name__ == "__main__":
    sys.exit(main())
