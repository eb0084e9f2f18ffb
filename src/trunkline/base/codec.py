"""JSON and records: the only import of msgspec in the server.

Three ways in. `decode` reads what programs send: fast, typed, unknown keys passed over. `parse` reads what people write into files,
and `take` what callers of the admin API send: every unknown key is an error that names the key, its place and the nearest known one.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType, field
from msgspec.json import Decoder, Encoder

from trunkline.base.secret import Secret
from trunkline.errors import BadRequest, ConfigInvalid, TrunklineError

__all__ = [
    "NULL",
    "UNSET",
    "Annotated",
    "Decoder",
    "Malformed",
    "Meta",
    "Mutable",
    "Raw",
    "Record",
    "UnsetType",
    "Value",
    "Wire",
    "decode",
    "decode_halves",
    "decode_raw",
    "encode",
    "field",
    "is_null",
    "nearest",
    "parse",
    "pretty",
    "replace",
    "schema",
    "schemas",
    "take",
    "text",
    "whole_pairs",
]

T = TypeVar("T")

NULL = Raw(b"null")
"""The default of a `Raw` field that may be absent: in a union with `None` such a field would take nothing but null."""

Malformed = (msgspec.MsgspecError, RecursionError)
"""What a decoder raises: not JSON, of another shape, or nested too deeply. Its text names the place, and no value but one that should
have been one of a few."""

_HALVES = re.compile(
    rb"((?:[^\\]++|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\[^u]|\\u(?![dD][89a-fA-F]))++)|\\u[dD][89a-fA-F][0-9a-fA-F]{2}", re.DOTALL
)
"""JSON text up to half a pair, which is not in the group."""

_MOST_HALVES = 1000  # a text that is cut a few times has a few; more would only take time

replace = msgspec.structs.replace
encode = Encoder().encode


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A frozen record of keyword fields: configuration and everything else that people write."""


class Value(msgspec.Struct, frozen=True):
    """A frozen value that is made for every call or every piece of a stream: as a frozen dataclass, and made several times as fast."""


class Mutable(msgspec.Struct):
    """The same for what becomes known piece by piece."""


class Wire(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a wire format: unknown fields are passed over, fields at their default are not written."""


def decode(data: bytes | Raw, kind: type[T]) -> T:
    """Read JSON as a type. Raises: `BadRequest`, naming the place."""
    try:
        return msgspec.json.decode(data, type=kind)
    except Malformed as error:
        raise BadRequest(f"the JSON cannot be read: {error}") from None


def decode_raw(data: bytes | Raw, kind: type[T]) -> T:
    """Read JSON as a type, for callers with an error of their own. Raises: `Malformed`."""
    return msgspec.json.decode(data, type=kind)


def decode_halves(decode: Callable[[bytes], T], data: bytes) -> T:
    """Read JSON in which halves of surrogate pairs may stand, as a server writes them that cuts text by UTF-16 units.

    Other readers take them (RFC 8259, section 8.2); here each reads as U+FFFD. Raises: `Malformed`.
    """
    try:
        return decode(data)
    except Malformed:
        whole = whole_pairs(data)
        if whole == data:
            raise
        return decode(whole)


def whole_pairs(data: bytes) -> bytes:
    """JSON text with U+FFFD for each half of a surrogate pair: no byte longer or shorter, and all else as it was."""
    if rb"\ud" not in data and rb"\uD" not in data:
        return data
    return _HALVES.sub(lambda found: found[1] or rb"\ufffd", data, 2 * _MOST_HALVES)


def text(value: object) -> str:
    """One line of JSON."""
    return encode(value).decode()


def pretty(value: object) -> str:
    """JSON for people: indented by two."""
    return msgspec.json.format(encode(value), indent=2).decode()


def parse(value: object, kind: type[T], *, at: str = "") -> T:
    """Read a tree of plain values (from TOML, or JSON that a person wrote) as a record.

    Args:
        value: dicts, lists, strings, numbers.
        kind: the record's type.
        at: where the value stands, for messages (`providers.openai`).

    Raises:
        ConfigInvalid: names the key, the value's place, and the nearest known key.
    """
    return _SETTINGS.read(value, kind, at)


def take(value: object, kind: type[T], *, noun: str = "field", lax: bool = False) -> T:
    """Read a tree of plain values that a caller sent as a record.

    Args:
        value: dicts, lists, strings, numbers.
        kind: the record's type.
        noun: what its keys are called in messages.
        lax: whether numbers and truths are written as text, as in a URL.

    Raises:
        BadRequest: names the key and its value (but never that of a `Secret`), and the nearest known key.
    """
    return _Manners(BadRequest, noun, lax=lax, shows=True).read(value, kind, "")


def is_null(raw: Raw) -> bool:
    """Whether JSON text is null, or was not there."""
    return raw is NULL or bytes(raw) == b"null"


def nearest(name: str, names: Sequence[str]) -> str:
    """The known name that resembles this one most, or an empty string."""
    return next(iter(get_close_matches(name, names, n=1, cutoff=0.5)), "")


def schema(kind: Any) -> dict[str, Any]:
    """JSON Schema 2020-12 of a record type, descriptions included."""
    return msgspec.json.schema(kind, schema_hook=_schema_of)


def schemas(kinds: Sequence[Any], ref: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """JSON Schemas of several types, and of all records that they mention by name.

    Args:
        kinds: the types.
        ref: how one refers to a record, with `{name}` in it.
    """
    each, named = msgspec.json.schema_components(kinds, schema_hook=_schema_of, ref_template=ref)
    return list(each), named


@dataclass(frozen=True, slots=True)
class _Manners:
    """How a tree of plain values is read, and how one is told what is wrong with it.

    Attributes:
        error: what is raised.
        noun: what a key is called.
        lax: whether numbers and truths may be text.
        shows: whether the wrong value is shown.
    """

    error: type[TrunklineError]
    noun: str
    lax: bool = False
    shows: bool = False

    def read(self, value: object, kind: type[T], at: str) -> T:
        self.known_keys(value, kind, at)
        try:
            return msgspec.convert(value, kind, strict=not self.lax, dec_hook=_decoded)
        except msgspec.ValidationError as error:
            reason, _, place = str(error).partition(" - at `$")
            place = place.rstrip("`")
            where = f"{at}{place}".lstrip(".")
            if found := _MISSING.fullmatch(reason):
                hint = _meant(kind, f"{place}.{found[1]}")
                raise self.error(f"`{where}`: `{found[1]}` is missing" if where else f"`{found[1]}` is missing", hint=hint) from None
            shown = _shown(value, place, kind, lax=self.lax) if self.shows and where else ""
            raise self.error(f"`{where or 'the top'}`{shown}: {reason}", hint=_meant(kind, place)) from None

    def known_keys(self, value: object, kind: Any, at: str) -> None:
        """Walk the plain value beside the type, and refuse keys that no record on the way has."""
        kind = _plain(kind, value)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            if isinstance(value, Mapping):
                self._known_fields(cast(Mapping[str, object], value), kind, at)
            return
        arguments = get_args(kind)
        if isinstance(value, Mapping) and get_origin(kind) in {dict, Mapping}:
            for key, item in cast(Mapping[str, object], value).items():
                self.read(item, arguments[1], f"{at}.{key}" if at else key)  # one by one: msgspec would not say which
        elif isinstance(value, list) and arguments:
            for number, item in enumerate(cast(list[object], value)):
                self.known_keys(item, arguments[0], f"{at}[{number}]")

    def _known_fields(self, value: Mapping[str, object], kind: type[msgspec.Struct], at: str) -> None:
        names = dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))
        hints = get_type_hints(kind, include_extras=True)
        for key, item in value.items():
            where = f"{at}.{key}" if at else key
            if key not in names:
                close = nearest(key, list(names))
                raise self.error(
                    f"`{where}` is not a {self.noun}",
                    hint=f"Did you mean `{close}`?" if close else f"Known here: {', '.join(sorted(names)) or 'none'}.",
                )
            self.known_keys(item, hints[names[key]], where)


_SETTINGS = _Manners(ConfigInvalid, "setting")

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_MISSING = re.compile(r"Object missing required field `(.+)`")
_WRITE_ONLY = '"writeOnly":true'
LONGEST_SHOWN = 60  # characters of a wrong value
LONGEST_SECRET = 65_536  # characters


def _meant(kind: Any, place: str) -> str:
    """What is right in a place: the words for it, and all that it may be where that is a few."""
    whole = schema(kind)
    node: dict[str, Any] = whole
    words = ""
    for name, _ in cast(list[tuple[str, str]], _STEP.findall(place)):
        node = _below(node, name, whole)
        words = node.get("description", words)
    choices = [f"`{value}`" for option in [node, *node.get("anyOf", ())] for value in option.get("enum", ()) if value is not None]
    return " ".join(filter(None, [words, f"One of {', '.join(choices)}." if choices else ""]))


def _below(node: dict[str, Any], name: str, whole: dict[str, Any]) -> dict[str, Any]:
    """The schema of a field, of a mapping's value, or of a list's item; of what a type may be besides, the first that has one."""
    for option in [node, *node.get("anyOf", ())]:
        found = _resolved(option, whole)
        below: object = (found.get("properties", {}).get(name) or found.get("additionalProperties")) if name else found.get("items")
        if isinstance(below, dict):
            return cast(dict[str, Any], below)
    return {}


def _resolved(node: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    """A schema, or the record that it refers to."""
    return whole["$defs"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node


def _shown(value: object, place: str, kind: Any, *, lax: bool) -> str:
    """A wrong value in words, where it is short and no secret."""
    steps: list[tuple[str, str]] = _STEP.findall(place)
    if any(name in _hidden(kind) for name, _ in steps) or (not steps and _WRITE_ONLY in text(schema(kind))):
        return ""
    for name, number in steps:
        if isinstance(value, dict) and name:
            value = cast(dict[str, object], value).get(name)
        elif isinstance(value, list) and number:
            value = cast(list[object], value)[int(number)]
    if isinstance(value, dict | list):
        return ""
    found = value if lax and isinstance(value, str) else text(value)
    return f" is `{found[:LONGEST_SHOWN]}{'…' if len(found) > LONGEST_SHOWN else ''}`"


def _hidden(kind: Any) -> frozenset[str]:
    """The names of a type's fields that hold secrets, however deep."""
    records: list[dict[str, Any]] = list(schema(kind).get("$defs", {}).values())
    fields = [each for record in records for each in record.get("properties", {}).items()]
    return frozenset(name for name, field in fields if _WRITE_ONLY in text(field))


def _decoded(kind: type, value: object) -> object:
    """Values of our own types. Raises: `ValueError`, which names no value."""
    if kind is Secret and isinstance(value, str) and 0 < len(value) <= LONGEST_SECRET:
        return Secret(value)
    raise ValueError(f"expected a text of 1 to {LONGEST_SECRET} characters")


def _schema_of(kind: type) -> dict[str, Any]:
    if kind is Secret:
        return {"type": "string", "minLength": 1, "maxLength": LONGEST_SECRET, "writeOnly": True, "format": "password"}
    raise NotImplementedError


def _plain(kind: Any, value: object) -> Any:
    """The type without its annotations; of several, the one that a table or a list of this kind is for."""
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0], value)
    if get_origin(kind) in {Union, UnionType}:
        rest = [_plain(part, value) for part in get_args(kind) if part is not type(None) and part is not UnsetType]
        return next((part for part in rest if _is_for(part, value)), rest[0])
    return kind


def _is_for(kind: Any, value: object) -> bool:
    if isinstance(value, Mapping):
        return get_origin(kind) in {dict, Mapping} or (isinstance(kind, type) and issubclass(kind, msgspec.Struct))
    return isinstance(value, list) and get_origin(kind) is list
