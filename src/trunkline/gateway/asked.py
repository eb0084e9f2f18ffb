"""What a caller asked, as each target gets it. Pure."""

from collections.abc import Callable
from functools import cached_property, partial

from trunkline.base.codec import Malformed, decode_raw
from trunkline.dialects import Dialect, Written
from trunkline.dialects._splice import splice
from trunkline.gateway import stored
from trunkline.gateway.losses import STRICT, judge
from trunkline.gateway.router import Stop
from trunkline.model.card import touches
from trunkline.model.chat import Chat
from trunkline.model.request import Request


class Asked:
    """A request in its caller's dialect. It is read in full once, however many targets need that, and not at all if none does.

    Attributes:
        home: what the request goes on from, which only its own provider has.
        strict: its caller wants no loss that matters.
    """

    def __init__(self, request: Request, dialect: Dialect, *, strict: bool = False) -> None:
        self.home = _home(request, dialect)
        self.request = request if self.home is None else _at_home(request, dialect, self.home)
        self.dialect = dialect
        self.strict = strict

    @cached_property
    def chat(self) -> Chat:
        """All of it, in no vendor's words. Raises: `BadRequest`."""
        return self.dialect.read_chat(self.request)

    def written(self, stop: Stop) -> Written:
        """The request as a target gets it: forwarded where its dialect is the same, else read and written.

        Raises:
            BadRequest: it cannot be read.
            LossRefused: it cannot be carried without a loss that nobody allowed.
        """
        theirs = stop.wire.dialect
        card = stop.provider.card(stop.target.model)
        ask_usage = stop.provider.settings.stream_usage
        if self.dialect.same(theirs, self.request) and not touches(card, self.request.fields):
            return theirs.forward(self.request, stop.target.model, ask_usage=ask_usage)
        same = self.dialect.name == theirs.name
        if not same:
            self.dialect.translatable(self.request)
        written = theirs.write_chat(self.chat, self.request, stop.target.model, card, same=same, ask_usage=ask_usage)
        judge(written.losses, (*STRICT, *stop.rules) if self.strict else stop.rules)
        return written

    @property
    def repeatable(self) -> bool:
        """Whether a target that broke off may be asked once more."""
        return self.dialect.repeatable(self.request)

    def tells(self, stop: Stop, credential: str = "") -> Callable[[str], str] | None:
        """What turns an id into the one that callers know, where the target will keep the reply under it, for a stored credential."""
        kept = self.dialect.name == stop.wire.dialect.name and self.dialect.keeps(self.request)
        return partial(stored.tell, stop.target.provider, credential) if kept else None

    def passes(self, stop: Stop, written: Written) -> bool:
        """Whether the reply goes to the caller as it comes: it is in the caller's dialect, with the names that the caller knows."""
        return self.dialect.name == stop.wire.dialect.name and not written.names.changed


def _home(request: Request, dialect: Dialect) -> stored.Stored | None:
    raw = request.fields.get(dialect.stored_field) if dialect.stored_field else None
    try:
        return None if raw is None else stored.find(decode_raw(raw, str))
    except Malformed:
        return None


def _at_home(request: Request, dialect: Dialect, home: stored.Stored) -> Request:
    """The request with the id that its provider knows."""
    return dialect.read_request(splice(request.body, request.fields, {dialect.stored_field: home.id}), request.operation)
