"""What an extension's code is given: one context for the extension, and one for each call."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from threading import get_ident
from typing import Any, Literal

import msgspec

from trunkline_sdk import api
from trunkline_sdk.api import LogLine
from trunkline_sdk.channel import Call, Channel
from trunkline_sdk.rpc.errors import RpcError
from trunkline_sdk.worker.network import Network

Level = Literal["debug", "info", "warning", "error"]

LINE_BYTES = 64 * 1024
MOST_CHARACTERS = 1000
"""Of the message of a line that has more bytes."""


class Log:
    """Lines of the host's log, under the extension's name. There is a limit to how many it takes. Any thread may write them.

    What has no JSON form is told by its `repr`; of a line that is too large, the beginning of its message alone.
    """

    __slots__ = ("_call", "_channel", "_loop", "_thread")

    def __init__(self, channel: Channel, call: int | None = None) -> None:
        self._channel = channel
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()

    def debug(self, message: str, **fields: object) -> None:
        """Of use to who looks for a fault."""
        self._tell("debug", message, fields)

    def info(self, message: str, **fields: object) -> None:
        """What happened, as it should."""
        self._tell("info", message, fields)

    def warning(self, message: str, **fields: object) -> None:
        """What the operator may want to change."""
        self._tell("warning", message, fields)

    def error(self, message: str, **fields: object) -> None:
        """What went wrong."""
        self._tell("error", message, fields)

    def _tell(self, level: Level, message: str, fields: dict[str, object]) -> None:
        try:
            written = self._line(level, message, fields)
        except (TypeError, ValueError, RecursionError):  # half a surrogate pair, a key that is none, a circle
            message = message.encode(errors="backslashreplace").decode()
            written = self._line(level, message, {name: ascii(value) for name, value in fields.items()})
        if len(written) > LINE_BYTES:
            written = self._line(level, message[:MOST_CHARACTERS], {"dropped_bytes": len(written)})
        if get_ident() == self._thread:
            self._channel.notify("log", msgspec.Raw(written))
        else:
            self._loop.call_soon_threadsafe(self._channel.notify, "log", msgspec.Raw(written))

    def _line(self, level: Level, message: str, fields: dict[str, object]) -> bytes:
        return msgspec.json.encode(LogLine(level=level, message=message, fields=fields, call=self._call), enc_hook=repr)


class CallContext:
    """Of one call of the host. What it asks of the host is asked for that call's user, and ends with the call.

    Attributes:
        call_id: the host's name for it.
        user: whom it is made for; `None` for nobody.
        seconds: that were left for the answer when it came.
    """

    __slots__ = ("call_id", "log", "network", "seconds", "user")

    def __init__(self, channel: Channel, call: Call, told: api.Context) -> None:
        self.call_id = told.call_id
        self.user = told.user
        self.seconds = call.seconds
        self.log = Log(channel, call.id)
        self.network = Network(channel, call.id)


Handler = (
    Callable[[Any, CallContext], Awaitable[object]]
    | Callable[[Any, CallContext], AsyncGenerator[bytes]]
    | Callable[[Any, CallContext], object]
)
"""Answers a call: is given its parameters, as JSON has them, and its context. Where it waits for anything it is a coroutine, or an
asynchronous generator: its bytes are a stream of the call's, of which the next piece is asked for when there is room for it."""


class Context:
    """Of the extension, for as long as it runs. What it asks of the host is asked without a user.

    Attributes:
        name: the extension's.
    """

    __slots__ = ("_handlers", "log", "name", "network")

    def __init__(self, channel: Channel, name: str, handlers: dict[str, Handler]) -> None:
        self.name = name
        self.log = Log(channel)
        self.network = Network(channel)
        self._handlers = handlers

    def handle(self, name: str, handler: Handler) -> None:
        """Have the host's calls of this name answered. Raises: `RpcError`, where it is taken."""
        if name in self._handlers:
            raise RpcError("invalid_params", f"there is a handler of `{name}` already")
        self._handlers[name] = handler
