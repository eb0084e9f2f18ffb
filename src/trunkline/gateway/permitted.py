"""Which targets a caller may use. Pure."""

from trunkline.errors import Denied
from trunkline.gateway.router import Stop
from trunkline.model.allowed import allows
from trunkline.model.caller import Caller


def permitted(stops: list[Stop], name: str, caller: Caller) -> list[Stop]:
    """Of the targets of a name those that a caller may use: all of them where its key has the name, else those that it has itself.

    Raises:
        Denied: none.
    """
    if allows(caller.models, name):
        return stops
    left = [stop for stop in stops if allows(caller.models, str(stop.target))]
    if not left:
        raise Denied(f"the key `{caller.name}` may not use the model `{name}`", hint="`GET /v1/models` lists those that it may.")
    return left
