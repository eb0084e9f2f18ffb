"""Ids of objects that a provider keeps: they say whose they are, so that what follows goes home. Pure.

A stored response is `resp_PROVIDER~ID` for callers and `ID` for its provider. The mark is unreserved in URLs (RFC 3986, section 2.3),
and no provider's name holds it.
"""

from typing import NamedTuple

PREFIX = "resp_"
MARK = "~"


class Stored(NamedTuple):
    """An object that a provider keeps."""

    provider: str
    id: str


def tell(provider: str, object_id: str) -> str:
    """The id as callers see it."""
    return f"{PREFIX}{provider}{MARK}{object_id}"


def find(told: str) -> Stored | None:
    """Whose object an id names; none where it is not one of ours."""
    provider, _, object_id = told.removeprefix(PREFIX).partition(MARK)
    known = told.startswith(PREFIX) and provider and object_id.strip(".")  # `..` would lead out of the path where it is asked for
    return Stored(provider, object_id) if known else None
