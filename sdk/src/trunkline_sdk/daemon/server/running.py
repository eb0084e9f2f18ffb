"""Runs a daemon: binds, serves, ends when it is told to (extra ``serve``)."""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from trunkline_sdk.daemon.server.app import Daemon
from trunkline_sdk.daemon.server.backend import Backend
from trunkline_sdk.daemon.server.guard import host_name, is_loopback
from trunkline_sdk.daemon.server.limits import DEFAULT_LIMITS, DaemonLimits
from trunkline_sdk.dumps import no_core_dumps
from trunkline_sdk.listen import Listener, ListenLimits, Tls

PORT = 18888
"""Where products look for a daemon, by convention (daemon contract, A1)."""

_ENDS = (signal.SIGTERM, signal.SIGINT)

log = logging.getLogger("trunkline_sdk.daemon")


class Exposed(ValueError):
    """A daemon without a secret would be open to other machines."""


async def run(
    daemon: Daemon,
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    unix: Path | None = None,
    tls: Tls | None = None,
    drain_seconds: float = 30.0,
    ready: Callable[[tuple[str, ...]], object] = lambda urls: log.info("listening on %s", ", ".join(urls)),
) -> None:
    """Serve until SIGTERM or SIGINT; then those who are being answered have `drain_seconds`, or until a second signal.

    A host that is not a loopback one has to be given, has to be among the daemon's `hosts`, and takes a secret. `unix` is served instead
    of host and port. `ready` is called with where it listens.

    Raises:
        Exposed: there is no secret, and the host is not a loopback one.
        ListenError: the address or the certificate cannot be used.
    """
    if unix is None and not is_loopback(host_name(host)):
        if not daemon.has_secret:
            raise Exposed(f"a daemon without a secret listens on loopback only, not on {host}: give it a secret")
        if tls is None:
            log.warning("%s is not loopback: without TLS in front, credentials cross the network in the clear", host)
    elif not daemon.has_secret:
        log.warning("the daemon has no secret: every program on this machine can use its providers")
    listener = Listener(daemon, host=host, port=port, unix=unix, tls=tls, limits=ListenLimits())
    loop = asyncio.get_running_loop()
    told, hurried = asyncio.Event(), asyncio.Event()

    def tell() -> None:
        (hurried if told.is_set() else told).set()

    async with listener:
        for number in _ENDS:
            loop.add_signal_handler(number, tell)
        try:
            ready(listener.urls)
            await told.wait()
            daemon.drain()
            await _drained(listener, daemon, drain_seconds, hurried)
        finally:
            for number in _ENDS:
                loop.remove_signal_handler(number)
            await daemon.aclose()


def serve(
    *backends: Backend,
    secret: str | Sequence[str] = "",
    version: str = "",
    hosts: Iterable[str] = (),
    limits: DaemonLimits = DEFAULT_LIMITS,
    host: str = "127.0.0.1",
    port: int = PORT,
    unix: Path | None = None,
    tls: Tls | None = None,
    drain_seconds: float = 30.0,
) -> None:
    """A whole program: serve these backends until a signal comes. See `Daemon` and `run`.

    A host that is given counts among the `hosts`, unless it stands for all addresses. Logs go to stderr. Core dumps are off, since they would hold credentials.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    no_core_dumps()
    daemon = Daemon(*backends, secret=secret, version=version, hosts=[*hosts, *named(host)], limits=limits)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(run(daemon, host=host, port=port, unix=unix, tls=tls, drain_seconds=drain_seconds))


async def _drained(listener: Listener, daemon: Daemon, seconds: float, hurried: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    hurry = loop.create_task(hurried.wait(), name="a second signal")
    drain = loop.create_task(listener.drain(seconds, ending=daemon.end), name="the drain")
    try:
        await asyncio.wait([hurry, drain], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (hurry, drain):
            task.cancel()
        await asyncio.gather(hurry, drain, return_exceptions=True)


def named(host: str) -> list[str]:
    """The name under which a daemon that listens on this host is reached; none where that stands for all addresses."""
    return [host] if host_name(host) not in {"", "0.0.0.0", "::"} else []  # noqa: S104 - to keep it out


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if os.name == "nt":
        return None
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.new_event_loop
    return None
