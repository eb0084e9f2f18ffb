"""Reads what a backend gives, with a bound for each pause."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Protocol, runtime_checkable


@runtime_checkable
class _Closable(Protocol):
    async def aclose(self) -> None: ...


@asynccontextmanager
async def paced(body: AsyncIterable[bytes], seconds: float | None) -> AsyncGenerator[AsyncIterator[bytes]]:
    """The pieces of a body, which is closed at the end, whatever that is.

    Reading them raises `TimeoutError` when a pause is longer than `seconds`.
    """
    iterator = aiter(body)
    try:
        async with aclosing(_pieces(iterator, seconds)) as pieces:
            yield pieces
    finally:
        if isinstance(iterator, _Closable):
            await iterator.aclose()


async def _pieces(iterator: AsyncIterator[bytes], seconds: float | None) -> AsyncGenerator[bytes]:
    while True:
        try:
            async with asyncio.timeout(seconds):
                piece = await anext(iterator)
        except StopAsyncIteration:
            return
        yield piece
