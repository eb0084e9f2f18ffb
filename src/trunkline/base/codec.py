"""JSON and records: the only import of msgspec in the server.

Two ways in. `decode` reads what programs send: fast, typed, unknown keys passed over. `parse` reads what people write: every
unknown key is an error that names the key, its place and the nearest known one.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType, field
from msgspec.json import Decoder, Encoder

from trunkline.errors import BadRequest, ConfigInvalid

__all__ = [
    "NULL",
    "UNSET",
    "Annotated",
    "Decoder",
    "Malformed",
    "Meta",
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
    "text",
]

T = TypeVar("T")

NULL = Raw(b"null")
"""The default of a `Raw` field that may be absent: in a union with `None` such a field would take nothing but null."""

Malformed = (msgspec.MsgspecError, RecursionError)
"""What a decoder raises: not JSON, of another shape, or nested too deeply. Its text names the place, and no value but one that should
have been one of a few."""

_HALVES = re.compile(rb"(\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\[^u]|\\u(?![dD][89a-fA-F]))|\\u[dD][89a-fA-F][0-9a-fA-F]{2}", re.DOTALL)
"""What is escaped in JSON; half a pair is not in the group."""

replace = msgspec.structs.replace
encode = Encoder().encode


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A frozen record of keyword fields: configuration and everything else that people write."""


class Value(msgspec.Struct, frozen=True):
    """A frozen value that is made for every call or every piece of a stream: as a frozen dataclass, and made several times as fast."""


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
        whole = _HALVES.sub(lambda found: found[1] or rb"\ufffd", data)
        if whole == data:
            raise
        return decode(whole)


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
    _known_keys(value, kind, at)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$")
        where = f"{at}{place.rstrip('`')}".lstrip(".") or "the top"
        raise ConfigInvalid(f"`{where}`: {reason}") from None


def is_null(raw: Raw) -> bool:
    """Whether JSON text is null, or was not there."""
    return raw is NULL or bytes(raw) == b"null"


def nearest(name: str, names: Sequence[str]) -> str:
    """The known name that resembles this one most, or an empty string."""
    return next(iter(get_close_matches(name, names, n=1, cutoff=0.5)), "")


def schema(kind: Any) -> dict[str, Any]:
    """JSON Schema 2020-12 of a record type, descriptions included."""
    return msgspec.json.schema(kind)


def _known_keys(value: object, kind: Any, at: str) -> None:
    """Walk the plain value beside the type, and refuse keys that no record on the way has."""
    kind = _plain(kind, value)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if isinstance(value, Mapping):
            _known_fields(cast(Mapping[str, object], value), kind, at)
        return
    arguments = get_args(kind)
    if isinstance(value, Mapping) and get_origin(kind) in {dict, Mapping}:
        for key, item in cast(Mapping[str, object], value).items():
            parse(item, arguments[1], at=f"{at}.{key}" if at else key)  # one by one: msgspec would not say which
    elif isinstance(value, list) and arguments:
        for number, item in enumerate(cast(list[object], value)):
            _known_keys(item, arguments[0], f"{at}[{number}]")


def _known_fields(value: Mapping[str, object], kind: type[msgspec.Struct], at: str) -> None:
    names = dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))
    hints = get_type_hints(kind, include_extras=True)
    for key, item in value.items():
        where = f"{at}.{key}" if at else key
        if key not in names:
            close = nearest(key, list(names))
            raise ConfigInvalid(
                f"`{where}` is not a setting",
                hint=f"Did you mean `{close}`?" if close else f"Known here: {', '.join(sorted(names))}.",
            )
        _known_keys(item, hints[names[key]], where)


def _plain(kind: Any, value: object) -> Any:
    """The type without its annotations; of several, the one that a table or a list of this kind is for."""
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0], value)
    if get_origin(kind) in {Union, UnionType}:
        rest = [_plain(part, value) for part in get_args(kind) if part is not type(None)]
        return next((part for part in rest if _is_for(part, value)), rest[0])
    return kind


def _is_for(kind: Any, value: object) -> bool:
    if isinstance(value, Mapping):
        return get_origin(kind) in {dict, Mapping} or (isinstance(kind, type) and issubclass(kind, msgspec.Struct))
    return isinstance(value, list) and get_origin(kind) is list
