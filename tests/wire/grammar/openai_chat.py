"""The grammar of a chat completion stream (OpenAI API reference, "Chat completion chunk"; types of its Python SDK 3.57).

    chunk+ usage? [DONE]      or      chunk* error

Each chunk has the same id, model and time. A choice begins with its role, ends with one finish reason, and nothing follows that.
"""

from typing import Any

from tests.wire.grammar.framing import count, events, record

FINISH = {"stop", "length", "tool_calls", "content_filter", "function_call"}


def check(stream: bytes) -> list[dict[str, Any]]:
    """The chunks of a whole outgoing stream, the error included.

    Raises:
        AssertionError: the stream breaks the grammar, and where.
    """
    framed = events(stream)
    assert all(not event.name for event in framed), "a chat stream has no event names"
    texts = [event.data for event in framed]
    done = texts[-1] == "[DONE]"
    if done:
        texts.pop()
    assert "[DONE]" not in texts, "something follows [DONE]"
    chunks = [record(text) for text in texts]
    failed = "error" in (chunks[-1] if chunks else {})
    if failed:
        _check_error(chunks[-1])
    else:
        assert done, "the stream ends without [DONE] and without an error"
    choices = _Choices()
    for number, chunk in enumerate(chunks[:-1] if failed else chunks):
        assert "error" not in chunk, "something follows an error"
        _check_frame(chunk, chunks[0], number)
        choices.read(chunk)
    if failed:
        assert not choices.all_finished(), "an error follows a stream that was complete"
    else:
        assert choices.begun(), "the stream has no choice"
        assert choices.all_finished(), f"a choice has no finish reason: {choices.unfinished()}"
    return chunks


def _check_error(chunk: dict[str, Any]) -> None:
    error = chunk["error"]
    assert isinstance(error, dict), "`error` is no object"
    assert error.get("message"), "the error has no message"
    assert isinstance(error["message"], str), "the error's message is no text"
    assert "choices" not in chunk, "an error chunk has choices"


def _check_frame(chunk: dict[str, Any], first: dict[str, Any], number: int) -> None:
    for key, kind in (("id", str), ("object", str), ("created", int), ("model", str), ("choices", list)):
        assert isinstance(chunk.get(key), kind), f"chunk {number} has no `{key}`"
    assert chunk["object"] == "chat.completion.chunk", f"chunk {number} is a {chunk['object']!r}"
    for key in ("id", "model", "created"):
        assert chunk[key], f"chunk {number} has an empty `{key}`"
        assert chunk[key] == first[key], f"chunk {number} has another `{key}` than the first"


class _Choice:
    def __init__(self) -> None:
        self.finish: str | None = None
        self.calls: list[str] = []  # the arguments of each tool call


class _Choices:
    def __init__(self) -> None:
        self._choices: dict[int, _Choice] = {}
        self._usage = False

    def begun(self) -> bool:
        return bool(self._choices)

    def unfinished(self) -> list[int]:
        return [index for index, choice in self._choices.items() if choice.finish is None]

    def all_finished(self) -> bool:
        return self.begun() and not self.unfinished()

    def read(self, chunk: dict[str, Any]) -> None:
        assert not self._usage, "something follows the usage"
        for delta in chunk["choices"]:
            self._read_choice(delta)
        if chunk.get("usage") is not None:
            assert self.all_finished(), "the usage comes before a finish reason"
            _check_usage(chunk["usage"])
            self._usage = True
        else:
            assert chunk["choices"], "a chunk has neither choices nor usage"

    def _read_choice(self, piece: dict[str, Any]) -> None:
        index = piece.get("index")
        assert type(index) is int, "a choice has no index"
        delta = piece.get("delta")
        assert isinstance(delta, dict), f"choice {index} has no delta"
        if index not in self._choices:
            self._choices[index] = _Choice()
            assert delta.get("role") == "assistant", f"choice {index} does not begin with its role"
        choice = self._choices[index]
        assert choice.finish is None, f"choice {index} goes on after its finish reason"
        assert delta.get("content") is None or isinstance(delta["content"], str), f"the content of choice {index} is no text"
        for call in delta.get("tool_calls") or []:
            _read_call(choice, call)
        finish = piece.get("finish_reason")
        if finish is not None:
            assert finish in FINISH, f"choice {index} finishes with {finish!r}"
            choice.finish = finish
            if finish == "tool_calls":
                assert choice.calls, f"choice {index} finishes with tool calls and has none"
                for arguments in choice.calls:
                    record(arguments or "{}")


def _read_call(choice: _Choice, call: dict[str, Any]) -> None:
    index = call.get("index")
    assert type(index) is int, "a tool call has no index"
    function = call.get("function", {})
    if index == len(choice.calls):
        assert call.get("id"), f"tool call {index} begins without an id"
        assert call.get("type") == "function", f"tool call {index} begins without its type"
        assert function.get("name"), f"tool call {index} begins without a name"
        choice.calls.append("")
    else:
        assert index == len(choice.calls) - 1, f"tool call {index} comes after {len(choice.calls)} others"
        assert not call.get("id"), f"tool call {index} has its id twice"
        assert not function.get("name"), f"tool call {index} has its name twice"
    arguments = function.get("arguments", "")
    assert isinstance(arguments, str), f"the arguments of tool call {index} are no text"
    choice.calls[index] += arguments


def _check_usage(usage: Any) -> None:
    assert isinstance(usage, dict), "`usage` is no object"
    prompt, completion, total = (count(usage.get(f"{kind}_tokens"), f"{kind}_tokens") for kind in ("prompt", "completion", "total"))
    assert total == prompt + completion, f"{prompt} + {completion} tokens are not {total}"
