"""Free-form tools: what such a tool takes is text, and not JSON.

Formats that have none get a function with one string, `input`, and so does the neutral model: the arguments of a free-form call are
always that object. Source: the custom tools of Responses (the API reference, "Function calling", and the `openai` SDK's types).
"""

import re
from typing import NamedTuple

from trunkline.base.codec import Decoder, Malformed, Raw, encode
from trunkline.dialects._reading import as_object, is_object

OPENING, CLOSING = '{"input":"', '"}'

_BEGIN = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_WHOLE = re.compile(
    r'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*+'
)
_text = Decoder(str).decode


class Grammar(NamedTuple):
    """What the text has to follow."""

    syntax: str
    definition: str


def parameters(grammar: Grammar | None) -> Raw:
    """The JSON Schema of the function that stands for a free-form tool. A grammar is told to the model, which nobody holds to it."""
    words = "All that the tool gets, as plain text."
    if grammar is not None:
        words += f" It must follow this grammar ({grammar.syntax}):\n{grammar.definition}"
    properties = {"input": {"type": "string", "description": words}}
    return Raw(encode({"type": "object", "properties": properties, "required": ["input"], "additionalProperties": False}))


def escaped(text: str) -> str:
    """Text as it stands between the quotes of a JSON string."""
    return encode(text).decode()[1:-1]


def wrapped(text: str) -> str:
    """The arguments that hold a text."""
    return f"{OPENING}{escaped(text)}{CLOSING}"


def unwrapped(arguments: str) -> str | None:
    """The text that arguments hold; nothing where they are no JSON object, as when they were cut.

    A model that does not heed the schema wrote its text another way: then the tool gets what it wrote, and can say what is wrong with it.
    """
    if not is_object(arguments):
        return None
    fields = as_object(Raw(arguments.encode()))
    try:
        return _text(fields["input"]) if fields else ""
    except (KeyError, *Malformed):
        return arguments


class Unwrapping:
    """Takes a text out of the arguments that hold it, piece by piece, as far as nothing that may follow can change it."""

    __slots__ = ("_begun", "_left")

    def __init__(self) -> None:
        self._left = ""
        self._begun = False

    def feed(self, piece: str) -> str:
        """The text that is certain now."""
        self._left += piece
        if not self._begun:
            begin = _BEGIN.match(self._left)
            if begin is None:
                return ""
            self._begun, self._left = True, self._left[begin.end() :]
        whole = _WHOLE.match(self._left)
        end = whole.end() if whole else 0
        text, self._left = self._left[:end], self._left[end:]
        return _text(f'"{text}"'.encode())
