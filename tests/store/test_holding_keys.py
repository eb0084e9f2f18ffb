"""What keys of accounts and users may hold, how they change, and how one takes the place of another."""

from collections.abc import Callable

import pytest

from tests.fakes.clock import FakeClock
from tests.fakes.people import holder, operator
from trunkline.access.accounts import Accounts
from trunkline.access.keys import KeyRow, Keys
from trunkline.access.rows import LATEST
from trunkline.access.users import Users
from trunkline.errors import BadRequest, Conflict, Denied, NotFound, PreconditionFailed
from trunkline.model.caller import Caller, Role, Scope

ROLES: list[Role] = ["owner", "admin", "member", "service"]


@pytest.fixture
def acme(accounts: Accounts) -> str:
    return accounts.create("acme").id


# ------------------------------------------------------------------------------------------------------------- creation
def test_a_key_is_an_account_s_or_a_user_s(keys: Keys, users: Users, acme: str) -> None:
    user = users.create("ada", account=acme).id
    row, _ = keys.create("laptop", {"inference"}, account=acme, user=user, models=["openai/*", "fast", "fast"], end_users="request")
    assert (row.account, row.user, row.models, row.end_users) == (acme, user, ("openai/*", "fast"), "request")
    assert keys.get(row.id) == row
    assert [each.id for each in keys.list(account=acme)] == [row.id]
    with pytest.raises(NotFound, match=user):
        keys.create("laptop", {"inference"}, user=user)  # of another account
    for account, holder_ in (("acc_nobody", None), (acme, "usr_nobody")):
        with pytest.raises(NotFound, match="nobody"):
            keys.create("laptop", {"inference"}, account=account, user=holder_)


@pytest.mark.parametrize("account", ["acme", "acc_default"])
@pytest.mark.parametrize("role", [*ROLES, None])
@pytest.mark.parametrize("scope", ["inference", "metrics", "account", "admin"])
def test_a_role_bounds_what_its_keys_hold(keys: Keys, users: Users, acme: str, account: str, role: Role | None, scope: Scope) -> None:
    account = acme if account == "acme" else account
    user = users.create("ada", account=account, role=role).id if role else None
    may = {
        "inference": True,
        "metrics": True,
        "account": role in {"owner", "admin"},
        "admin": account == "acc_default" and role in {"owner", "admin", None},
    }[scope]
    if may:
        assert keys.create("k", {scope}, account=account, user=user)[0].scopes == {scope}
    else:
        with pytest.raises(BadRequest, match=f"`{scope}`"):
            keys.create("k", {scope}, account=account, user=user)


@pytest.mark.parametrize("models", [[], [""], ["a\nb"], ["x" * 201], ["m"] * 101])
def test_a_list_of_models_that_says_nothing_is_refused(keys: Keys, models: list[str]) -> None:
    with pytest.raises(BadRequest, match="`models`"):
        keys.create("k", {"inference"}, models=models)
    row, _ = keys.create("k", {"inference"})
    with pytest.raises(BadRequest, match="`models`"):
        keys.change(row.id, models=models)
    assert keys.list() == [row]


# ------------------------------------------------------------------------------------------------------------ authority
def test_nobody_makes_a_key_that_has_more_than_they(keys: Keys, users: Users, acme: str) -> None:
    owner, admin = (users.create(role, account=acme, role=role).id for role in ("owner", "admin"))
    me = holder(acme, "admin", ("inference", "account"), models=("openai/*", "fast"))
    make = lambda scopes=("inference",), models=("fast",), **more: keys.create("k", scopes, account=acme, models=models, by=me, **more)  # noqa: E731
    assert make()[0].scopes == {"inference"}
    assert make(("inference", "account"), ["openai/gpt-*"], user=admin)[0].user == admin
    for refused in (
        lambda: make(("metrics",)),
        lambda: make(models=None),
        lambda: make(models=["*"]),
        lambda: make(models=["fast", "openai*"]),
        lambda: make(user=owner),
    ):
        with pytest.raises(Denied):
            refused()
    assert len(keys.list()) == 2


@pytest.mark.parametrize("role", ["member", "service"])
def test_who_does_not_look_after_an_account_makes_no_keys(keys: Keys, acme: str, role: Role) -> None:
    with pytest.raises(Denied, match="may not change its account"):
        keys.create("k", {"inference"}, account=acme, by=holder(acme, role))


def test_a_key_that_ends_makes_none_that_lasts_longer(keys: Keys, users: Users, acme: str, clock: FakeClock) -> None:
    boss = users.create("boss", account=acme, role="owner").id
    end = clock.now() + 100
    mine, _ = keys.create("mine", {"inference", "account"}, end, account=acme, user=boss)
    me = Caller(id=mine.id, kind="person", name="mine", scopes=mine.scopes, account=acme, user=boss, role="owner")
    assert keys.create("k", {"inference"}, end, account=acme, by=me)[0].expires_at == end
    for later in (None, end + 1):
        with pytest.raises(BadRequest, match="expires_at"):
            keys.create("k", {"inference"}, later, account=acme, by=me)
    with pytest.raises(BadRequest, match="expires_at"):
        keys.change(mine.id, expires_at=None, by=me)


Change = Callable[[Keys, str, Caller], object]
CHANGES: dict[str, Change] = {
    "change": lambda keys, key, by: keys.change(key, name="new", by=by),
    "rotate": lambda keys, key, by: keys.rotate(key, by=by),
    "revoke": lambda keys, key, by: keys.revoke(key, by=by),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_nobody_touches_a_key_of_who_stands_above_them(keys: Keys, users: Users, acme: str, change: Change) -> None:
    boss = users.create("boss", account=acme, role="owner").id
    row, _ = keys.create("k", {"inference"}, account=acme, user=boss)
    with pytest.raises(Denied, match="owner"):
        change(keys, row.id, holder(acme, "admin"))
    with pytest.raises(Denied, match="may not change its account"):
        change(keys, row.id, holder(acme, "member"))
    with pytest.raises(NotFound):
        change(keys, row.id, holder("acc_default", "owner"))
    assert keys.get(row.id) == row
    change(keys, row.id, holder(acme, "owner"))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_only_operators_touch_a_key_of_operators(keys: Keys, change: Change) -> None:
    row, _ = keys.first_admin()
    with pytest.raises(Denied, match="`admin`"):
        change(keys, row.id, holder("acc_default", "owner"))
    change(keys, row.id, operator())


@pytest.mark.parametrize("name", ["change", "rotate"])
def test_nobody_takes_over_a_key_that_has_more_than_they(keys: Keys, acme: str, name: str) -> None:
    row, _ = keys.create("k", {"metrics"}, account=acme)
    with pytest.raises(Denied, match="`metrics`"):
        CHANGES[name](keys, row.id, holder(acme, "owner"))
    assert keys.revoke(row.id, by=holder(acme, "owner")).revoked_at, "which gives nobody anything"


def test_nobody_learns_of_keys_of_another_account(keys: Keys, acme: str) -> None:
    theirs, mine = keys.create("a", {"inference"})[0], keys.create("b", {"inference"}, account=acme)[0]
    me = holder(acme, "owner")
    assert keys.list(by=me) == [mine]
    for look in (lambda: keys.get(theirs.id, by=me), lambda: keys.list(account="acc_default", by=me)):
        with pytest.raises(NotFound):
            look()
    with pytest.raises(NotFound):
        keys.create("c", {"inference"}, by=me)


# --------------------------------------------------------------------------------------------------------------- change
def test_a_change_is_a_revision_and_what_is_not_said_stays(keys: Keys, clock: FakeClock) -> None:
    row, secret = keys.create("k", {"inference"}, models=["a"])
    clock.advance(1)
    changed = keys.change(row.id, scopes={"metrics"}, expires_at=clock.now() + 9, revision=1)
    assert (changed.name, changed.models, changed.scopes, changed.expires_at) == ("k", ("a",), {"metrics"}, clock.now() + 9)
    assert (changed.revision, changed.updated_at) == (2, clock.now())
    again = keys.change(row.id, name="l", models=None, end_users="request", expires_at=None)
    assert (again.name, again.models, again.end_users, again.expires_at, again.scopes) == ("l", None, "request", None, {"metrics"})
    assert keys.named(secret.reveal()) == again
    for stale in (keys.change, keys.rotate, keys.revoke):
        with pytest.raises(PreconditionFailed, match="is 3, not 1"):
            stale(row.id, revision=1)


def test_a_change_to_what_may_not_be_changes_nothing(keys: Keys, clock: FakeClock) -> None:
    row, _ = keys.create("k", {"inference"})
    for bad in ({"scopes": set()}, {"scopes": {"account"}}, {"expires_at": clock.now()}, {"expires_at": LATEST + 1}, {"name": ""}):
        with pytest.raises(BadRequest):
            keys.change(row.id, **bad)
    with pytest.raises(Conflict):
        keys.change(row.id, name="admin")
    assert keys.get(row.id) == row
    keys.revoke(row.id)
    with pytest.raises(Conflict, match="revoked"):
        keys.change(row.id, name="l")


# ------------------------------------------------------------------------------------------------------------- rotation
def alike(row: KeyRow) -> tuple[object, ...]:
    return (row.name, row.account, row.user, row.scopes, row.models, row.end_users)


def test_a_key_that_is_rotated_works_for_a_day_and_says_until_when(keys: Keys, users: Users, acme: str, clock: FakeClock) -> None:
    user = users.create("ada", account=acme).id
    row, secret = keys.create("k", {"inference"}, account=acme, user=user, models=["a"], end_users="request")
    made = keys.rotate(row.id)
    assert alike(made.key) == alike(row)
    assert made.secret.reveal() != secret.reveal()
    assert (made.key.expires_at, made.key.revision) == (None, 1)
    assert made.until == made.before.expires_at == clock.now() + 86_400
    assert (made.before.id, made.before.replaced_by, made.before.revoked_at, made.before.revision) == (row.id, made.key.id, None, 2)


def test_a_key_that_is_rotated_without_grace_ends_now(keys: Keys, clock: FakeClock) -> None:
    row, _ = keys.create("k", {"inference"})
    made = keys.rotate(row.id, grace=0)
    assert made.until == made.before.revoked_at == clock.now()
    assert made.key.revoked_at is None


def test_a_key_that_expires_before_its_grace_is_over_does_so(keys: Keys, clock: FakeClock) -> None:
    end = clock.now() + 60
    row, _ = keys.create("k", {"inference"}, end)
    made = keys.rotate(row.id)
    assert made.until == made.before.expires_at == made.key.expires_at == end
    again = keys.rotate(made.key.id, grace=10, expires_at=clock.now() + 999)
    assert (again.until, again.key.expires_at) == (clock.now() + 10, clock.now() + 999)


def test_a_key_is_rotated_once_and_only_while_it_lives(keys: Keys, clock: FakeClock) -> None:
    row, _ = keys.create("k", {"inference"})
    made = keys.rotate(row.id)
    with pytest.raises(Conflict) as caught:
        keys.rotate(row.id)
    assert made.key.id in caught.value.hint
    short, _ = keys.create("short", {"inference"}, clock.now() + 1)
    clock.advance(1)
    with pytest.raises(Conflict, match="expired"):
        keys.rotate(short.id)
    keys.revoke(made.key.id)
    with pytest.raises(Conflict, match="revoked"):
        keys.rotate(made.key.id)
    for grace in (-1, float("nan"), float("inf")):
        with pytest.raises(BadRequest, match="grace"):
            keys.rotate(row.id, grace=grace)
    assert len(keys.list()) == 3


def test_the_key_of_a_disabled_operator_is_no_admin_key(keys: Keys, users: Users) -> None:
    ada = users.create("ada", role="owner").id
    users.create("bob", role="owner")
    keys.create("ada", {"admin"}, user=ada)
    assert keys.first_admin() is None
    users.change(ada, disabled=True)
    assert keys.first_admin() is not None


def test_each_change_is_told_once_it_is_there(keys: Keys, clock: FakeClock) -> None:
    told: list[list[str]] = []
    telling = Keys(keys._engine, clock, changed=lambda: told.append([f"{row.name}{row.revision}" for row in keys.list()]))
    row, _ = telling.create("k", {"inference"})
    telling.change(row.id, name="l")
    telling.revoke(row.id)
    with pytest.raises(Conflict):
        telling.revoke(row.id)
    assert told == [["k1"], ["l2"], ["l3"]]
