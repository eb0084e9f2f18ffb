"""What a product sends, as the provider is to get it (daemon contract, B1). Pure."""

from trunkline.base.codec import Malformed, decode_raw, encode
from trunkline.dialects._splice import read_object, splice
from trunkline.errors import BadRequest
from trunkline_sdk.daemon.server import Call, Failure

_LIMITS = ("max_tokens", "max_completion_tokens")


def whole(call: Call) -> bytes:
    """The body of a call that is answered in one piece. Raises: `Failure`.

    Text to be spoken may come bare, as some products send it.
    """
    if call.surface == "audio_speech" and not call.body.lstrip().startswith(b"{"):
        try:
            return encode({"model": call.model, "input": call.body.decode()})
        except UnicodeDecodeError:
            raise Failure(400, "the text to be spoken is not UTF-8") from None
    return written(call, stream=False)


def written(call: Call, *, stream: bool) -> bytes:
    """A JSON body with the model that is asked for, and what products say beside the format put where it belongs. Raises: `Failure`.

    Args:
        call: the call.
        stream: whether the answer shall come in pieces, whatever the body says of it.
    """
    body = call.outgoing()
    try:
        fields = read_object(body)
        values: dict[str, object] = {"stream": True} if stream else {}
        if b'"_' in call.body:
            private = call.private()
            limit, preamble = private.get("_max_output_tokens"), private.get("_llmgw_preamble")
            if isinstance(limit, int) and call.surface == "chat_completions" and not any(name in fields for name in _LIMITS):
                values["max_tokens"] = limit
            if isinstance(preamble, str) and preamble and call.surface == "messages":
                values["system"] = _before(preamble, decode_raw(fields["system"], object) if "system" in fields else None)
        return splice(body, fields, values) if values else body
    except BadRequest as error:
        raise Failure(400, error.message) from None
    except Malformed:
        raise Failure(400, "the request's body cannot be read") from None


def _before(preamble: str, system: object) -> object:
    """A system prompt with a text before it."""
    if isinstance(system, list):
        blocks: list[object] = [*system]  # pyright: ignore[reportUnknownVariableType] - whatever the blocks are, they stay
        return [{"type": "text", "text": preamble}, *blocks]
    return f"{preamble}\n\n{system}" if system else preamble
