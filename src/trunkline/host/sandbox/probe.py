"""Runs the attempts inside a policy, at its first use on a kernel, and remembers what they came to."""

import asyncio
import os
import shutil
import socket
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from tempfile import gettempdir

from trunkline.base.codec import Wire, decode
from trunkline.errors import LaunchFailed
from trunkline.host.sandbox import memory
from trunkline.host.sandbox.children import nowhere
from trunkline.host.sandbox.features import Features, detect
from trunkline.host.sandbox.forks import ForkServer
from trunkline.host.sandbox.inside import attempts
from trunkline.host.sandbox.launch import Launcher, Program
from trunkline.host.sandbox.policy import Policy
from trunkline.host.sandbox.report import Report, judge
from trunkline.host.sandbox.users import FIRST

SECONDS = 20.0


class Prober:
    """Knows what holds. One for the life of the host: a kernel does not change under it."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._known: dict[str, Report] = {}
        self._one_at_a_time = asyncio.Lock()

    def key(self, policy: Policy) -> str:
        """The same for policies that come to the same here. Raises: `SandboxTooWeak`."""
        return self._as_planned(policy)[0]

    async def report(self, policy: Policy) -> Report:
        """What a policy enforces here. Raises: `SandboxTooWeak`, `LaunchFailed`."""
        key, planned = self._as_planned(policy)
        async with self._one_at_a_time:
            if key not in self._known:
                self._known[key] = await probe(self._launcher, planned)
            return self._known[key]

    def _as_planned(self, policy: Policy) -> tuple[str, Policy]:
        """With a user only if a worker becomes that user here: one who cannot read the extension's folder is nobody's choice."""
        plan = self._launcher.plan(policy)
        planned = replace(policy, user=policy.user if plan.user is not None else None)
        return f"{planned.digest} {plan.tier}", planned


async def diagnose() -> tuple[Report, Features]:
    """What the default policy enforces here, as weak as that may be, and what the machine offers. Raises: `LaunchFailed`."""
    features = await detect()
    policy = Policy(folder=gettempdir(), user=FIRST if features.user == 0 else None, allow_unsandboxed=True)
    return await probe(Launcher(features), policy), features


async def probe(launcher: Launcher, policy: Policy, *, warm: ForkServer | None = None) -> Report:
    """Try from within what a policy should refuse; in a worker that is forked, with `warm`. Raises: `SandboxTooWeak`, `LaunchFailed`."""
    with _targets(policy) as (folder, arguments):
        tried = replace(policy, folder=str(folder))
        with nowhere() as unheard:
            program = Program(file=str(folder / "attempts.py"), arguments=arguments)
            worker = await launcher.launch(tried, program, stdout=unheard, stderr=unheard, warm=warm)
        watched = worker.held().memory > 0 and memory.sees_forks()
        try:
            with worker.sock:
                async with asyncio.timeout(SECONDS):
                    said = await _all(worker.sock)
        except TimeoutError as error:
            raise LaunchFailed("the probe of the sandbox does not end") from error
        finally:
            worker.kill()
            await worker.wait()
    outcomes = {line.attempt: line.outcome for line in (decode(line, _Said) for line in said.splitlines())}
    if not outcomes:
        raise LaunchFailed("the probe of the sandbox says nothing")
    features = launcher.features
    return judge(outcomes, worker.plan, kernel=features.kernel, cgroup=features.cgroup is not None, watched=watched)


class _Said(Wire, frozen=True):
    attempt: str
    outcome: str


@contextmanager
def _targets(policy: Policy) -> Generator[tuple[Path, dict[str, object]]]:
    """What the attempts aim at. All of it is open to every user, so that what stops them is the sandbox."""
    place = Path(gettempdir()).resolve() / f"trunkline-probe-{token_hex(6)}"
    folder, outside = place / "extension", place / "outside"
    with ExitStack() as made:
        place.mkdir()
        made.callback(shutil.rmtree, place)
        for path in (folder, outside):
            path.mkdir()
        shutil.copyfile(attempts.__file__, folder / "attempts.py")
        for name in ("secret", "victim"):
            (outside / name).touch()
            (outside / name).chmod(0o666)
        for path, mode in ((place, 0o755), (outside, 0o755), (folder, 0o777), (folder / "attempts.py", 0o644)):
            path.chmod(mode)
        (folder / "link").symlink_to(outside / "secret")
        abstract = f"trunkline-probe-{token_hex(6)}"
        tcp, udp = made.enter_context(socket.socket()), made.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        named, unnamed = made.enter_context(socket.socket(socket.AF_UNIX)), made.enter_context(socket.socket(socket.AF_UNIX))
        datagrams = made.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        tcp.bind(("127.0.0.1", 0))
        udp.bind(("127.0.0.1", 0))
        named.bind(str(outside / "listens"))
        datagrams.bind(str(outside / "datagrams"))
        for path in ("listens", "datagrams"):
            (outside / path).chmod(0o666)
        if os.uname().sysname == "Linux":
            unnamed.bind("\0" + abstract)
            unnamed.listen()
        tcp.listen()
        named.listen()
        yield (
            folder,
            {
                "folder": str(folder),
                "secret": str(outside / "secret"),
                "victim": str(outside / "victim"),
                "host": os.getpid(),
                "tcp": tcp.getsockname()[1],
                "udp": udp.getsockname()[1],
                "unix": str(outside / "listens"),
                "abstract": abstract,
                "datagrams": str(outside / "datagrams"),
                "memory": policy.limits.memory,
            },
        )


async def _all(sock: socket.socket) -> bytes:
    """Everything until the other end is closed."""
    loop, parts = asyncio.get_running_loop(), bytearray()
    while part := await loop.sock_recv(sock, 4096):
        parts += part
    return bytes(parts)
