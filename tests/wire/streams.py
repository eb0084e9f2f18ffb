"""Streams as a relay reads them: bytes in any pieces, frames, and what they say."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from trunkline.dialects import Dialect, Repair, Written
from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.dialects.openai_responses import DIALECT as OPENAI_RESPONSES
from trunkline.model.event import Ended, Event, Failed, Fold, Reply
from trunkline.model.part import Reasoning, Refusal, Text
from trunkline.model.request import Request
from trunkline_sdk import sse

CORPORA = Path(__file__).with_name("corpora")
DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (ANTHROPIC, OPENAI_CHAT, OPENAI_RESPONSES)}
REQUEST = b'{"model":"m","max_tokens":9,"stream":true,"stream_options":{"include_usage":true}}'


@dataclass
class Told:
    """What came of a stream.

    Attributes:
        raw: all that a caller would get.
        frames: what of it each event became, empty ones included.
        events: all that the stream says.
        visible: the first frame that is a part of the reply, counted from 0.
        closing: what was added because the stream lacked it.
    """

    frames: list[bytes] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    visible: int | None = None
    closing: bytes = b""

    @property
    def raw(self) -> bytes:
        return b"".join(self.frames) + self.closing

    @property
    def reply(self) -> Reply:
        fold = Fold()
        for event in self.events:
            fold.add(event)
        return fold.reply()


def request(dialect: Dialect, body: bytes = REQUEST) -> Request:
    return dialect.read_request(body, "chat")


def read(
    dialect: Dialect, chunks: bytes | Iterable[bytes], *, body: bytes = REQUEST, usage_added: bool = False, repairs: Iterable[Repair] = ()
) -> Told:
    """Read a stream to its end, as `gateway.relay` does. Raises: what the reader raises."""
    asked = request(dialect, body)
    reader = dialect.read_events(request=asked, written=Written(asked.body, usage_added=usage_added), repairs=frozenset(repairs))
    events = sse.Events()
    told = Told()
    for chunk in [chunks] if isinstance(chunks, bytes) else chunks:
        for event in events.feed(chunk):
            frame = reader.read(event)
            if frame.visible and told.visible is None:
                told.visible = len(told.frames)
            told.frames.append(frame.raw)
            told.events += frame.events
            if any(isinstance(said, Ended | Failed) for said in frame.events):
                return told
    end = reader.end()
    told.closing = end.raw
    told.events += end.events
    return told


def text_of(reply: Reply) -> str:
    """All that a person reads of a reply, thoughts and refusals included."""
    return "".join(part.text for part in reply.content if isinstance(part, Text | Reasoning | Refusal))


def cut(stream: bytes, places: Iterable[int]) -> list[bytes]:
    """A stream in pieces, cut at places that are taken modulo its length."""
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[start:stop] for start, stop in itertools.pairwise(edges)]
