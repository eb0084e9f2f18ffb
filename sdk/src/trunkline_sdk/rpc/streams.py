"""What waits to be written: messages first, then streams in turn; and the windows of streams, at both ends."""

from collections import deque
from collections.abc import Iterator

from trunkline_sdk.rpc import frames
from trunkline_sdk.rpc.messages import Limits


class Waiting:
    """Messages that wait to be written.

    Attributes:
        size: of all of them, in bytes.
    """

    __slots__ = ("_frames", "size")

    def __init__(self) -> None:
        self._frames: deque[bytes] = deque()
        self.size = 0

    def __bool__(self) -> bool:
        return bool(self._frames)

    def append(self, frame: bytes) -> None:
        """One more."""
        self._frames.append(frame)
        self.size += len(frame)

    def popleft(self) -> bytes:
        """The one that waits longest."""
        frame = self._frames.popleft()
        self.size -= len(frame)
        return frame

    def clear(self) -> None:
        """None of them is wanted."""
        self._frames.clear()
        self.size = 0


class Sending:
    """An own stream: what may be sent, and what waits to be written."""

    __slots__ = ("_bytes", "_messages", "_seq", "_window", "ended", "number", "waiting")

    def __init__(self, number: int, window: Limits) -> None:
        self.number = number
        self.waiting: deque[bytes] = deque()  # frames, its end among them
        self.ended = False
        self._window = window
        self._messages: int = window.stream_messages
        self._bytes: int = window.stream_bytes
        self._seq = 0

    def room(self, size: int) -> bool:
        """Whether a piece of so many bytes may be sent."""
        return self._messages > 0 and size <= self._bytes

    def send(self, data: bytes) -> None:
        """Have a piece written."""
        self._messages -= 1
        self._bytes -= len(data)
        self.waiting.append(frames.piece(self.number, self._seq, data))
        self._seq += 1

    def credit(self, messages: int, size: int) -> bool:
        """The other side has used so much; whether it can have."""
        if self._messages + messages > self._window.stream_messages or self._bytes + size > self._window.stream_bytes:
            return False
        self._messages += messages
        self._bytes += size
        return True


class Taking:
    """A stream of the other side: what it may send."""

    __slots__ = ("_bytes", "_gathered", "_messages", "_quantum", "_seq")

    def __init__(self, window: Limits) -> None:
        self._messages = window.stream_messages
        self._bytes = window.stream_bytes
        self._quantum = max(1, window.stream_messages // 2), max(1, window.stream_bytes // 2)
        self._gathered = [0, 0]
        self._seq = 0

    def came(self, seq: int, size: int) -> str:
        """Note a piece; what is wrong with it, or nothing."""
        if seq != self._seq:
            return f"piece {seq} came where {self._seq} was to come"
        if self._messages < 1 or size > self._bytes:
            return "more was sent than there was room for"
        self._seq += 1
        self._messages -= 1
        self._bytes -= size
        return ""

    def used(self, size: int) -> tuple[int, int] | None:
        """Note a piece that was used; the credit to give, when it is worth a message."""
        gathered = self._gathered
        gathered[0] += 1
        gathered[1] += size
        if gathered[0] < self._quantum[0] and gathered[1] < self._quantum[1]:
            return None
        messages, size = gathered
        self._gathered = [0, 0]
        self._messages += messages
        self._bytes += size
        return messages, size


class Turns:
    """Whose piece is written next: each stream one, in turn.

    Attributes:
        ending: streams that have ended and are not all written.
    """

    __slots__ = ("_ready", "ending")

    def __init__(self) -> None:
        self._ready: deque[Sending] = deque()
        self.ending = 0

    def __bool__(self) -> bool:
        return bool(self._ready)

    def add(self, stream: Sending) -> None:
        """A stream has something to write, which it had not before."""
        self._ready.append(stream)

    def drop(self, stream: Sending) -> None:
        """What it has to write is not wanted."""
        stream.waiting.clear()
        if stream in self._ready:
            self._ready.remove(stream)

    def frames(self) -> Iterator[bytes]:
        """Frames, as long as there are any and they are asked for."""
        while self._ready:
            stream = self._ready.popleft()
            found = stream.waiting.popleft()
            if stream.waiting:
                self._ready.append(stream)
            elif stream.ended:
                self.ending -= 1
            yield found
