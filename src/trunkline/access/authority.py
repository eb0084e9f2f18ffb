"""Who may change what: everybody in their own account, the operators everywhere, and nobody gives more than they have. Pure.

Who asks is a caller, or `None`: whoever sits at the installation's own command line, who could write into its database as well.
"""

from collections.abc import Iterable, Sequence

from trunkline.errors import Denied
from trunkline.model.allowed import within
from trunkline.model.caller import Caller, Role, Scope

_RANK: dict[Role, int] = {"owner": 2, "admin": 1, "member": 0, "service": 0}


def is_operator(by: Caller | None) -> bool:
    """Whether somebody may do everything, in every account."""
    return by is None or "admin" in by.scopes


def sees(by: Caller | None, account: str) -> bool:
    """Whether an account's rows are there for somebody: of others' nobody learns that they exist."""
    return by is None or is_operator(by) or by.account == account


def check_operator(by: Caller | None, what: str) -> None:
    """Raises: `Denied`, if somebody is no operator; `what` says what they wanted to do."""
    if by is not None and not is_operator(by):
        raise Denied(f"the key `{by.name}` may not {what}", hint="It lacks the scope `admin`.")


def check_role(by: Caller | None, role: Role) -> None:
    """Raises: `Denied`, if somebody stands below a role that they would give, or whose holder they would change."""
    if by is None or is_operator(by):
        return
    if "account" not in by.scopes:
        raise Denied(f"the key `{by.name}` may not change its account", hint="It lacks the scope `account`.")
    if _RANK[by.role] < _RANK[role]:
        raise Denied(f"the key `{by.name}` is {_a(by.role)}'s, and may not change what is {_a(role)}'s", hint=f"Ask {_a(role)}.")


def check_gift(by: Caller | None, scopes: Iterable[Scope], models: Sequence[str] | None) -> None:
    """Raises: `Denied`, if a key held more than whoever makes or changes it."""
    if by is None:
        return
    for scope in sorted(set(scopes) - by.scopes):
        raise Denied(f"the key `{by.name}` may not give the scope `{scope}`", hint="It does not have it.")
    if not within(models, by.models):
        raise Denied(f"the key `{by.name}` may not give more models than it may use", hint=f"It may use {', '.join(by.models or ())}.")


def _a(role: Role) -> str:
    return f"{'an' if role[0] in 'ao' else 'a'} {role}"
