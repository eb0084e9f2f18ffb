"""Server-sent events: two readers and a writer, without I/O.

``Events`` reads as the WHATWG standard says (HTML Living Standard, section 9.2.6) and keeps every byte for a relay; it is for vendors'
streams. ``Records`` reads as version 1 of the extension daemon protocol says (its rules for records) and drops what carries no data; it is
for daemons' streams. Both take bytes as they arrive, cut anywhere, and do work in proportion to their number.
"""

from msgspec import Struct

_BOM = b"\xef\xbb\xbf"
_MIB = 1024 * 1024


class EventTooLarge(ValueError):
    """One event or record has more bytes than the reader's limit; the reader gives nothing more."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"an event of the stream has more than {limit} bytes")
        self.limit = limit


class Event(Struct, frozen=True, gc=False):
    """One block of lines with its blank line.

    ``raw`` is every byte from the end of the block before to the end of this one. ``name`` is empty where the block has no ``event``
    line. ``data`` is its data lines joined with LF, or None where it has no data line (a comment that keeps the connection alive, a
    name alone, an id).
    """

    raw: bytes
    name: str
    data: bytes | None


class Rest(Struct, frozen=True, gc=False):
    """What stood behind the last whole event. ``cut`` says that an event had begun in it: more than line ends and comments."""

    raw: bytes
    cut: bool


class Events:
    """Reads a stream as a browser does: LF, CRLF and bare CR end lines, a BOM may stand at the start.

    The ``raw`` of all events and of the rest, joined, is the input to the byte. A blank line that ends with CR at the end of a read
    completes its event at once; an LF that belongs to it becomes the first byte of the next ``raw``. ``id`` and ``retry`` mean nothing
    to a relay: they stay in ``raw``.
    """

    __slots__ = ("_after_cr", "_begun", "_data", "_limit", "_line", "_name", "_pending", "_started", "_too_large")

    def __init__(self, *, limit: int = 16 * _MIB) -> None:
        self._limit = limit  # bytes of one event
        self._pending = bytearray()  # what earlier reads left of the event
        self._line = bytearray()  # the end of `_pending` that is a line without its end
        self._begun = False  # the event has a line
        self._name = ""
        self._data: list[bytes] = []
        self._after_cr = False  # an LF at the start of the next read belongs to a line that has ended
        self._started = False  # the first line is read: no BOM can come
        self._too_large = False

    def feed(self, chunk: bytes) -> list[Event]:
        """Every event that these bytes complete.

        Raises:
            EventTooLarge: an event has outgrown the limit; the events before it were given by the call before.
        """
        if self._too_large:
            raise EventTooLarge(self._limit)
        events: list[Event] = []
        lines = chunk.splitlines(keepends=True)
        begin = end = 0  # of the event and of the line, in `chunk`
        if self._after_cr and chunk.startswith(b"\n"):
            end = len(lines.pop(0))
        for whole in lines:
            end += len(whole)
            line = whole.rstrip(b"\r\n")
            if len(line) == len(whole):
                self._line += line
                break
            if self._line or not self._started:
                line = self._joined(line)
            if line:
                self._begun = True
                self._field(line)
            elif self._begun:
                if len(self._pending) + end - begin > self._limit:
                    break
                events.append(self._event(chunk[begin:end]))
                begin = end
        self._after_cr = chunk.endswith(b"\r") or (self._after_cr and not chunk)
        self._pending += chunk[begin:]
        self._too_large = len(self._pending) > self._limit
        if self._too_large and not events:
            raise EventTooLarge(self._limit)
        return events

    def end(self) -> Rest:
        """What is left when the stream has ended; an event without its blank line is none.

        Raises:
            EventTooLarge: the last read held an event over the limit.
        """
        if self._too_large:
            raise EventTooLarge(self._limit)
        raw = bytes(self._pending)
        return Rest(raw, any(line and not line.startswith(b":") for line in raw.removeprefix(_BOM).splitlines()))

    def _joined(self, line: bytes) -> bytes:
        line = bytes(self._line + line)
        self._line.clear()
        if self._started:
            return line
        self._started = True
        return line.removeprefix(_BOM)

    def _field(self, line: bytes) -> None:
        if line.startswith(b"data: "):  # what nearly every line is
            self._data.append(line[6:])
            return
        field, _, value = line.partition(b":")
        if field == b"event":
            self._name = value.removeprefix(b" ").decode("utf-8", "replace")
        elif field == b"data":
            self._data.append(value.removeprefix(b" "))

    def _event(self, raw: bytes) -> Event:
        if self._pending:
            raw = bytes(self._pending + raw)
            self._pending.clear()
        event = Event(raw, self._name, b"\n".join(self._data) if self._data else None)
        self._begun = False
        self._name = ""
        self._data.clear()
        return event


class Records:
    """Reads a daemon's stream: each frame is one whole record that has data, byte for byte.

    Lines end at LF, and a CR before it is cut for reading only. A record whose joined data is empty is dropped whole, with its comments.
    """

    __slots__ = ("_data", "_limit", "_line", "_raw", "_too_large")

    def __init__(self, *, limit: int = 4 * _MIB) -> None:
        self._limit = limit  # bytes of one record: comments before it, line ends and the blank line included
        self._raw = bytearray()  # the record so far
        self._line = bytearray()  # the part of `_raw` that is a line without its end
        self._data = -1  # bytes of the data lines joined with LF; -1 before the first
        self._too_large = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Every record with data that these bytes complete.

        Raises:
            EventTooLarge: a record has outgrown the limit; the records before it were given by the call before.
        """
        if self._too_large:
            raise EventTooLarge(self._limit)
        if not self._raw and len(chunk) <= self._limit and (plain := _plain(chunk)) is not None:
            return plain
        records: list[bytes] = []
        lines = chunk.split(b"\n")
        tail = lines.pop()
        for line in lines:
            self._raw += line
            self._raw += b"\n"
            if len(self._raw) > self._limit:
                break
            text = line
            if self._line:
                text = bytes(self._line + line)
                self._line.clear()
            text = text.removesuffix(b"\r")
            if text:
                self._data += _data_bytes(text)
                continue
            if self._data > 0:
                records.append(bytes(self._raw))
            self._raw.clear()
            self._data = -1
        else:
            self._raw += tail
            self._line += tail
        self._too_large = len(self._raw) > self._limit
        if self._too_large and not records:
            raise EventTooLarge(self._limit)
        return records

    @property
    def resting(self) -> bool:
        """What came so far was whole records, and no part of another."""
        return not self._raw

    @property
    def full(self) -> bool:
        """A record has outgrown the limit: every further read says so."""
        return self._too_large

    def end(self) -> bytes | None:
        """The record that the end of the body completes, with the line ends that it lacks, if it has data.

        Raises:
            EventTooLarge: the last read held a record over the limit.
        """
        if self._too_large:
            raise EventTooLarge(self._limit)
        if self._data + _data_bytes(bytes(self._line)) <= 0:
            return None
        return bytes(self._raw) + (b"\n\n" if self._line else b"\n")


def _plain(chunk: bytes) -> list[bytes] | None:
    """The records of a read that is whole blocks, each with one blank line behind it, and LF for every line end; None for any other."""
    end = chunk.find(b"\n\n")
    if end <= 0 or b"\r" in chunk or chunk.startswith(b"\n"):
        return None
    if end == len(chunk) - 2:  # one block, as in nearly every read
        return [chunk] if chunk.startswith(b"data: {") or _has_data(chunk) else []
    if not chunk.endswith(b"\n\n") or b"\n\n\n" in chunk:
        return None
    return [block + b"\n\n" for block in chunk[:-2].split(b"\n\n") if _has_data(block)]


def _has_data(block: bytes) -> bool:
    """Whether the joined data of a block, whose lines end with LF, is not empty."""
    start = 0 if block.startswith(b"data: ") else block.find(b"\ndata: ") + 1
    if (start or block.startswith(b"data: ")) and block[start + 6 : start + 7] not in {b"", b"\n"}:  # what nearly every block is
        return True
    return sum(map(_data_bytes, block.split(b"\n"))) > 1


def _data_bytes(line: bytes) -> int:
    """What a line adds to the joined data, the LF before it included."""
    field, _, value = line.partition(b":")
    return 1 + len(value.removeprefix(b" ")) if field == b"data" else 0


def event(data: bytes, name: str | None = None) -> bytes:
    """One event. Each line of ``data`` gets a line of its own; a reader gives it back with LF between them.

    Raises:
        ValueError: ``name`` holds a line end.
    """
    head = b""
    if name is not None:
        if "\n" in name or "\r" in name:
            raise ValueError("the name of an event holds a line end")
        head = b"event: " + name.encode() + b"\n"
    if b"\n" in data or b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", b"\ndata: ")
    return head + b"data: " + data + b"\n\n"


def comment(text: str) -> bytes:
    """A comment in a block of its own, to be written between events; every reader skips it. Each line of ``text`` is one comment."""
    lines = text.encode().replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return b": " + lines.replace(b"\n", b"\n: ") + b"\n\n"
