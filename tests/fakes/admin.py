"""The admin API in this process, without a socket: what tests of resources need.

async def test_a_note_is_read(api):
    api.caller = operator()
    reply = await api.get("/notes/nte_a")
    assert (reply.status, reply.json["text"]) == (200, "hello")
"""

import json
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.clock import FakeClock
from tests.fakes.scripted import Door
from trunkline.access.scopes import SCOPES
from trunkline.model.caller import Caller, Role
from trunkline.server.admin import ROOT, Resource
from trunkline.server.rest.api import Api
from trunkline.server.rest.pool import Pool


def operator(account: str = "acc_default") -> Caller:
    """Whoever runs the installation."""
    return Caller(id="key_op", kind="service", name="operator", scopes=frozenset(SCOPES), account=account)


def member(account: str, role: Role = "admin") -> Caller:
    """Somebody who is confined to an account."""
    return Caller(id=f"key_{role}", kind="service", name=role, scopes=frozenset({"account"}), account=account, role=role)


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The error, in the one shape that all of them have."""
        [(name, error)] = self.json.items()
        assert name == "error"
        assert sorted(error) == ["code", "fault", "hint", "message", "request_id"]
        assert error["request_id"] == self.headers["x-request-id"]
        return error

    @property
    def said(self) -> str:
        """All that an error says, but for whose request it was."""
        return f"{self.status} {self.error | {'request_id': ''}}"


@dataclass
class Asking:
    """Asks an API as whoever `caller` is. `crashes` are the faults of ours that came up; the fixture that makes it checks that there are none."""

    resources: Mapping[str, Resource[Any]]
    services: list[object]
    open_documents: bool = False
    clock: FakeClock = field(default_factory=FakeClock)
    pool: Pool = field(default_factory=Pool)
    crashes: list[tuple[str, Exception]] = field(default_factory=list)
    door: Door = field(default_factory=Door)

    def __post_init__(self) -> None:
        self.caller = operator()
        self.api = Api(
            resources=self.resources,
            services={kind: each for each in self.services for kind in type(each).__mro__},  # so that a fake may stand for its base
            access=self.door,
            pool=self.pool,
            clock=self.clock,
            crashed=lambda request_id, error: self.crashes.append((request_id, error)),
            open_documents=self.open_documents,
        )

    @property
    def caller(self) -> Caller:
        return self.door.caller

    @caller.setter
    def caller(self, caller: Caller) -> None:
        self.door.caller = caller

    async def get(self, path: str, **headers: str) -> Reply:
        return await self.ask("GET", path, **headers)

    async def ask(self, method: str, path: str, body: object = None, *, raw: bytes | None = None, **headers: str) -> Reply:
        """A request; the path stands below `/api/v1` unless it is a document's. Names of headers have `_` for `-`."""
        path, _, query = path.partition("?")
        if path not in self.api.documents and not path.startswith(ROOT):
            path = ROOT + path
        content = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if content and "content-type" not in named:
            named["content-type"] = "application/json"
        messages: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            messages.append(message)

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in named.items()],
        }
        assert self.api.serves(path)
        await self.api.answer(scope, receive, send, path=path, address="192.0.2.1", extra=[])
        start, *rest = messages
        got = [name for name, _ in start["headers"]]
        assert len(set(got)) == len(got), "a header comes twice"
        reply = Reply(
            start["status"],
            {name.decode(): value.decode("latin-1") for name, value in start["headers"]},
            b"".join(part["body"] for part in rest),
        )
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["x-request-id"] == reply.headers["request-id"]
        return reply
