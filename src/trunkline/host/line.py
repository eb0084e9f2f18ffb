"""One worker's connection: calls to it with the host's word on who asks, and its own calls bound to them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar, cast

from trunkline.base.aio import Tasks
from trunkline.base.clock import Clock
from trunkline.base.codec import Raw
from trunkline.base.ids import new_id
from trunkline.host.grants import Grants
from trunkline_sdk.api import Context
from trunkline_sdk.channel import Call, Channel, Guard, Incoming
from trunkline_sdk.rpc.errors import RpcError
from trunkline_sdk.rpc.peer import Peer

CALL = "ecl"
"""How the ids of calls begin."""


class Kept(Protocol):
    """Something that a method keeps for a worker, such as its connections to the network."""

    async def aclose(self) -> None:
        """Let go of it."""
        ...


class Serves(Protocol):
    """Who answers a worker: the broker."""

    def answer(self, line: "Line", call: Call, /) -> Awaitable[object]:
        """Answer a call. Raises: `RpcError`."""
        ...

    def hear(self, line: "Line", method: str, params: Raw, /) -> bool:
        """Take a notification; whether it is one of the host's methods."""
        ...

    def odd(self, extension: str, what: str, /) -> None:
        """The worker said what it may not."""
        ...

    def crashed(self, extension: str, method: str, error: BaseException, /) -> None:
        """A method failed by a fault of the host."""
        ...

    def left(self, line: "Line", /) -> None:
        """The worker's connection is over."""
        ...


K = TypeVar("K", bound=Kept)


def _nobody(_method: str, _params: Raw) -> None:
    """Notifications that nobody knows are passed over."""


class Line:
    """The connection of one worker, and the `Handle` of its channel.

        async with broker.handler(extension, grants) as line:
            channel = line.open(Peer("host"), heard=…)
            await loop.connect_accepted_socket(lambda: channel, sock)
            channel.welcome(await channel.greeted())
            value = await line.call("tool", params, user="usr_…", seconds=30)

    When it is left, the channel is closed, and everything that the worker has begun has ended.

    Attributes:
        extension: whose worker it is.
        grants: what it may.
    """

    def __init__(self, extension: str, grants: Grants, serves: Serves, clock: Clock) -> None:
        self.extension = extension
        self.grants = grants
        self._serves = serves
        self._clock = clock
        self._channel: Channel | None = None
        self._contexts: dict[int, Context] = {}  # of the host's calls in flight
        self._bound: dict[int, set[asyncio.Task[Any]]] = {}
        self._kept: dict[type, Kept] = {}
        self._closing = AsyncExitStack()
        self._tasks = Tasks(partial(serves.crashed, extension))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        async with self._closing, self._tasks:  # the tasks end before what they use
            if self._channel is not None:
                self._channel.close()
                await self._channel.drained()
        self._channel = None  # it holds this one
        self._serves.left(self)

    def open(self, peer: Peer, *, heard: Callable[[str, Raw], None] = _nobody) -> Channel:
        """The channel, to be connected to the worker's socket.

        Args:
            peer: the host's end, new.
            heard: told of notifications that are none of the host's methods.
        """

        def hear(method: str, params: Raw) -> None:
            if not self._serves.hear(self, method, params):
                heard(method, params)

        self._channel = Channel(
            peer,
            self,
            heard=hear,
            crashed=lambda call, error: self._serves.crashed(self.extension, call.method, error),
            odd=partial(self._serves.odd, self.extension),
            gone=self._gone,
            guard=Guard(),
        )
        return self._channel

    @property
    def channel(self) -> Channel:
        """The channel that was opened. Raises: `RpcError`, where the connection is over."""
        if self._channel is None:
            raise self._gone()
        return self._channel

    def _gone(self) -> RpcError:
        return RpcError("worker_exited", f"the worker of `{self.extension}` is gone", extension=self.extension)

    # ------------------------------------------------------------------------------------------------ calls to the worker
    async def call(
        self, name: str, params: object = None, *, user: str | None, seconds: float, opened: Callable[[Incoming], None] | None = None
    ) -> Raw:
        """Call what the extension has registered by a name. Whatever it asks of the host meanwhile, and binds to it, is for the same user.

        Args:
            name: by which it was registered.
            params: anything that has a JSON form.
            user: for whom; `None` for nobody but the extension itself.
            seconds: how long the answer may take.
            opened: given each stream that is opened to answer it.

        Raises:
            RpcError: it has no result; its `extension` says whose fault that is.
        """
        context = Context(call_id=new_id(CALL, self._clock), extension=self.extension, user=user)
        return await self.ask("call", {"name": name, "params": params}, context=context, seconds=seconds, opened=opened)

    async def ask(
        self, method: str, params: object, *, context: Context, seconds: float, opened: Callable[[Incoming], None] | None = None
    ) -> Raw:
        """Call a method of the worker's own with a context. Raises: `RpcError`, as `call`."""
        begun: list[int] = []

        def began(number: int) -> None:
            begun.append(number)
            self._contexts[number] = context

        try:
            return await self.channel.call(method, params, seconds=seconds, context=context, opened=opened, began=began)
        except RpcError as error:  # a worker may say what it likes; whose fault it is, is the host's word
            raise RpcError(error.code, error.message, retryable=error.retryable, details=error.details, extension=self.extension) from None
        finally:
            for number in begun:
                del self._contexts[number]
                for task in self._bound.pop(number, ()):
                    task.cancel()

    # ------------------------------------------------------------------------------------------------ calls of the worker
    async def __call__(self, call: Call) -> object:
        """Answer a call of the worker. Raises: `RpcError`."""
        return await self._serves.answer(self, call)

    def asker(self, call: Call) -> Context:
        """Who asks: whoever the call is bound to says it, and the worker's own `context` is never looked at.

        Raises:
            RpcError: the call that it is bound to is over.
        """
        if call.during is None:
            return Context(call_id=new_id(CALL, self._clock), extension=self.extension)
        context = self.context(call.during)
        if context is None:
            raise RpcError("cancelled", "the call that this one belongs to is over")
        return context

    def context(self, number: int) -> Context | None:
        """The host's word on a call of its own in flight, by its number; `None` where there is none."""
        return self._contexts.get(number)

    def keep(self, kind: type[K], make: Callable[[], K]) -> K:
        """The one thing of its kind that is kept for this worker; it is made when it is first asked for."""
        found = self._kept.get(kind)
        if found is None:
            found = self._kept[kind] = make()
            self._closing.push_async_callback(found.aclose)
        return cast(K, found)

    def beside(self, coroutine: Coroutine[Any, Any, None], *, during: int | None, name: str) -> asyncio.Task[None]:
        """Run something that outlasts its own call: until the call of the host's that it is bound to is over, or the worker is gone."""
        task = self._tasks.start(coroutine, name=name)
        if during is not None:
            bound = self._bound.setdefault(during, set())
            bound.add(task)
            task.add_done_callback(bound.discard)
            if during not in self._contexts:
                task.cancel()
                del self._bound[during]
        return task
