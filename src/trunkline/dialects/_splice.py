"""Changing single values of a JSON object without touching another byte of it."""

import re
from collections.abc import Iterator, Mapping

from trunkline.base.codec import Decoder, Malformed, Raw, encode
from trunkline.errors import BadRequest

_object = Decoder(dict[str, Raw])
_string = Decoder(str)
_key = re.compile(rb'[\s,]*"((?:[^"\\]++|\\.)*+)"\s*:\s*')


def read_object(body: bytes) -> dict[str, Raw]:
    """The top-level values of a JSON object, each still JSON text, in the order of the keys.

    Raises:
        BadRequest: it is no object, or a key stands there twice, so that nobody can say which value counts.
    """
    try:
        fields = _object.decode(body)
    except Malformed as error:
        raise BadRequest(f"the body is not a JSON object: {error}", hint="Send an object, with `content-type: application/json`.") from None
    if len(body) != _least(fields):
        found = list(places(body, fields))
        if len(found) != len(fields) or body[found[-1][2] if found else body.index(b"{") + 1 :].strip() != b"}":
            raise BadRequest("a key stands twice in the body", hint="Send each top-level key once.")
    return fields


def places(body: bytes, fields: Mapping[str, Raw]) -> Iterator[tuple[str, int, int]]:
    """Each key with the place where its value begins and ends in the body, as long as it stands where it should.

    The decoder told each value but not its place; walking from key to key finds it. Of a key that stands twice the decoder gave the
    last value, which is not what stands behind its first place, or else the walk ends before the object does.
    """
    at = body.index(b"{") + 1
    for name, value in fields.items():
        key = _key.match(body, at)
        if key is None or not _is(key.group(1), name):
            return
        start, text = key.end(), memoryview(value)
        if not body.startswith(text, start):
            return
        at = start + len(text)
        yield name, start, at


def splice(body: bytes, fields: Mapping[str, Raw], values: Mapping[str, object]) -> bytes:
    """The body with some top-level values replaced, and those that it lacks added at the end. Raises: `BadRequest`, where a key stands twice."""
    missing = [name for name in values if name not in fields]
    left = len(values) - len(missing)
    parts: list[bytes] = []
    at = 0
    for name, start, end in places(body, fields) if left else ():
        if name in values:
            parts += (body[at:start], encode(values[name]))
            at = end
            left -= 1
            if not left:
                break
    if left:  # `fields` are of another reader, which takes the last of two
        raise BadRequest("a key stands twice in the body", hint="Send each top-level key once.")
    rest = body[at:]
    if missing:
        close = rest.rindex(b"}")
        comma = b"," if fields else b""
        rest = rest[:close] + comma + b",".join(encode(name) + b":" + encode(values[name]) for name in missing) + rest[close:]
    return b"".join([*parts, rest])


def _least(fields: Mapping[str, Raw]) -> int:
    """The bytes of these fields, each once and without a space: a body of as many has nothing twice."""
    size = 1
    for name, value in fields.items():
        size += len(name) + len(memoryview(value)) + 4
    return size


def _is(literal: bytes, name: str) -> bool:
    return literal == name.encode() or (b"\\" in literal and _string.decode(b'"%b"' % literal) == name)
