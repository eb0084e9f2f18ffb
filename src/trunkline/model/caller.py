"""Who asks."""

from dataclasses import dataclass
from typing import Literal

Scope = Literal["inference", "metrics", "admin"]
"""What a caller may do.

- `inference`: call models, and list them.
- `metrics`: read `/metrics`.
- `admin`: everything, the two above included.
"""

Kind = Literal["person", "service", "device", "extension"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks, as found out from a credential.

    Attributes:
        id: of what the caller came in with (`key_…`).
        kind: what the caller is; a key without a person behind it is a service.
        name: for people.
        scopes: all that the caller may do, what `admin` includes spelled out: `"metrics" in caller.scopes` is the whole question.
    """

    id: str
    kind: Kind
    name: str
    scopes: frozenset[Scope]
