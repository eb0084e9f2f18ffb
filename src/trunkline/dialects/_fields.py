"""Reading single fields of a request, with errors that name the field and the value."""

from collections.abc import Mapping
from typing import Any, TypeVar

from trunkline.base.codec import Malformed, Raw, decode_raw
from trunkline.errors import BadRequest

T = TypeVar("T")
D = TypeVar("D")
SHOWN = 60  # characters of a wrong value that an error quotes
LONGEST_NAME = 512  # characters of a model's name, which stands in errors, logs and the memory of who failed


def read(fields: Mapping[str, Raw], name: str, kind: type[T], default: D) -> T | D:
    """A top-level field, or the default where it is absent or null."""
    raw = fields.get(name)
    if raw is None or bytes(raw) == b"null":
        return default
    try:
        return decode_raw(raw, kind)
    except Malformed:
        raise BadRequest(f"`{name}` is {quoted(raw)}, and must be {_NAMES[kind]}") from None


def model(fields: Mapping[str, Raw]) -> str:
    """The name of the model that is asked for."""
    name = read(fields, "model", str, "")
    if not name:
        raise BadRequest("`model` is missing", hint="Name a model; `GET /v1/models` lists them.")
    if len(name) > LONGEST_NAME:
        raise BadRequest(f"`model` has {len(name)} characters, and no model's name has more than {LONGEST_NAME}")
    return name


def limit(fields: Mapping[str, Raw], *names: str) -> int | None:
    """The first of some fields that is given. Zero is a limit too: Anthropic fills its prompt cache by a call that writes nothing."""
    for name in names:
        value = read(fields, name, int, None)
        if value is not None:
            if value < 0:
                raise BadRequest(f"`{name}` is {value}, and must not be negative")
            return value
    return None


def quoted(raw: Raw) -> str:
    """A wrong value as an error shows it: cut where it is long."""
    text = bytes(raw).decode(errors="replace")
    return f"`{text}`" if len(text) <= SHOWN else f"`{text[:SHOWN]}…`"


_NAMES: Mapping[Any, str] = {str: "a string", bool: "true or false", int: "a whole number"}
