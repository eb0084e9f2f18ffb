"""The broker: every call of every worker comes through here, and is judged here.

    known? → not too often? → params → who asks? → may it? → the method

A worker says what it wants and with what; who it is, for whom it works, what it was granted and how often it may ask is the host's word.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from trunkline.base import members
from trunkline.base.clock import Clock
from trunkline.base.codec import Malformed, Raw, decode_raw, is_null
from trunkline.base.log import Logger, printable
from trunkline.base.metrics import Registry, Tally
from trunkline.host import methods
from trunkline.host.grants import Grants
from trunkline.host.line import Line
from trunkline.host.methods import Ask, Group, Method, Notice
from trunkline.host.rates import Bucket, Rate
from trunkline_sdk.channel import Call
from trunkline_sdk.rpc.errors import RpcError

P = TypeVar("P")

ODD = Rate(per_second=1, burst=10)
"""Lines about one extension that breaks the protocol."""


class Named(Protocol):
    """An extension, as far as the broker is concerned."""

    @property
    def name(self) -> str:
        """By which the operator knows it."""
        ...


class _Call(NamedTuple):
    method: Method[Any, Any]
    service: object


class _Notice(NamedTuple):
    notice: Notice[Any, Any]
    service: object


def groups() -> dict[str, Group[Any]]:
    """Every group of host methods, by the name of its module."""
    return members.load(methods, "METHODS", Group, third_party=False)


class Broker:
    """Answers workers.

    Args:
        groups: the methods.
        services: what they work with; each group finds its own by the class.
        clock: the time.
        log: the host's log.
        registry: the metrics.
    """

    def __init__(
        self, groups: Mapping[str, Group[Any]], services: Iterable[object], *, clock: Clock, log: Logger, registry: Registry
    ) -> None:
        by_class = {type(each): each for each in services}
        self._calls: dict[str, _Call] = {}
        self._notices: dict[str, _Notice] = {}
        for group in groups.values():
            service = by_class[group.service]
            for name, method in group.calls.items():
                assert name not in self._calls, f"two host methods are called `{name}`"
                self._calls[name] = _Call(method, service)
            for name, notice in group.notices.items():
                assert name not in self._notices, f"two host methods are called `{name}`"
                self._notices[name] = _Notice(notice, service)
        self._clock = clock
        self._log = log
        self._buckets: dict[tuple[str, str], Bucket] = {}  # for each extension, whichever worker it has: a crash fills none
        self._dropped: dict[tuple[str, str], int] = {}
        self._counted = Tally(
            "trunkline_extension_requests", "Calls of extensions to the host.", ("extension", "method", "outcome"), registry=registry
        )

    def handler(self, extension: Named, grants: Grants) -> Line:
        """A connection for a new worker of an extension. Use it as `async with`."""
        return Line(extension.name, grants, self, self._clock)

    # ------------------------------------------------------------------------------------------------ for lines
    async def answer(self, line: Line, call: Call) -> object:
        """Answer a call. Raises: `RpcError`."""
        found = self._calls.get(call.method)
        name = call.method if found is not None else "unknown"
        try:
            value = await self._answer(line, call, found)
        except RpcError as error:
            self._counted.add(line.extension, name, error.code)
            raise
        except asyncio.CancelledError:
            self._counted.add(line.extension, name, "cancelled")
            raise
        except Exception:
            self._counted.add(line.extension, name, "failed")
            raise
        self._counted.add(line.extension, name, "ok")
        return value

    async def _answer(self, line: Line, call: Call, found: _Call | None) -> object:
        if found is None:
            raise RpcError("method_not_found", f"the host has no method `{printable(call.method, 100)}`")
        method, service = found
        wait = self._bucket(line.extension, call.method, method.rate).take(self._clock.monotonic())
        if wait:
            raise RpcError("rate_limited", f"`{call.method}` is asked too often", retryable=True, details={"retry_after": round(wait, 3)})
        params = _read(call.params, method.params)
        ask = Ask(params=params, context=line.asker(call), number=call.id, during=call.during, line=line)
        needs = method.needs(params) if callable(method.needs) else method.needs
        if needs is not None:
            ask.require(needs)
        return await method.do(service, ask)

    def hear(self, line: Line, method: str, params: Raw) -> bool:
        """Take a notification; whether it is one of the host's methods."""
        found = self._notices.get(method)
        if found is None:
            return False
        if self._bucket(line.extension, method, found.notice.rate).take(self._clock.monotonic()):
            key = (line.extension, method)
            self._dropped[key] = self._dropped.get(key, 0) + 1
            return True
        self._tell_dropped(line.extension, method)
        try:
            read = _read(params, found.notice.params)
        except RpcError as error:
            self.odd(line.extension, f"`{method}`: {error.message}")
        else:
            found.notice.do(found.service, line, read)
        return True

    def odd(self, extension: str, what: str) -> None:
        """The worker said what it may not."""
        if not self._bucket(extension, "", ODD).take(self._clock.monotonic()):
            self._log.warning("extension broke the protocol", extension=extension, what=printable(what, 300))

    def crashed(self, extension: str, method: str, error: BaseException) -> None:
        """A method failed by a fault of the host."""
        self._log.error("extension request failed", extension=extension, method=method, exc_info=error)

    def left(self, line: Line) -> None:
        """The worker's connection is over."""
        for method in self._notices:
            self._tell_dropped(line.extension, method)

    def _bucket(self, extension: str, method: str, rate: Rate) -> Bucket:
        key = (extension, method)
        found = self._buckets.get(key)
        if found is None:
            found = self._buckets[key] = Bucket(rate, self._clock.monotonic())
        return found

    def _tell_dropped(self, extension: str, method: str) -> None:
        count = self._dropped.pop((extension, method), 0)
        if count:
            self._log.warning("extension notifications dropped", extension=extension, method=method, count=count)


def _read(params: Raw, kind: type[P]) -> P:
    try:
        return decode_raw(b"{}" if is_null(params) else params, kind)
    except (*Malformed, UnicodeDecodeError) as error:
        raise RpcError("invalid_params", str(error)) from None
