"""What every outgoing event stream obeys, whatever its dialect; read without the product's own reader."""

import json
import re
from typing import Any, NamedTuple, NoReturn


class Framed(NamedTuple):
    name: str
    data: str


def events(stream: bytes) -> list[Framed]:
    """The events of a whole stream; comments and blocks of comments are skipped.

    Raises:
        AssertionError: it is not UTF-8, does not end with a blank line, or holds a line or a block that says nothing to any reader.
    """
    assert stream, "the stream is empty"
    assert not stream.startswith(b"\xef\xbb\xbf"), "the stream begins with a byte order mark"
    try:
        text = stream.decode()
    except UnicodeDecodeError as error:
        raise AssertionError(f"the stream is not UTF-8 at byte {error.start}") from error
    assert "\N{REPLACEMENT CHARACTER}" not in text, "the stream holds U+FFFD: a character was cut"
    lines = re.split(r"\r\n|\n|\r", text)
    assert lines[-2:] == ["", ""], f"the stream does not end with a blank line, but with {text[-60:]!r}"
    found: list[Framed] = []
    fields: list[tuple[str, str]] = []
    for line in lines[:-1]:
        if line:
            field, colon, value = line.partition(":")
            assert field in {"", "event", "data", "id", "retry"}, f"no reader knows the line {line[:80]!r}"
            assert colon, f"the line {line[:80]!r} has no value"
            if field:
                fields.append((field, value.removeprefix(" ")))
        elif fields:
            names = [value for field, value in fields if field == "event"]
            data = [value for field, value in fields if field == "data"]
            assert data, f"the event {names} has no data"
            assert len(names) <= 1, f"one event has the names {names}"
            found.append(Framed("".join(names), "\n".join(data)))
            fields = []
    return found


def record(data: str) -> dict[str, Any]:
    """The JSON object of one event.

    Raises:
        AssertionError: it is none, has a key twice, or a number that JSON does not know.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        assert len(set(names)) == len(names), f"a key comes twice among {names}"
        return dict(pairs)

    def refuse(constant: str) -> NoReturn:
        raise AssertionError(f"{constant} is no JSON")

    try:
        value = json.loads(data, object_pairs_hook=unique, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise AssertionError(f"the data is no JSON: {data[:120]!r}") from error
    assert isinstance(value, dict), f"the data is no JSON object: {data[:120]!r}"
    return value


def count(value: Any, of: str) -> int:
    """A number of tokens."""
    assert type(value) is int, f"{of} is {value!r}, not a whole number"
    assert value >= 0, f"{of} is {value}"
    return value
