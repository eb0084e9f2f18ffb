"""The answer of an invoke, taken as it arrives: sound that can be played before its end is made."""

from types import TracebackType
from typing import Self

from trunkline_sdk.daemon.client.transport import FAILURES, Answer, waited
from trunkline_sdk.daemon.errors import CallFailed
from trunkline_sdk.daemon.messages import Loss
from trunkline_sdk.daemon.protocol import failures, headers
from trunkline_sdk.daemon.protocol.failures import Where
from trunkline_sdk.daemon.protocol.routes import INVOKE


class Arriving:
    """Iterates over the pieces of the body; `content_type` and `losses` are known from the start.

    Its end closes it, so do an error, `aclose` and leaving `async with`. Cancelling a read drops the connection.

    Raises (while iterating):
        CallFailed: It broke off, was silent for too long, or is larger than an invoke's answer may be; every later read raises the same.
    """

    __slots__ = ("_answer", "_body", "_error", "_room", "_where", "content_type", "losses")

    def __init__(self, answer: Answer, where: Where) -> None:
        assert INVOKE.answer_bytes is not None
        self.content_type = headers.text(headers.find(answer.headers, b"content-type"))
        self.losses: tuple[Loss, ...] = headers.read_losses(answer.headers)
        self._answer = answer
        self._body = aiter(answer.body)
        self._where = where
        self._room = INVOKE.answer_bytes
        self._error: CallFailed | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._error is None:
            try:
                part = await self._body.__anext__()
                self._room -= len(part)
                if self._room >= 0:
                    return part
                self._error = failures.unusable(self._where)
            except FAILURES as error:
                self._error = failures.unanswered(self._where, waited(error))
            except BaseException:  # its end, too
                await self.aclose()
                raise
            await self.aclose()
        raise self._error

    async def aclose(self) -> None:
        """Drop the connection, unless the body was read to its end."""
        await self._answer.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()
