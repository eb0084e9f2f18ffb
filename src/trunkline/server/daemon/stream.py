"""A vendor's stream as products read one: lines that end with LF, and never a clean end before the answer's (daemon contract, C2 to C4)."""

import re
from collections.abc import AsyncIterator, Callable

from trunkline.errors import TrunklineError
from trunkline.gateway.relay import Broken, Stream
from trunkline.gateway.upstream import Answer
from trunkline_sdk.daemon.server import Failure

_BOM = b"\xef\xbb\xbf"
_BARE_CR = re.compile(rb"\r(?!\n)")


class Records:
    """The records that come next, each time that some do.

    The gateway's own reader holds the stream to its format, mends what the kind of provider is known to get wrong, and gives the end that
    only lacks its mark. What vendors write otherwise than products read it is written anew: a byte order mark, lines that end with CR
    alone. An error event of the vendor's goes out as it is. Any other failure is raised, so that the transport is broken and nobody takes
    it for the end.

    Args:
        stream: reads the answer.
        answer: what is left at the end.
        told: what a product is told of an error.
    """

    __slots__ = ("_after_cr", "_answer", "_ended", "_stream", "_told")

    def __init__(self, stream: Stream, answer: Answer, told: Callable[[TrunklineError], Failure]) -> None:
        self._stream = stream
        self._answer = answer
        self._told = told
        self._ended = False
        self._after_cr = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not (self._stream.done or self._ended):
            try:
                said = await self._stream.next()
            except Broken as broken:
                if not broken.native:
                    raise self._told(broken.error) from None
                said, self._ended = broken.native, True
            if said:
                return self._written(said)
        await self._stream.settle()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Leave the provider."""
        await self._answer.aclose()

    def _written(self, said: bytes) -> bytes:
        if self._after_cr:
            said = said.removeprefix(b"\n")  # the rest of a line end that was cut
        said = said.removeprefix(_BOM)
        self._after_cr = said.endswith(b"\r")
        if self._after_cr:
            said += b"\n"
        return _BARE_CR.sub(b"\n", said) if b"\r" in said else said
