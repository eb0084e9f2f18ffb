"""A call as the gateway needs to know it; the rest of it stays bytes."""

from collections.abc import Mapping
from typing import Literal

from trunkline.base.codec import Raw, Value

Operation = Literal["chat", "count_tokens", "embeddings", "speech"]


class Request(Value, frozen=True):
    """What routing, policy and price need of a request.

    Attributes:
        operation: what is asked for.
        model: the name that the caller asked for.
        stream: whether the reply is to come in pieces.
        max_output: the most tokens the caller wants written, if it says.
        body: the request as it came, to the byte.
        fields: the top-level values of the body, in order, each still JSON text.
    """

    operation: Operation
    model: str
    stream: bool
    max_output: int | None
    body: bytes
    fields: Mapping[str, Raw]
