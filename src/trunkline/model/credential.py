"""A provider's credential, ready to be sent."""

from dataclasses import dataclass
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
        id: `cred_` and letters, or `file`.
        weight: its share among those of the same owner.
        secret: what is sent.
    """

    id: str
    weight: int
    secret: Secret
