"""What an operation speaks, and when a stream of it is complete (daemon contract, B1, C3)."""

import re
from collections.abc import Iterable
from types import MappingProxyType
from typing import NamedTuple

PATHS = MappingProxyType(
    {
        "chat_completions": "/v1/chat/completions",
        "responses": "/v1/responses",
        "messages": "/v1/messages",
        "embeddings": "/v1/embeddings",
        "audio_transcriptions": "/v1/audio/transcriptions",
        "audio_speech": "/v1/audio/speech",
        "images": "/v1/images/generations",
        "videos": "/v1/videos/generations",
    }
)
"""The path of each surface; an unknown surface has none."""

CHAT = ("chat_completions", "responses", "messages")
"""The surfaces that are streamed."""

HONOURED_PRIVATE_FIELDS = frozenset({"_max_output_tokens", "_llmgw_preamble"})
"""Fields of a body, beginning with `_`, that a daemon may honour; it drops every other one, and forwards none (B1)."""


class Request(NamedTuple):
    """One operation: `body` is the surface's own, unchanged; the daemon takes the model from `model`, not from the body.

    `timeout`, in seconds, is how long the daemon may wait for its upstream to begin, and between two reads (C1).
    """

    surface: str
    model: str
    body: bytes = b""
    content_type: str = "application/json"
    timeout: float | None = None


def paths(surfaces: Iterable[str]) -> tuple[str, ...]:
    """The paths of these surfaces in their order, each once; surfaces without a path are left out."""
    return tuple(dict.fromkeys(PATHS[surface] for surface in surfaces if surface in PATHS))


# What counts as an end is said by the upstream in its own words: its last event, or an error event that it ends with.
_CHAT_END = re.compile(rb'(?m)^data: ?\[DONE\]\s*$|"finish_reason"\s*:\s*"|^data: ?\{\s*"error"\s*:')
_RESPONSES_END = re.compile(
    rb'(?m)^event: ?(?:response\.(?:completed|failed|incomplete)|error)\r?$|"type"\s*:\s*"response\.(?:completed|failed|incomplete)"'
    rb'|^data: ?\{\s*"type"\s*:\s*"error"'
)
_MESSAGES_END = re.compile(rb'(?m)^event: ?(?:message_stop|error)\r?$|^data: ?\{\s*"type"\s*:\s*"(?:message_stop|error)"')
_ENDS = {"chat_completions": _CHAT_END, "responses": _RESPONSES_END, "messages": _MESSAGES_END}


class Ending:
    """Watches the records of one stream for the end that its surface prescribes; a surface without one is always complete."""

    __slots__ = ("_end", "complete")

    def __init__(self, surface: str) -> None:
        self._end = _ENDS.get(surface)
        self.complete = self._end is None

    def see(self, record: bytes) -> None:
        """One record, whole."""
        if not self.complete and self._end is not None and self._end.search(record):
            self.complete = True
