"""Connections as people see and change them: listed, pasted, disconnected, recovered. What they hold is told to nobody."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trunkline.access.connection_rows import LONGEST_LABEL, ConnectionRow
from trunkline.access.connections import LONGEST_TOKEN, Connections
from trunkline.access.sign_ins import Daemons, find, note
from trunkline.base.codec import Malformed, decode_raw, encode
from trunkline.base.log import Logger
from trunkline.base.secret import SHORTEST, Secret
from trunkline.errors import BadRequest
from trunkline.model.caller import Caller
from trunkline.model.credential import Owner
from trunkline_sdk.daemon.messages import Record

__all__ = ["LONGEST_LABEL", "LONGEST_TOKEN", "Connecting", "ConnectionRow", "Pasting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pasting:
    """A token that a person got elsewhere.

    Attributes:
        provider: its name, or its id.
        token: one line, or a JSON document.
        token_type: what it is (daemon contract, E1).
        account_id: whose it is at the provider.
        label: what people call it.
        metadata: what the provider wants to know besides; it may hold secrets.
    """

    provider: str
    token: Secret
    token_type: str = "api_key"  # noqa: S105 - the name of a kind
    account_id: str = ""
    label: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


class Connecting:
    """What may be done with connections by hand. Raises `StoreUnavailable` and `VaultUnavailable` beside what is said.

    Args:
        connections: where they are.
        daemons: who knows the providers.
        log: told of who did what.
    """

    def __init__(self, connections: Connections, daemons: Daemons, log: Logger) -> None:
        self._connections = connections
        self._daemons = daemons
        self._log = log

    def list(
        self, *, account: str | None, user: str | None, provider: str | None, after: str | None, limit: int
    ) -> Sequence[ConnectionRow]:
        """Connections, the oldest first, behind one of them. Blocking."""
        return self._connections.list(account=account, user=user, provider=provider, after=after, limit=limit)

    def get(self, wanted: str) -> ConnectionRow:
        """One, by its id. Blocking. Raises: `NotFound`."""
        return self._connections.get(wanted)

    async def paste(self, owner: Owner, pasting: Pasting, *, by: Caller) -> ConnectionRow:
        """Keep a token, in the place of what the owner had.

        Raises:
            NotFound: there is no such provider, account or user.
            BadRequest: the provider takes no pasted token, or not such a one.
        """
        found = find(self._daemons, pasting.provider)
        if found.served.credential == "oauth":
            raise BadRequest(f"one signs in to `{found.id}`", hint="`trunkline connect` does it; a token is not pasted.")
        record = _record(pasting)
        made = await self._connections.save(owner, found.id, record)
        note(self._log, "connected", by, owner, found.id, method="token", connection=made)
        return await asyncio.to_thread(self._connections.get, made)

    def delete(self, wanted: str, *, revision: int | None, by: Caller) -> ConnectionRow:
        """Disconnect one. Blocking. Raises: `NotFound`, `PreconditionFailed`."""
        row = self._connections.delete(wanted, revision=revision)
        note(self._log, "disconnected", by, _owner(row), row.provider, connection=row.id)
        return row

    def recover(self, wanted: str, *, by: Caller) -> ConnectionRow:
        """Use a revoked one again. Blocking. Raises: `NotFound`, `Conflict`."""
        row = self._connections.recover(wanted)
        note(self._log, "recovered", by, _owner(row), row.provider, connection=row.id)
        return row


def _owner(row: ConnectionRow) -> Owner:
    return Owner(row.account or "", row.user or "")


def _record(pasting: Pasting) -> Record:
    """What is kept. Raises: `BadRequest`, which names no value."""
    text = _one_line(pasting.token.reveal())
    if not SHORTEST <= len(text) <= LONGEST_TOKEN:
        raise BadRequest(f"`token` has {len(text)} characters", hint=f"It has {SHORTEST} to {LONGEST_TOKEN}; is it whole, and alone?")
    plain = {"token": text, "token_type": pasting.token_type, "account_id": pasting.account_id, "label": pasting.label}
    for name, value in plain.items():
        if not value.isprintable() or value.strip() != value:
            raise BadRequest(f"`{name}` cannot be sent in a header", hint="It is one line, without spaces around it.")
    label = {"account_label": pasting.label} if pasting.label else {}
    return Record(access_token=text, token_type=pasting.token_type, account_id=pasting.account_id, metadata={**pasting.metadata, **label})


def _one_line(text: str) -> str:
    """A JSON document (a service account's key) without the line breaks between its parts, so that a header can carry it."""
    text = text.strip()
    if not text.startswith("{"):
        return text
    try:
        return encode(decode_raw(text.encode(), dict[str, object])).decode()
    except Malformed:
        return text
