"""A provider's credential, ready to be sent."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from trunkline.base.secret import Secret

FILE = "file"
"""The id and the name of the credential that the configuration gives a provider."""


class Owner(NamedTuple):
    """Whose calls a credential is for: one user's, all of an account's, or, with neither, everybody's."""

    account: str = ""
    user: str = ""


INSTALLATION = Owner()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Credential:
    """One of the credentials that a provider may be called with. It is itself alone: one that was changed is another.

    Attributes:
        id: `cred_` and letters, or `file`; `con_` and letters where somebody signed in.
        weight: its share among those of the same owner.
        secret: what is sent.
        token_type: what it is, as an extension daemon is told (daemon contract, E1): `api_key` is never renewed.
        account: whose it is at the provider, where that is known.
        metadata: what goes with it to an extension daemon; it may hold a client's secret.
        key: under which a sign-in is kept; empty for what is not one.
        revision: of that sign-in.
        expires_at: when a sign-in has to be renewed, in seconds since the Unix epoch; `None` where it does not expire.
    """

    id: str
    weight: int
    secret: Secret
    token_type: str = "api_key"  # noqa: S105 - the name of a kind
    account: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    key: str = ""
    revision: str = ""
    expires_at: float | None = None
