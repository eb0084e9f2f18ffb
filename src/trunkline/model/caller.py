"""Who asks."""

from dataclasses import dataclass
from typing import Literal

Scope = Literal["inference", "metrics", "account", "admin"]
"""What a caller may do.

- `inference`: call models, and list them.
- `metrics`: read `/metrics`.
- `account`: administer the caller's own account, as far as the caller's role permits.
- `admin`: everything, the three above included, in every account: the installation's operators.
"""

Kind = Literal["person", "service", "device", "extension"]

Role = Literal["owner", "admin", "member", "service"]
"""What somebody is in an account.

- `owner`: may do everything in it, and make other owners.
- `admin`: may do everything in it but to its owners.
- `member`: a person who uses it; end users are members too.
- `service`: a program.
"""

EndUsers = Literal["key", "request"]
"""For whom a key's calls are: whoever has the key, or whom each request names."""

DEFAULT_ACCOUNT = "acc_default"
"""The operators' own account, which is always there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks, as found out from a credential.

    Attributes:
        id: of what the caller came in with (`key_…`).
        kind: what the caller is; a key without a person behind it is a service.
        name: for people.
        scopes: all that the caller may do, what `admin` includes spelled out: `"metrics" in caller.scopes` is the whole question.
        account: whose the credential is (`acc_…`).
        user: who the call is for (`usr_…`): the key's own user, or the end user that the request names; none where nobody is known.
        role: what the holder of the credential is in the account.
        models: the names of models that may be called, `*` standing for anything; `None` for all.
        end_users: for whom the calls are.
    """

    id: str
    kind: Kind
    name: str
    scopes: frozenset[Scope]
    account: str = DEFAULT_ACCOUNT
    user: str | None = None
    role: Role = "service"
    models: tuple[str, ...] | None = None
    end_users: EndUsers = "key"
