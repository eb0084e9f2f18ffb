"""Says the last message back, inside this process: for first steps, tests and load tests. It speaks every dialect."""

from trunkline.base.codec import Malformed, Raw, decode_raw
from trunkline.base.codec import Wire as Part
from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.errors import BadRequest
from trunkline.model.event import Reply
from trunkline.model.part import Text
from trunkline.model.request import Request
from trunkline.model.tokens import approximate
from trunkline.model.usage import Usage
from trunkline.providers import Kind, Wire


class _Text(Part, frozen=True):
    text: str = ""


class _Message(Part, frozen=True):
    content: str | list[_Text] | None = None


def answer(request: Request) -> Reply:
    """The text of the last message, with tokens counted by us."""
    raw = request.fields.get("messages", Raw(b"[]"))
    try:
        messages = decode_raw(raw, list[_Message])
    except Malformed as error:
        raise BadRequest(f"`messages` cannot be read: {error}") from None
    if not messages:
        raise BadRequest("`messages` is empty", hint="Send at least one message; echo says the last one back.")
    content = messages[-1].content
    text = content if isinstance(content, str) else "".join(part.text for part in content or ())
    usage = Usage(input=approximate(bytes(raw)), output=approximate(text.encode()), approximated=True)
    return Reply(id="", model=request.model, content=(Text(text=text),), finish="stop", usage=usage)


PROVIDER = Kind(
    title="Echo",
    key_required=False,
    price="free",
    answer=answer,
    speaks=(
        Wire(OPENAI_CHAT, {"chat": ""}),
        Wire(ANTHROPIC, {"chat": "", "count_tokens": ""}),
    ),
)
