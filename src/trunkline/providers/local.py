"""A model on this machine: llama.cpp in a process of its own, started on first use."""

from trunkline.base.codec import Annotated, Meta
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.providers import Kind, Settings, Wire


class LocalSettings(Settings, frozen=True):
    """What the operator says about a model on this machine."""

    weights: Annotated[str, Meta(description="A path to a GGUF file, or a name that `trunkline models fetch` knows.")] = "smollm2"
    threads: Annotated[
        Annotated[int, Meta(ge=1, le=256)] | None, Meta(description="Threads that compute; by default all cores but one, at most 4.")
    ] = None
    context: Annotated[int, Meta(ge=256, description="Tokens of context for each of its slots.")] = 4096
    parallel: Annotated[int, Meta(ge=1, le=64, description="Calls that it works on at once.")] = 2


PROVIDER = Kind(
    title="Local model",
    key_required=False,
    price="free",
    launched=True,
    settings=LocalSettings,
    repairs=frozenset({"first_role"}),
    lists="/v1/models",
    speaks=(Wire(OPENAI_CHAT, {"chat": "/v1/chat/completions"}),),
)
