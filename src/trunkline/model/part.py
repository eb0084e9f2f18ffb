"""What messages are made of, in no vendor's words.

Every part knows where it stood (`at`, as in `messages.0.content.1`), so that a loss can name it. `extra` holds the fields that only
the dialect they came in knows; they are written to the same dialect alone, and are a loss elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from trunkline.base.codec import Raw

Extra = Mapping[str, Raw]


def nothing() -> Extra:
    """No extra fields."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What all parts have.

    Attributes:
        at: where it stood in the caller's body.
        cache: the mark that says "keep the prompt up to here in the cache", as JSON text.
        extra: fields that only its own dialect knows.
    """

    at: str = field(default="", compare=False)
    cache: Raw | None = None
    extra: Extra = field(default_factory=nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Part):
    """Text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Image(Part):
    """A picture: by URL, or as base64 with its media type."""

    url: str = ""
    data: str = ""
    media_type: str = ""
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document(Part):
    """A file for the model to read: by URL, by a provider's file id, as base64, or as plain text."""

    url: str = ""
    file_id: str = ""
    data: str = ""
    media_type: str = ""
    text: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Audio(Part):
    """A recording, as base64."""

    data: str
    format: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoning(Part):
    """What the model thought.

    Attributes:
        text: the thought or its summary; may be empty.
        signature: the vendor's proof that it wrote this; verified when it is given back.
        encrypted: the thought in a form that only the vendor reads.
        origin: the dialect of the vendor that signed or encrypted it, so that it is only given back there.
        id: its name at the vendor, where it has one.
    """

    text: str = ""
    signature: str = ""
    encrypted: str = ""
    origin: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal(Part):
    """The model's words for not answering."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall(Part):
    """A tool that the model wants called; `arguments` is JSON text.

    Attributes:
        namespace: the group that the tool's name belongs to.
        free: the tool takes text, which is the `input` of the arguments.
    """

    id: str
    name: str
    arguments: str
    namespace: str = ""
    free: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult(Part):
    """What a tool said; `free` as in its call."""

    call_id: str
    content: tuple[Part, ...] = ()
    is_error: bool | None = None
    free: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Opaque(Part):
    """A part that only the dialect it came in knows, as JSON text."""

    kind: str
    raw: Raw
