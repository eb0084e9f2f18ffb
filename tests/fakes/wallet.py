"""Stored credentials as a test puts them there."""

from collections.abc import Mapping

from trunkline.base.secret import Secret
from trunkline.model.credential import INSTALLATION, Credential, Owner


def credential(name: str, *, weight: int = 1, secret: str = "") -> Credential:
    """One whose secret is `canary-NAME`, unless it is given."""
    return Credential(id=f"cred_{name}", weight=weight, secret=Secret(secret or f"canary-{name}"))


class Wallet:
    """Nothing, until `put`."""

    def __init__(self) -> None:
        self.held: dict[str, dict[Owner, tuple[Credential, ...]]] = {}
        self.revoked: set[tuple[str, Owner]] = set()

    def of(self, provider: str) -> Mapping[Owner, tuple[Credential, ...]]:
        return self.held.get(provider, {})

    def ended(self, provider: str, owner: Owner) -> bool:
        return (provider, owner) in self.revoked

    def put(self, provider: str, *credentials: Credential, owner: Owner = INSTALLATION) -> None:
        self.held.setdefault(provider, {})[owner] = credentials
