"""Reading a JSON object field by field, so that what nobody read is known by name.

A wrong type is a `BadRequest` that names the place and the value. `null` counts as absent: no dialect here means anything by it.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from trunkline.base.codec import Decoder, Malformed, Raw, decode_raw
from trunkline.errors import BadRequest
from trunkline.model.part import Extra

T = TypeVar("T")
NOTHING: Extra = {}
ANYTHING = Raw(b"{}")
"""The JSON Schema that allows anything: what an absent one comes to."""

SHOWN = 60  # characters of a wrong value that an error quotes

_object = Decoder(dict[str, Raw])
_data_url = re.compile(r"data:([^;,]*)(?:;[^;,]*)*?;base64,(.*)", re.DOTALL)
_list = Decoder(list[Raw])


class Object:
    """The fields of one JSON object, taken one by one.

    Attributes:
        at: where the object stands, dot-separated; empty for the whole body.
    """

    __slots__ = ("_left", "at")

    def __init__(self, fields: dict[str, Raw], at: str = "") -> None:
        self._left = {name: raw for name, raw in fields.items() if bytes(raw) != b"null"}
        self.at = at

    @classmethod
    def of(cls, raw: Raw | bytes, at: str) -> "Object":
        """Read an object. Raises: `BadRequest`."""
        try:
            return cls(_object.decode(raw), at)
        except Malformed:
            raise _wrong(at, raw, "an object") from None

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def path(self, name: str) -> str:
        """Where a field stands."""
        return f"{self.at}.{name}" if self.at else name

    def raw(self, name: str) -> Raw | None:
        """A field as JSON text."""
        return self._left.pop(name, None)

    def text(self, name: str) -> str | None:
        """A string."""
        return self._take(name, str, "a string")

    def flag(self, name: str) -> bool | None:
        """True or false."""
        return self._take(name, bool, "true or false")

    def integer(self, name: str) -> int | None:
        """A whole number."""
        return self._take(name, int, "a whole number")

    def number(self, name: str) -> float | None:
        """A number."""
        return self._take(name, float, "a number")

    def object(self, name: str) -> "Object | None":
        """An object."""
        raw = self.raw(name)
        return None if raw is None else Object.of(raw, self.path(name))

    def items(self, name: str) -> Iterator[tuple[Raw, str]]:
        """The items of a list, each with its place; nothing where there is none."""
        raw = self.raw(name)
        return iter(()) if raw is None else items(raw, self.path(name))

    def required(self, name: str) -> str:
        """A string that must be there and not be empty."""
        value = self.text(name)
        if not value:
            raise BadRequest(f"`{self.path(name)}` is missing")
        return value

    def rest(self) -> Extra:
        """What nobody has read."""
        rest, self._left = self._left, {}
        return rest

    def rest_in(self, name: str) -> Extra:
        """What nobody has read of an object that is the field `name` of another: by dotted names."""
        return {f"{name}.{inner}": raw for inner, raw in self.rest().items()}

    def _take(self, name: str, kind: type[T], words: str) -> T | None:
        raw = self._left.pop(name, None)
        if raw is None:
            return None
        try:
            return decode_raw(raw, kind)
        except Malformed:
            raise _wrong(self.path(name), raw, words) from None


def items(raw: Raw, at: str) -> Iterator[tuple[Raw, str]]:
    """The items of a list, each with its place. Raises: `BadRequest`."""
    try:
        found = _list.decode(raw)
    except Malformed:
        raise _wrong(at, raw, "a list") from None
    return ((item, f"{at}.{number}") for number, item in enumerate(found))


def is_text(raw: Raw) -> bool:
    """Whether JSON text is a string."""
    return bytes(memoryview(raw)[:1]) == b'"'


def as_text(raw: Raw, at: str) -> str:
    """JSON text that must be a string. Raises: `BadRequest`."""
    try:
        return decode_raw(raw, str)
    except Malformed:
        raise _wrong(at, raw, "a string") from None


def as_object(raw: Raw) -> dict[str, Raw]:
    """The fields of JSON text that was read as an object before."""
    return _object.decode(raw)


def is_object(text: str) -> bool:
    """Whether a text is a JSON object, as the arguments of a tool call must be."""
    try:
        _object.decode(text.encode())
    except Malformed:
        return False
    return True


class Data(NamedTuple):
    """What a `data:` URL holds, still in base64 (RFC 2397)."""

    media_type: str
    base64: str


def data_url(text: str) -> Data | None:
    """The content of a `data:` URL; nothing where the text is another URL."""
    found = _data_url.fullmatch(text)
    return Data(found[1], found[2]) if found else None


def _wrong(at: str, raw: Raw | bytes, words: str) -> BadRequest:
    text = bytes(raw).decode(errors="replace")
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
    return BadRequest(f"`{at or 'the body'}` is `{shown}`, and must be {words}")
