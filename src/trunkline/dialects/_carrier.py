"""Carrying one vendor's signed or encrypted thought through another vendor's client.

A client hands back, unread, what a format lets it hand back unread: a signature, an encrypted content. What we put there begins with
a mark, the vendor's dialect and the thought's id, so that it goes back to that vendor alone, to the byte. A thought that nobody signed
has the mark alone: vendors that verify refuse it, so that it must be told from their own.
"""

from typing import NamedTuple
from urllib.parse import unquote

from trunkline.model.event import ReasoningEnded
from trunkline.model.part import Reasoning

MARK = "trunkline:"

_QUOTED_MARK = f'"{MARK}'.encode()


class Carried(NamedTuple):
    """What of a thought has to come back as it was: the fields of `Reasoning` with these names."""

    origin: str
    id: str
    signature: str
    encrypted: str


def pack(thought: Reasoning | ReasoningEnded) -> str:
    """One string for a foreign client to keep: `trunkline:ORIGIN:ID:SIGNATURE:ENCRYPTED`."""
    return f"{MARK}{thought.origin}:{_escaped(thought.id)}:{_escaped(thought.signature)}:{thought.encrypted}"


def unpack(text: str) -> Carried | None:
    """What was packed, if it was us."""
    if not text.startswith(MARK):
        return None
    parts = text.removeprefix(MARK).split(":", 3)
    if len(parts) != 4:
        return None
    origin, thought_id, signature, encrypted = parts
    return Carried(origin, unquote(thought_id), unquote(signature), encrypted)


def carries(body: bytes) -> bool:
    """Whether a request holds what was packed: then it cannot be forwarded as it is, since no vendor knows the mark."""
    return _QUOTED_MARK in body


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace(":", "%3A")


UNSIGNED = pack(ReasoningEnded())
"""What stands where nobody signed anything."""
