"""The purse: all that a provider may be called with, stored credentials and sign-ins, by whose they are."""

from typing import Protocol

from trunkline.access.wallet import Held
from trunkline.model.credential import Owner


class Holder(Protocol):
    """Something that holds credentials, in memory."""

    def of(self, provider: str) -> Held:
        """A provider's, by whose they are; the same object while nothing changed."""
        ...


class SignIns(Holder, Protocol):
    """Sign-ins, which a provider may refuse for good."""

    def ended(self, provider: str, owner: Owner) -> bool:
        """Whether it did so to an owner's."""
        ...


class Purse:
    """Both as one. An owner's credentials are those that it has in either.

    Args:
        wallet: the stored credentials.
        connections: the sign-ins.
    """

    def __init__(self, wallet: Holder, connections: SignIns) -> None:
        self._wallet = wallet
        self._connections = connections
        self._merged: dict[str, tuple[Held, Held, Held]] = {}

    def of(self, provider: str) -> Held:
        """A provider's credentials, by whose they are; none where an owner's cannot be used."""
        stored, signed_in = self._wallet.of(provider), self._connections.of(provider)
        if not signed_in:
            return stored
        if not stored:
            return signed_in
        known = self._merged.get(provider)
        if known is None or known[0] is not stored or known[1] is not signed_in:
            merged = {owner: (*stored.get(owner, ()), *signed_in.get(owner, ())) for owner in (*stored, *signed_in)}
            known = self._merged[provider] = stored, signed_in, merged
        return known[2]

    def ended(self, provider: str, owner: Owner) -> bool:
        """Whether an owner has nothing that can be used because its sign-in was revoked."""
        return owner not in self._wallet.of(provider) and self._connections.ended(provider, owner)
