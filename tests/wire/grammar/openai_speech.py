"""The grammar of a stream of speech (OpenAI API reference, "Create speech": stream events).

delta* done      or      delta* error
"""

from typing import Any

from tests.wire.grammar.framing import events, record


def check(stream: bytes) -> list[dict[str, Any]]:
    """The events of a whole outgoing stream, the error included.

    Raises:
        AssertionError: the stream breaks the grammar, and where.
    """
    *pieces, last = [record(event.data) for event in events(stream)]
    for piece in pieces:
        assert piece["type"] == "speech.audio.delta", "something is no sound, and not the end"
        assert isinstance(piece["audio"], str)
    assert "error" in last or last["type"] == "speech.audio.done", "the end is missing"
    return [*pieces, last]
