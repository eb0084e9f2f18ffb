"""JSON as a Go program reads and writes it, for records of the daemon contract (A9). No I/O.

Reading: keys match without regard to case; unknown ones are passed over; what is missing or null stays at its zero value; of a repeated key
the last counts. A value of a wrong type is a fault, and the other fields are read all the same. A time or a support value that cannot be
read ends the reading there: fields after it stay unset. Strings that hold no Unicode (bad UTF-8, half a surrogate pair) get U+FFFD.

Writing: fields in their order, maps by key, `<`, `>` and `&` escaped; times as RFC 3339 with year 1 for "unset"; durations as nanoseconds.
"""

import functools
import re
import types
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec

T = TypeVar("T")

Support = Literal["unknown", "supported", "unsupported"]


class _Mark(NamedTuple):
    name: str


OMIT: Final = _Mark("omit")
"""`Annotated` with it, a field is not written while it is empty (an object: while it is wholly zero)."""

Time = Annotated[datetime | None, _Mark("time")]
"""A moment with its zone, to the microsecond; None is "unset", year 1 on the wire."""

Duration = Annotated[timedelta, _Mark("ns")]
"""An integer count of nanoseconds on the wire; here to the microsecond."""

_UNSET_TIME = "0001-01-01T00:00:00Z"
_LONG_PAST = datetime(1, 1, 1, microsecond=1, tzinfo=UTC)
_RFC3339 = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:Z|([+-])([01]\d|2[0-3]):([0-5]\d))", re.ASCII)
_HALF_PAIRS = re.compile(
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\[^u]|\\u(?![dD][89a-fA-F]))|\\u[dD][89a-fA-F][0-9a-fA-F]{2}", re.DOTALL
)
_INT64 = 1 << 63
_ESCAPED = {b"<": rb"\u003c", b">": rb"\u003e", b"&": rb"\u0026", b"\xe2\x80\xa8": rb"\u2028", b"\xe2\x80\xa9": rb"\u2029"}
_NOTHING: Final = object()


class Unreadable(ValueError):
    """The JSON is broken, or a value has a wrong type.

    `partial` is a record of the wanted kind with what could be read. The text names the place, never a value.
    """

    def __init__(self, reason: str, partial: msgspec.Struct | None = None) -> None:
        super().__init__(reason)
        self.partial = partial


class Faults:
    """The first thing that was wrong, and whether the reading ended there."""

    __slots__ = ("first", "stopped")

    def __init__(self) -> None:
        self.first = ""
        self.stopped = False

    def add(self, place: str, wanted: str, *, stop: bool = False) -> Any:
        """Note it; what stands there counts as absent."""
        self.first = self.first or f"`{place.lstrip('.') or 'the top'}` must be {wanted}"
        self.stopped = self.stopped or stop
        return _NOTHING


_Read = Callable[[Any, str, Faults], Any]
_Write = Callable[[Any], Any]


class _Codec(NamedTuple):
    """`write` gives `_NOTHING` where nothing is to be written."""

    read: _Read
    write: _Write


def parse(data: bytes) -> Any:
    """The one JSON value that these bytes are.

    Raises:
        Unreadable: They are not.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        mended = _HALF_PAIRS.sub(lambda found: found[1] or rb"\ufffd", data.decode("utf-8", "replace").encode())
    if mended != data:
        try:
            return msgspec.json.decode(mended)
        except (msgspec.DecodeError, RecursionError):
            pass
    raise Unreadable("it is no JSON")


def decode(kind: type[T], data: bytes) -> T:
    """A record from its JSON; `null` is the empty record.

    Raises:
        Unreadable: Its `partial` is a `kind`, empty where the bytes are no JSON.
    """
    try:
        tree = parse(data)
    except Unreadable as broken:
        broken.partial = cast(msgspec.Struct, kind())
        raise
    return convert(kind, tree)


def convert(kind: type[T], tree: Any) -> T:
    """A record from parsed JSON.

    Raises:
        Unreadable: As for `decode`.
    """
    faults = Faults()
    value = _codec(kind).read(tree, "", faults)
    record: T = kind() if value is _NOTHING else value
    if faults.first:
        raise Unreadable(faults.first, cast(msgspec.Struct, record))
    return record


def encode(record: msgspec.Struct) -> bytes:
    """The record's JSON, to the byte as Go writes it (floats in free-form maps excepted).

    Raises:
        ValueError: A time without a zone, or text that is no Unicode; the text names no value.
    """
    return dump(_codec(type(record)).write(record))


def dump(tree: Any) -> bytes:
    """Plain values as compact JSON with Go's escapes; the caller orders the keys.

    Raises:
        ValueError: Text that is no Unicode, or a number beyond 64 bits.
    """
    try:
        data = msgspec.json.encode(tree)
    except (UnicodeEncodeError, OverflowError, TypeError):
        raise ValueError("a value cannot be written as JSON") from None
    for plain, escaped in _ESCAPED.items():
        if plain in data:
            data = data.replace(plain, escaped)
    return data


def read_time(text: str) -> datetime | None:
    """RFC 3339 with any offset and any number of digits behind the second, cut to microseconds.

    Raises:
        ValueError: Any other format, the empty string too.
    """
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise ValueError("no RFC 3339 time")
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    offset = timedelta(hours=int(found[9] or 0), minutes=int(found[10] or 0)) * (-1 if found[8] == "-" else 1)
    micro = int(f"{found[7] or '':0<6.6}")
    if year <= 1:  # the arithmetic of times ends here: it is done eight years later, where leap years fall alike
        since = datetime(year + 8, month, day, hour, minute, second, micro, UTC) - offset - datetime(9, 1, 1, tzinfo=UTC)
        if not since and not (found[7] or "").strip("0"):
            return None
        return max(_LONG_PAST, datetime(1, 1, 1, tzinfo=UTC) + max(since, timedelta()))
    zone = timezone(offset) if offset else UTC
    return datetime(year, month, day, hour, minute, second, micro, zone)


def write_time(moment: datetime | None) -> str:
    """As Go writes it: no zeros at the end of the fraction, `Z` for UTC, year 1 for unset.

    Raises:
        ValueError: The moment has no zone.
    """
    if moment is None:
        return _UNSET_TIME
    offset = moment.utcoffset()
    if offset is None:
        raise ValueError("a time needs a zone; `datetime.now(UTC)` has one")
    if offset % timedelta(minutes=1):
        moment = moment.astimezone(UTC)
    text = moment.isoformat()
    whole, zone = text[:19], text[-6:]
    fraction = f".{moment.microsecond:06}".rstrip("0") if moment.microsecond else ""
    return whole + fraction + ("Z" if zone == "+00:00" else zone)


# ------------------------------------------------------------------------------------------------ one codec per type
def _plain(kind: type, wanted: str) -> _Codec:
    def read(value: Any, place: str, faults: Faults) -> Any:
        if type(value) is kind:
            return value
        return _NOTHING if value is None else faults.add(place, wanted)

    return _Codec(read, _as_is)


def _as_is(value: Any) -> Any:
    return value


def _read_int(value: Any, place: str, faults: Faults) -> Any:
    if type(value) is int and -_INT64 <= value < _INT64:
        return value
    return _NOTHING if value is None else faults.add(place, "an integer of 64 bits")


def _read_duration(value: Any, place: str, faults: Faults) -> Any:
    count = _read_int(value, place, faults)
    return count if count is _NOTHING else timedelta(microseconds=count // 1000)


def _write_duration(value: timedelta) -> int:
    return (value // timedelta(microseconds=1)) * 1000


def _read_moment(value: Any, place: str, faults: Faults) -> Any:
    if value is None:
        return _NOTHING
    try:
        return read_time(value) if type(value) is str else faults.add(place, "a time (RFC 3339)", stop=True)
    except ValueError:
        return faults.add(place, "a time (RFC 3339)", stop=True)


def _read_support(value: Any, place: str, faults: Faults) -> Any:
    if type(value) is str and value in get_args(Support):
        return value
    return faults.add(place, "`unknown`, `supported` or `unsupported`", stop=True)


def _anything(value: Any, _place: str, _faults: Faults) -> Any:
    return value


_LEAVES: dict[Any, _Codec] = {
    str: _plain(str, "a string"),
    bool: _plain(bool, "true or false"),
    int: _Codec(_read_int, _as_is),
    Any: _Codec(_anything, _as_is),
    Support: _Codec(_read_support, _as_is),
}
_MARKED: dict[str, _Codec] = {"time": _Codec(_read_moment, write_time), "ns": _Codec(_read_duration, _write_duration)}


def _list(item: _Codec, zero: Any) -> _Codec:
    def read(value: Any, place: str, faults: Faults) -> Any:
        if type(value) is not list:
            return _NOTHING if value is None else faults.add(place, "a list")
        items: list[Any] = []
        for number, element in enumerate(cast(list[Any], value)):
            got = item.read(element, f"{place}[{number}]", faults)
            items.append(zero() if got is _NOTHING else got)
            if faults.stopped:
                break
        return tuple(items)

    def write(value: tuple[Any, ...]) -> list[Any]:
        return [item.write(element) for element in value]

    return _Codec(read, write)


def _map(item: _Codec, zero: Any) -> _Codec:
    def read(value: Any, place: str, faults: Faults) -> Any:
        if type(value) is not dict:
            return _NOTHING if value is None else faults.add(place, "an object")
        items: dict[str, Any] = {}
        for key, element in cast(dict[str, Any], value).items():
            got = item.read(element, f"{place}.*", faults)  # a key may be somebody's
            items[key] = zero() if got is _NOTHING else got
        return items

    def write(value: dict[str, Any]) -> dict[str, Any] | None:
        """An empty map is what Go calls nil: it writes null, and reads null and {} alike."""
        return {key: item.write(value[key]) for key in sorted(value)} or None

    return _Codec(read, write)


def _optional(item: _Codec) -> _Codec:
    def write(value: Any) -> Any:
        return None if value is None else item.write(value)

    return _Codec(item.read, write)


class _Field(NamedTuple):
    name: str
    wire: str
    codec: _Codec
    zero: Any
    omit: bool


def _struct(kind: type[msgspec.Struct]) -> _Codec:
    hints = get_type_hints(kind, include_extras=True)
    empty = kind()
    fields = [
        _Field(name, wire, _codec(hints[name]), getattr(empty, name), OMIT in _marks(hints[name]))
        for name, wire in zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    ]
    exact = {field.wire: field for field in fields}
    folded = {_fold(field.wire): field for field in fields}

    def read(value: Any, place: str, faults: Faults) -> Any:
        if type(value) is not dict:
            return _NOTHING if value is None else faults.add(place, "an object")
        values: dict[str, Any] = {}
        for key, item in cast(dict[str, Any], value).items():
            field = exact.get(key) or folded.get(_fold(key))
            if field is None:
                continue
            got = field.codec.read(item, f"{place}.{field.wire}", faults)
            if got is not _NOTHING:
                values[field.name] = got
            if faults.stopped:
                break
        return kind(**values)

    def write(record: Any) -> dict[str, Any]:
        values = ((field, getattr(record, field.name)) for field in fields)
        return {field.wire: field.codec.write(value) for field, value in values if not (field.omit and value == field.zero)}

    return _Codec(read, write)


def _fold(key: str) -> str:
    return key.replace("\u212a", "k").replace("\u017f", "s").lower()


def _marks(hint: Any) -> tuple[Any, ...]:
    return cast(tuple[Any, ...], getattr(hint, "__metadata__", ()))


@functools.cache
def _codec(hint: Any) -> _Codec:
    arguments = get_args(hint)
    match get_origin(hint):
        case None:
            return _LEAVES[hint] if hint in _LEAVES else _struct(hint)
        case origin if origin is Annotated:
            marked = (_MARKED[mark.name] for mark in _marks(hint) if isinstance(mark, _Mark) and mark.name in _MARKED)
            return next(marked, None) or _codec(arguments[0])
        case origin if origin is tuple:
            return _list(_codec(arguments[0]), _zero(arguments[0]))
        case origin if origin is dict:
            return _map(_codec(arguments[1]), _zero(arguments[1]))
        case origin if origin is Literal:
            return _LEAVES[hint]
        case _:  # with None
            return _optional(_codec(next(part for part in arguments if part is not types.NoneType)))


def _zero(hint: Any) -> Callable[[], Any]:
    return (lambda: None) if hint is Any else hint
