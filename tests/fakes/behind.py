"""A gateway with an extension daemon behind it, all of it on loopback and in processes and threads of their own.

`ext/signed` is signed in to, `ext/pasted` takes a token, and the rest of `tests.fakes.daemon` is there too.
"""

import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes.authorization import AuthorizationServer
from tests.fakes.daemon import FakeDaemon
from tests.fakes.program import Program
from tests.fakes.server import Reply, Server, trunkline
from tests.fakes.threads import in_thread
from tests.fakes.upstream import Upstream

SECRET = "daemon-secret-canary-0123456789"
TOKEN = "token-canary-0123456789"
CONFIG = """
[providers.ext]
kind = "daemon"
base_url = "{url}"
secret = "env:DAEMON_SECRET"
"""


@dataclass
class Site:
    """A gateway, the daemon behind it, and what is behind that."""

    home: Path
    upstream: Upstream
    auth: AuthorizationServer
    daemon: FakeDaemon
    server: Server
    programs: list[Program] = field(default_factory=list)

    def connects(self, *arguments: str, **variables: str) -> Program:
        self.programs.append(Program(self.home, "connect", *arguments, "--data", str(self.server.data), **variables))
        return self.programs[-1]

    def runs(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return trunkline(*arguments, "--data", self.server.data, home=self.home)

    def chats(self, model: str = "ext/signed/m", *, key: str = "") -> Reply:
        body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
        return self.server.ask("POST", "/v1/chat/completions", body, key=key)

    def connections(self) -> list[dict[str, Any]]:
        return json.loads(self.runs("connections", "--json").stdout)

    def key_of(self, person: str) -> str:
        """A new key of a new person of the account `default`, which may call models and nothing else."""
        assert self.runs("users", "create", person).returncode == 0
        return json.loads(self.runs("keys", "create", f"{person}-laptop", "--user", person, "--json").stdout)["key"]

    def secrets(self) -> list[str]:
        """All that nobody may read anywhere."""
        tokens = [token for each in self.auth.sign_ins for token in (*each.access, each.refresh, *each.used)]
        return [SECRET, TOKEN, *tokens]


@contextmanager
def running(home: Path, **options: Any) -> Generator[Site]:
    with (
        in_thread(Upstream) as upstream,
        in_thread(lambda: AuthorizationServer(**options)) as auth,
        in_thread(lambda: FakeDaemon(upstream.base_url, auth, secret=SECRET)) as daemon,
        Server(home, config=CONFIG.format(url=daemon.url), DAEMON_SECRET=SECRET) as server,
    ):
        upstream.says("hello there", times=None)
        site = Site(home, upstream, auth, daemon, server)
        try:
            yield site
        finally:
            for program in site.programs:
                program.kill()
        server.stop()
    assert (auth.violations, upstream.violations) == ([], [])
    assert [secret for secret in site.secrets() if secret in "".join(server.raw)] == []
