"""Fakes that serve from a thread of their own, for tests that wait for processes.

with in_thread(AuthorizationServer) as auth, in_thread(lambda: FakeDaemon(url, auth)) as daemon:
    ...
"""

import asyncio
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def in_thread(make: Callable[[], AbstractAsyncContextManager[T]]) -> Generator[T]:
    """What `make` gives, made and entered in another thread, which ends with the block."""
    entered: Future[tuple[T, Callable[[], object]]] = Future()

    async def serve() -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        async with make() as fake:
            entered.set_result((fake, lambda: loop.call_soon_threadsafe(ended.set)))
            await ended.wait()

    def work() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            if entered.done():
                raise
            entered.set_exception(error)

    thread = threading.Thread(target=work, name="a fake")
    thread.start()
    fake, end = entered.result(20)
    try:
        yield fake
    finally:
        end()
        thread.join(20)
    assert not thread.is_alive(), "the fake does not end"
