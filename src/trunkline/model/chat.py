"""A whole conversation and what is asked of the model, in no vendor's words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from trunkline.base.codec import Raw
from trunkline.model.loss import Loss
from trunkline.model.part import Extra, Part, nothing

Role = Literal["system", "developer", "user", "assistant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn. What tools said stands in a user's turn. A cache mark on the whole of it is one on the end of its content."""

    role: Role
    content: tuple[Part, ...]
    name: str | None = None
    cache: Raw | None = None
    at: str = field(default="", compare=False)
    extra: Extra = field(default_factory=nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that the model may call. `parameters` is a JSON Schema, as JSON text.

    Attributes:
        namespace: the group that its name belongs to.
        free: it takes text, which is the `input` of the arguments.
    """

    name: str
    description: str | None = None
    parameters: Raw | None = None
    strict: bool | None = None
    cache: Raw | None = None
    namespace: str = ""
    free: bool = False
    at: str = field(default="", compare=False)
    extra: Extra = field(default_factory=nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedTool:
    """A tool that only its own dialect has, as JSON text.

    Attributes:
        tools: the functions that stand for it elsewhere; none where the vendor itself runs it.
        losses: what they do not say.
    """

    kind: str
    raw: Raw
    tools: tuple[Tool, ...] | None = None
    losses: tuple[Loss, ...] = ()
    at: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Named:
    """The one tool that must be called; `free` where it takes text."""

    name: str
    free: bool = False


ToolChoice = Literal["auto", "none", "required"] | Named


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonOutput:
    """The reply is to be JSON; by a schema, where there is one."""

    name: str = ""
    schema: Raw | None = None
    strict: bool | None = None
    description: str | None = None
    extra: Extra = field(default_factory=nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """How much the model is to think.

    Attributes:
        effort: in the vendors' words (`none minimal low medium high xhigh max`).
        budget: at most so many tokens.
        enabled: on or off.
        adaptive: whether it thinks is left to the model.
        summary: how much of it is to be told.
    """

    effort: str | None = None
    budget: int | None = None
    enabled: bool | None = None
    adaptive: bool = False
    summary: str | None = None
    extra: Extra = field(default_factory=nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """What is asked: `None` everywhere means that the caller did not say.

    Attributes:
        places: where fields stood in the caller's body, by their names here, where that is another name.
    """

    messages: tuple[Message, ...]
    tools: tuple[Tool | HostedTool, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_output: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    output: JsonOutput | None = None
    thinking: Thinking | None = None
    user: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    service_tier: str | None = None
    extra: Extra = field(default_factory=nothing)
    places: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)

    def at(self, name: str) -> str:
        """Where a field stood in the caller's body: what a loss calls it."""
        return self.places.get(name, name)
