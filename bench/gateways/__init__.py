"""The gateways that are compared: one file each, with one constant. To add one, write a file and name it here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.scenarios import Upstream


@dataclass(frozen=True, slots=True)
class Place:
    """Where a gateway is to run.

    Attributes:
        work: a folder of its own, for its files.
        port: to listen on.
        upstream: the mock's port, on 127.0.0.1.
        peers: where `make bench-peers` installs.
    """

    work: Path
    port: int
    upstream: int
    peers: Path


@dataclass(frozen=True, slots=True)
class Launch:
    """How it is started, and what its clients send."""

    argv: list[str]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: tuple[str, ...] = ("Authorization: Bearer sk-client-1",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """One gateway.

    Attributes:
        missing: what it lacks on this machine and how to get it, or nothing.
        launch: writes its configuration.
        model: its name for a model of the mock that speaks OpenAI's format; `claude`: Anthropic's, none if it does not translate;
            `daemon`: of the mock as an extension daemon, if it knows such.
        streams: how many streams at 50 chunks/s it can carry, so that what is measured is not how it is overrun.
        lacks: scenarios that it cannot do, and why.
    """

    name: str
    missing: Callable[[Path], str]
    launch: Callable[[Place], Launch]
    model: str = "{}"
    claude: str | None = None
    daemon: str | None = None
    streams: int = 300
    lacks: Mapping[str, str] = field(default_factory=dict[str, str])

    def named(self, upstream: Upstream) -> str | None:
        """Its name for a model of the mock as this."""
        return {"openai": self.model, "anthropic": self.claude, "daemon": self.daemon}[upstream]
