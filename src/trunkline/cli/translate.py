"""`trunkline translate`."""

import sys
from typing import Annotated

from cyclopts import Parameter

from trunkline import dialects as dialects_package
from trunkline.base import members
from trunkline.base.codec import Raw, nearest, pretty
from trunkline.cli.output import print_json
from trunkline.cli.places import Json
from trunkline.dialects import Dialect
from trunkline.errors import NotFound
from trunkline.gateway.losses import wire
from trunkline.model.card import Card


def command(
    source: Annotated[str, Parameter(name="FROM")],
    target: Annotated[str, Parameter(name="TO")],
    *,
    model: str | None = None,
    max_output: int | None = None,
    json: Json = False,
) -> None:
    """Show how a request is carried from one format to another, without sending it. It is read from stdin.

    Args:
        source: the format that it is in: `openai_chat`, `openai_responses` or `anthropic`.
        target: the format that it is wanted in.
        model: the model's name at the provider; by default the one in the request.
        max_output: what the model writes at most, for formats that require a limit.
    """
    known = members.load(dialects_package, "DIALECT", Dialect)
    theirs, ours = _dialect(known, source), _dialect(known, target)
    request = theirs.read_request(sys.stdin.buffer.read(), "chat")
    if theirs != ours:
        theirs.translatable(request)
    name = model or request.model
    chat = theirs.read_chat(request)
    written = ours.write_chat(chat, request, name, Card(max_output=max_output), same=theirs == ours, ask_usage=True)
    if json:
        print_json({"body": Raw(written.body), "losses": wire(written.losses)})
        return
    print(pretty(Raw(written.body)))
    for loss in written.losses:
        detail = f": {loss.detail}" if loss.detail else ""
        print(f"{loss.severity} {loss.path} {loss.change}{detail}", file=sys.stderr)


def _dialect(known: dict[str, Dialect], name: str) -> Dialect:
    if name not in known:
        close = nearest(name, list(known))
        raise NotFound(f"there is no format `{name}`", hint=f"Did you mean `{close}`?" if close else f"Known: {', '.join(known)}.")
    return known[name]
