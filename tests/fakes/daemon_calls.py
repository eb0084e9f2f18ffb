"""What calls to providers behind daemons need of the world: a daemon that follows a script, and sign-ins that are renewed as a test says."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from tests.fakes.scripted import Answer, Step
from trunkline.base.secret import Secret
from trunkline.errors import TrunklineError
from trunkline.gateway.daemon_calls import DaemonCalls
from trunkline.model.credential import Credential
from trunkline_sdk.daemon.client import Client
from trunkline_sdk.http1 import Timeouts

Headers = Sequence[tuple[bytes, bytes]]


class Body(Answer):
    """A body whose pieces come as the script says."""

    def __aiter__(self) -> Self:
        return self


@dataclass
class Answered:
    """One answer of the daemon."""

    status: int
    headers: Headers
    body: Body

    async def aclose(self) -> None:
        self.body.closed = True


@dataclass
class Asked:
    """One request to the daemon, names of headers in lower case."""

    url: str
    headers: dict[str, str]
    body: bytes
    timeouts: Timeouts


class Daemon:
    """A daemon that gives its answers in turn, the last one again and again.

    Attributes:
        asked: what it was asked.
    """

    def __init__(self, *answers: Answered | Exception) -> None:
        self.asked: list[Asked] = []
        self._answers = list(answers)

    async def request(self, method: str, url: str, headers: Headers, body: bytes, /, *, timeouts: Timeouts) -> Answered:
        assert method == "POST"
        self.asked.append(Asked(url, {name.decode().lower(): value.decode() for name, value in headers}, body, timeouts))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def aclose(self) -> None:
        """Nothing is open."""


def says(status: int, *steps: Step, headers: Headers = ()) -> Answered:
    """An answer with a body."""
    return Answered(status, headers, Body(*steps))


@dataclass
class Tokens:
    """Every renewal adds a number to the secret.

    Attributes:
        stale: the secrets that have to be renewed before they are sent.
        fails: what a renewal comes to, where not to a new secret.
        asked: each question, with the secret that it was about.
    """

    stale: Sequence[str] = ()
    fails: TrunklineError | None = None
    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    async def fresh(self, credential: Credential) -> Credential:
        self.asked.append(("fresh", credential.secret.reveal()))
        return self._renewed(credential) if credential.secret.reveal() in self.stale else credential

    async def rejected(self, credential: Credential) -> Credential:
        self.asked.append(("rejected", credential.secret.reveal()))
        return self._renewed(credential)

    def _renewed(self, credential: Credential) -> Credential:
        if self.fails is not None:
            raise self.fails
        name, _, number = credential.secret.reveal().partition("#")
        return replace(credential, secret=Secret(f"{name}#{int(number or 0) + 1}"))


def _none(name: str) -> tuple[Client, str]:
    raise AssertionError(f"`{name}` is behind no daemon")


NO_DAEMONS = DaemonCalls(_none, Tokens())
