"""The law of translation: nothing of a request is in neither what was written nor what was reported as lost.

Every text and every number of the body that came must stand somewhere in the body that goes out, or below the path of a loss. It may
stand there in another form: inside a longer text, in JSON that is a text there, in the parts of a `data:` URL. What goes by another
word has its line in `RENAMED`.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from trunkline.model.loss import Loss

Path = tuple[str, ...]

RENAMED: dict[tuple[str, object], set[object]] = {
    ("tool_choice", "required"): {"any"},
    ("tool_choice.type", "any"): {"required"},
    ("reasoning_effort", "none"): {"disabled"},
    ("reasoning.effort", "none"): {"disabled"},
}
"""By the path and the value that came: what stands for it. `*` is any step."""

WORDS = {"type", "role", "origin"}
"""Fields that say what an object is, or whose: every format has words of its own, and what the objects hold is what counts."""

GATEWAYS = {"model", "stream", "stream_options.include_usage"}
"""Fields that are not translated: the gateway reads them, and says them anew."""

CARRIER = "trunkline:"
"""What begins so is another vendor's thought on its way through a foreign client: the vendor's name, and what goes back to it."""

DATA_URL = re.compile(r"data:([^;,]+)(?:;[^;,]*)*;base64,(.*)", re.DOTALL)


def vanished(body: Any, written: Any, losses: Iterable[Loss]) -> list[str]:
    """The paths of all that is in neither."""
    paths = [tuple(loss.path.split(".")) for loss in losses]
    found = set(_values(written))
    texts = "\n".join(value for value in found if isinstance(value, str))
    return [
        ".".join(path)
        for path, value in _leaves(body, ())
        if path[-1] not in WORDS
        and ".".join(path) not in GATEWAYS
        and not any(_covers(lost, path) for lost in paths)
        and not _stands(path, value, found, texts)
    ]


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Every text and number, with its path. An empty text says nothing."""
    match value:
        case dict():
            ours = str(value.get("encrypted_content", "")).startswith(CARRIER)
            for name, inner in value.items():
                if ours and name == "id":
                    continue  # we gave it
                yield from _leaves(inner, (*path, *name.split(".")))
        case list():
            for number, inner in enumerate(value):
                yield from _leaves(inner, (*path, str(number)))
        case bool() | None | "":
            pass
        case _:
            yield path, value


def _covers(lost: Path, path: Path) -> bool:
    """Whether a loss is of a thing or of what holds it."""
    return len(lost) <= len(path) and all(step in {"*", here} for step, here in zip(lost, path, strict=False))


def _values(value: Any) -> Iterator[Any]:
    """Every text and number of a body, those in JSON that is a text included."""
    for _, leaf in _leaves(value, ()):
        yield leaf
        if isinstance(leaf, str) and (inner := _json(leaf)) is not None:
            yield from _values(inner)


def _stands(path: Path, value: Any, found: set[Any], texts: str) -> bool:
    if value in found or RENAMED.get((".".join(path), value), set()) & found:
        return True
    if not isinstance(value, str):
        return False
    if (inner := _json(value)) is not None:
        return all(_stands(path, leaf, found, texts) for _, leaf in _leaves(inner, ()))
    data = DATA_URL.fullmatch(value)
    parts = data.groups() if data else value.split(":")[2:] if value.startswith(CARRIER) else [value]
    return all(part in texts for part in parts)


def _json(text: str) -> Any:
    """The object that a text holds as JSON, if it does."""
    try:
        value = json.loads(text) if text.startswith("{") else None
    except json.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None
