"""Tools' names as a format allows them, and back.

A name that a vendor refuses (too long, or with other characters) gets a short one: its own beginning and a digest of the whole, so
that it is the same in every turn, different from every other, and needs no memory.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256

from trunkline.base import codec
from trunkline.model.chat import Tool
from trunkline.model.event import Reply, ToolCallStarted
from trunkline.model.loss import Loss
from trunkline.model.part import ToolCall

DIGEST = 8  # characters; with a thousand tools two share one by a chance of 10^-7, and then the request is refused

MARK = "__"

_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")


NOTHING: Mapping[str, Tool] = {}


class Names:
    """The tools' names of one request; `tools` are those that are more than a name to their caller, by their full names."""

    def __init__(self, names: Iterable[str] = (), *, limit: int = 64, tools: Mapping[str, Tool] = NOTHING) -> None:
        self._limit = limit
        self._tools = tools
        self._short: dict[str, str] = {}
        self._original: dict[str, str] = {}
        for name in names:
            short = shortened(name, limit)
            if self._original.setdefault(short, name) != name:
                short = shortened(f"{name}\0", limit, shown=name)
                self._original[short] = name
            self._short[name] = short

    def short(self, name: str) -> str:
        """The name that the provider gets; a history may hold calls of tools that there are no more."""
        return self._short.get(name) or shortened(name, self._limit)

    def original(self, short: str) -> str:
        """The name that the caller knows."""
        return self._original.get(short, short)

    def restored(self, reply: Reply) -> Reply:
        """A reply with the tools that the caller knows."""
        if not self.changed and not self._tools:
            return reply
        return codec.replace(reply, content=tuple(self._called(part) if isinstance(part, ToolCall) else part for part in reply.content))

    def started(self, event: ToolCallStarted) -> ToolCallStarted:
        """The beginning of a call of a tool that the caller knows."""
        name = self.original(event.name)
        tool = self._tools.get(name)
        if tool is None:
            return ToolCallStarted(event.index, event.id, name, event.namespace, event.free)
        return ToolCallStarted(event.index, event.id, tool.name, tool.namespace, tool.free)

    def _called(self, call: ToolCall) -> ToolCall:
        name = self.original(call.name)
        tool = self._tools.get(name)
        return replace(call, name=name) if tool is None else replace(call, name=tool.name, namespace=tool.namespace, free=tool.free)

    @property
    def changed(self) -> bool:
        """Whether any name differs."""
        return any(name != short for name, short in self._short.items())

    def loss(self, name: str, at: str) -> list[Loss]:
        """What a changed name is reported as: the model reads another one, so it is material."""
        short = self.short(name)
        return [] if short == name else [Loss(at, "material", "renamed", f"named `{short}` there, and as before in the reply")]

    def loss_of_call(self, name: str, at: str) -> list[Loss]:
        """The same for a call, where its tool is not among the tools and so not reported with them."""
        return [] if name in self._short else self.loss(name, at)


UNCHANGED = Names()


def full(tool: Tool | ToolCall) -> str:
    """The name of a tool where there are no groups: with that of its own, which most clients end with the same mark."""
    return f"{tool.namespace.removesuffix(MARK)}{MARK}{tool.name}" if tool.namespace else tool.name


def shortened(name: str, limit: int, *, shown: str | None = None) -> str:
    """A name of letters, digits, `_` and `-` within a limit; itself, if it is one."""
    shown = name if shown is None else shown
    clean = _FOREIGN.sub("_", shown)
    if clean == name and len(clean) <= limit:
        return name
    digest = sha256(name.encode()).hexdigest()[:DIGEST]
    return f"{clean[: limit - DIGEST - 1]}_{digest}"
