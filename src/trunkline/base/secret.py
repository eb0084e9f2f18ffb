"""A string that does not print itself, and the means to take it out of a text."""

import re
from collections.abc import Iterable

MASK = "***"
SHORTEST = 6  # a shorter "secret" would be found in half of all texts


class Secret:
    """A credential. Only `reveal()` gives it back; printing, formatting or logging it gives a mask."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The credential itself, for the one place that sends it."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return MASK

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a secret is not pickled")


def scrub(text: bytes, secrets: Iterable[str]) -> bytes:
    """Take every secret out of a text, however it is spelled there."""
    for secret in sorted(secrets, key=len, reverse=True):  # one may be the beginning of another
        if len(secret) >= SHORTEST:
            text = re.sub(b"".join(map(_spellings, secret.encode())), MASK.encode(), text)
    return text


def _spellings(byte: int) -> bytes:
    r"""A pattern for one byte: as it is, percent-encoded (or as a form does), escaped as JSON does (`\u002f`, `\/`); nested, too.

    Which characters are encoded differs from library to library, so that any of them may be.
    """
    plain = re.escape(bytes([byte]))
    code = "".join(digit if digit.isdecimal() else f"[{digit}{digit.upper()}]" for digit in f"{byte:02x}").encode()
    ways = [plain, rb"(?:%(?:25)*|\\{1,3}u00)" + code]
    if byte in b'"\\/':
        ways.append(rb"\\{1,3}" + plain)
    if byte == ord(" "):
        ways.append(rb"\+")
    return b"(?:" + b"|".join(ways) + b")"
