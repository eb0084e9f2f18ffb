import pytest
from sqlalchemy import Engine, event, text

from tests.fakes.clock import FakeClock
from tests.fakes.people import holder, operator
from trunkline.access.accounts import Accounts
from trunkline.access.keys import Keys
from trunkline.access.users import BATCH, Users
from trunkline.errors import BadRequest, Conflict, Denied, NotFound, PreconditionFailed
from trunkline.model.caller import Role
from trunkline.store.engine import reading


@pytest.fixture
def acme(accounts: Accounts) -> str:
    return accounts.create("acme").id


def test_a_new_user_is_a_member_of_the_operators_account_unless_it_is_said(users: Users, acme: str, clock: FakeClock) -> None:
    row = users.create("ada")
    assert row.id.startswith("usr_")
    assert (row.account, row.role, row.external_id, row.created_at, row.revision) == ("acc_default", "member", None, clock.now(), 1)
    row = users.create("ada", account=acme, role="owner", external_id="u-1")
    assert (row.account, row.role, row.external_id) == (acme, "owner", "u-1")
    assert users.get(row.id) == row


@pytest.mark.parametrize("label", ["ada", "u-1", "id"])
def test_a_user_is_found_by_whatever_names_them_in_their_account(users: Users, acme: str, label: str) -> None:
    row = users.create("ada", account=acme, external_id="u-1")
    wanted = row.id if label == "id" else label
    assert users.named(wanted, account=acme) == row
    with pytest.raises(NotFound):
        users.named(wanted, account="acc_default")
    users.create("ada", account=acme)
    if label == "ada":
        with pytest.raises(Conflict, match="2 users") as caught:
            users.named("ada", account=acme)
        assert row.id in caught.value.hint


def test_values_that_are_none_are_refused(users: Users) -> None:
    user = users.create("ada").id
    for name in ("", "two\nlines", "x" * 101, "usr_me"):
        with pytest.raises(BadRequest):
            users.create(name)
        with pytest.raises(BadRequest):
            users.change(user, name=name)
    for external_id in ("", " ", "x" * 201, "a\nb", "\x00"):
        with pytest.raises(BadRequest, match="external_id"):
            users.create("ada", external_id=external_id)
        with pytest.raises(BadRequest, match="external_id"):
            users.change(user, external_id=external_id)
    with pytest.raises(NotFound, match="acc_nobody"):
        users.create("ada", account="acc_nobody")
    assert [row.id for row in users.list()] == [user]


def test_an_external_id_is_one_user_s_in_an_account(users: Users, acme: str) -> None:
    first, second = users.create("a", external_id="u1"), users.create("b", external_id="u2")
    assert users.create("c", account=acme, external_id="u1").external_id == "u1", "another account calls somebody else so"
    with pytest.raises(Conflict, match="`u1`"):
        users.create("d", external_id="u1")
    with pytest.raises(Conflict, match="`u1`"):
        users.change(second.id, external_id="u1")
    assert users.change(first.id, external_id="u1").external_id == "u1"
    assert users.change(first.id, external_id=None).external_id is None
    assert users.change(second.id, external_id="u1").external_id == "u1"


def test_a_change_is_a_revision_and_what_is_not_said_stays(users: Users, clock: FakeClock) -> None:
    row = users.create("ada", external_id="u1")
    clock.advance(1)
    changed = users.change(row.id, role="admin", disabled=True, revision=1)
    assert (changed.name, changed.external_id, changed.role, changed.disabled_at, changed.revision) == (
        "ada",
        "u1",
        "admin",
        clock.now(),
        2,
    )
    with pytest.raises(PreconditionFailed):
        users.change(row.id, name="eve", revision=1)
    with pytest.raises(PreconditionFailed):
        users.delete(row.id, revision=1)
    assert users.get(row.id) == changed


def test_users_come_in_pages_of_one_account_or_of_all(users: Users, acme: str, clock: FakeClock) -> None:
    made = []
    for name in "abcde":
        clock.advance(1)
        made.append(users.create(name, account=acme if name in "bd" else "acc_default").id)
    assert [row.id for row in users.list()] == made
    assert [row.name for row in users.list(account=acme)] == ["b", "d"]
    assert [row.id for row in users.list(after=made[1], limit=2)] == made[2:4]
    with pytest.raises(NotFound):
        users.list(account="acc_nobody")


def test_a_deleted_user_is_forgotten_and_their_keys_are_revoked(users: Users, keys: Keys, engine: Engine) -> None:
    user = users.create("ada lovelace", external_id="u-canary").id
    theirs, _ = keys.create("laptop", {"inference"}, user=user)
    others, _ = keys.create("laptop", {"inference"})
    users.delete(user)
    with pytest.raises(NotFound):
        users.get(user)
    assert users.list() == []
    assert [keys.get(each.id).revoked_at is None for each in (theirs, others)] == [False, True]
    with reading(engine) as connection:
        kept = repr(connection.execute(text("SELECT * FROM users")).all())
    assert user in kept
    assert "lovelace" not in kept
    assert "canary" not in kept
    users.create("ada", external_id="u-canary")


@pytest.mark.parametrize("how", ["demote", "disable", "delete"])
def test_an_account_keeps_its_last_owner(users: Users, acme: str, how: str) -> None:
    first = users.create("a", account=acme, role="owner").id
    users.create("b", account=acme, role="admin")
    users.create("c", role="owner")  # of another account

    def end(user: str) -> None:
        match how:
            case "demote":
                users.change(user, role="admin")
            case "disable":
                users.change(user, disabled=True)
            case _:
                users.delete(user)

    with pytest.raises(Conflict, match="last owner"):
        end(first)
    disabled = users.create("d", account=acme, role="owner").id
    users.change(disabled, disabled=True)
    with pytest.raises(Conflict, match="last owner"):
        end(first)
    users.change(disabled, disabled=False)
    end(first)
    with pytest.raises(Conflict, match="last owner"):
        end(disabled)


RANKS: list[Role] = ["owner", "admin", "member", "service"]


@pytest.mark.parametrize("by", RANKS)
@pytest.mark.parametrize("role", RANKS)
def test_nobody_gives_a_role_above_their_own_or_touches_who_has_one(users: Users, acme: str, by: Role, role: Role) -> None:
    users.create("keeper", account=acme, role="owner")
    somebody = users.create("x", account=acme, role=role).id
    may = by == "owner" or (by == "admin" and role != "owner")
    me = holder(acme, by)
    for change in (
        lambda: users.create("y", account=acme, role=role, by=me),
        lambda: users.change(somebody, name="z", by=me),
        lambda: users.change(users.create("w", account=acme).id, role=role, by=me),
        lambda: users.delete(somebody, by=me),
    ):
        if may:
            change()
        else:
            with pytest.raises(Denied):
                change()


def test_nobody_learns_of_users_of_another_account(users: Users, acme: str) -> None:
    theirs, mine = users.create("a").id, users.create("b", account=acme).id
    me = holder(acme, "owner")
    assert [row.id for row in users.list(by=me)] == [mine]
    for look in (
        lambda: users.get(theirs, by=me),
        lambda: users.list(account="acc_default", by=me),
        lambda: users.create("c", account="acc_default", by=me),
        lambda: users.change(theirs, name="x", by=me),
        lambda: users.delete(theirs, by=me),
    ):
        with pytest.raises(NotFound):
            look()
    assert users.get(theirs, by=operator()).name == "a"


def test_end_users_are_made_once(users: Users, acme: str) -> None:
    known = users.create("ada", external_id="u1").id
    users.ensure([("acc_default", "u1"), ("acc_default", "u2"), (acme, "u1")])
    users.ensure([("acc_default", "u2")])
    assert {(row.account, row.external_id, row.role) for row in users.list() if row.id != known} == {
        ("acc_default", "u2", "member"),
        (acme, "u1", "member"),
    }
    assert len(users.list()) == 3


def test_many_new_end_users_take_few_statements_and_let_other_writers_in(users: Users, accounts: Accounts, engine: Engine) -> None:
    account, gone = accounts.create("shop").id, accounts.create("closed").id
    accounts.delete(gone)
    statements: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda _connection, _cursor, statement, *_: statements.append(statement))
    wanted = [(account, f"u-{number}") for number in range(2 * BATCH + 1)]
    users.ensure([*wanted, (gone, "u-0")])
    assert sum(statement.startswith("INSERT") for statement in statements) == 3
    assert len(statements) < 30
    users.ensure(wanted)
    assert sorted((row.account, row.external_id, row.role) for row in users.list()) == sorted((*one, "member") for one in wanted)
