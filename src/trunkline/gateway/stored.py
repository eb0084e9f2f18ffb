"""Ids of objects that a provider keeps: they say whose they are, so that what follows goes home. Pure.

A stored response is `resp_PROVIDER~ID` for callers and `ID` for its provider, or `resp_PROVIDER~CREDENTIAL~ID` where a stored credential
asked for it: those of another contract do not see it. The mark is unreserved in URLs (RFC 3986, section 2.3), and no provider's name
holds it.
"""

import re
from typing import NamedTuple

PREFIX = "resp_"
MARK = "~"

_CREDENTIAL = re.compile(f"((?:cred|con)_[a-z]+){MARK}")


class Stored(NamedTuple):
    """An object that a provider keeps; for a stored credential, where there is one."""

    provider: str
    id: str
    credential: str = ""


def tell(provider: str, credential: str, object_id: str) -> str:
    """The id as callers see it; the credential is a stored one's id, or empty."""
    return f"{PREFIX}{provider}{MARK}{credential}{MARK if credential else ''}{object_id}"


def find(told: str) -> Stored | None:
    """Whose object an id names; none where it is not one of ours."""
    provider, _, rest = told.removeprefix(PREFIX).partition(MARK)
    credential = _CREDENTIAL.match(rest)
    object_id = rest[credential.end() :] if credential else rest
    known = told.startswith(PREFIX) and provider and object_id.strip(".")  # `..` would lead out of the path where it is asked for
    return Stored(provider, object_id, credential[1] if credential else "") if known else None
