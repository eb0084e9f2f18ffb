import pytest

from tests.fakes.clock import FakeClock
from tests.fakes.people import holder, operator
from trunkline.access.accounts import Accounts
from trunkline.access.keys import Keys
from trunkline.access.users import Users
from trunkline.errors import BadRequest, Conflict, Denied, NotFound, PreconditionFailed


def test_the_operators_account_is_there_from_the_start(accounts: Accounts) -> None:
    [row] = accounts.list()
    assert (row.id, row.name, row.revision, row.disabled_at) == ("acc_default", "default", 1, None)
    assert accounts.get("acc_default") == row


def test_a_new_account_is_found_by_id_and_name(accounts: Accounts, clock: FakeClock) -> None:
    row = accounts.create("acme")
    assert row.id.startswith("acc_")
    assert (row.created_at, row.updated_at, row.revision) == (clock.now(), clock.now(), 1)
    assert accounts.get(row.id) == accounts.named("acme") == accounts.named(row.id) == row


@pytest.mark.parametrize("name", ["", " ", "x" * 101, "two\nlines", "acc_me"])
def test_a_name_that_says_nothing_or_misleads_is_refused(accounts: Accounts, name: str) -> None:
    account = accounts.create("acme").id
    with pytest.raises(BadRequest):
        accounts.create(name)
    with pytest.raises(BadRequest):
        accounts.change(account, name=name)
    assert accounts.get(account).name == "acme"


def test_a_name_is_one_account_s(accounts: Accounts) -> None:
    acme, other = accounts.create("acme"), accounts.create("other")
    with pytest.raises(Conflict, match="`acme`"):
        accounts.create("acme")
    with pytest.raises(Conflict, match="`acme`"):
        accounts.change(other.id, name="acme")
    assert accounts.change(acme.id, name="acme").name == "acme"


def test_what_is_not_there_is_told_with_the_nearest(accounts: Accounts) -> None:
    accounts.create("acme")
    with pytest.raises(NotFound) as caught:
        accounts.named("acne")
    assert "`acme`" in caught.value.hint
    for missing in ("acc_nobody", "acme"):
        with pytest.raises(NotFound):
            accounts.get(missing)
        with pytest.raises(NotFound):
            accounts.change(missing, name="x")
        with pytest.raises(NotFound):
            accounts.delete(missing)


def test_a_change_is_a_revision_and_what_is_not_said_stays(accounts: Accounts, clock: FakeClock) -> None:
    row = accounts.create("acme")
    clock.advance(5)
    disabled = accounts.change(row.id, disabled=True, revision=1)
    assert (disabled.name, disabled.disabled_at, disabled.updated_at, disabled.revision) == ("acme", clock.now(), clock.now(), 2)
    clock.advance(5)
    renamed = accounts.change(row.id, name="ajax", revision=2)
    assert (renamed.name, renamed.disabled_at, renamed.revision) == ("ajax", disabled.disabled_at, 3)
    assert accounts.change(row.id, disabled=True).disabled_at == disabled.disabled_at, "it has been since then"
    assert accounts.change(row.id, disabled=False).disabled_at is None


def test_whoever_has_seen_an_older_revision_changes_nothing(accounts: Accounts) -> None:
    row = accounts.create("acme")
    accounts.change(row.id, name="ajax")
    for change in (lambda: accounts.change(row.id, revision=1, name="mine"), lambda: accounts.delete(row.id, revision=1)):
        with pytest.raises(PreconditionFailed, match="revision is 2, not 1"):
            change()
    assert accounts.get(row.id).name == "ajax"


def test_accounts_come_in_pages(accounts: Accounts, clock: FakeClock) -> None:
    made = []
    for name in "abcde":
        clock.advance(1)
        made.append(accounts.create(name).id)
    everything = [row.id for row in accounts.list()]
    assert [each for each in everything if each != "acc_default"] == made
    pages, after = [], None
    while page := accounts.list(after=after, limit=2):
        pages += [row.id for row in page]
        after = page[-1].id
    assert pages == everything
    for limit in (0, -1, 1001):
        with pytest.raises(BadRequest, match="limit"):
            accounts.list(limit=limit)


def test_a_deleted_account_is_gone_with_its_users_and_keys(accounts: Accounts, users: Users, keys: Keys) -> None:
    account = accounts.create("acme").id
    user = users.create("ada", account=account, role="owner", external_id="u1").id
    key, _ = keys.create("ci", {"inference"}, account=account)
    own, _ = keys.create("ci", {"inference"})
    accounts.delete(account)
    with pytest.raises(NotFound):
        accounts.get(account)
    with pytest.raises(NotFound):
        users.get(user)
    assert keys.get(key.id).revoked_at is not None
    assert keys.get(own.id).revoked_at is None
    assert accounts.create("acme").id != account, "the name is free again"


def test_the_operators_account_stays_and_stays_enabled(accounts: Accounts) -> None:
    with pytest.raises(Conflict, match="stays"):
        accounts.delete("acc_default")
    with pytest.raises(Conflict, match="stays"):
        accounts.change("acc_default", disabled=True)
    assert accounts.change("acc_default", name="ours").name == "ours"


def test_only_operators_make_disable_and_delete_accounts(accounts: Accounts) -> None:
    account = accounts.create("acme", by=operator()).id
    owner = holder(account, "owner")
    for change in (
        lambda: accounts.create("other", by=owner),
        lambda: accounts.change(account, disabled=True, by=owner),
        lambda: accounts.delete(account, by=owner),
    ):
        with pytest.raises(Denied, match="owner"):
            change()
    assert accounts.change(account, name="ajax", by=owner).name == "ajax"
    with pytest.raises(Denied, match="member"):
        accounts.change(account, name="mine", by=holder(account, "member"))
    accounts.delete(account, by=operator())


def test_nobody_learns_of_another_account(accounts: Accounts) -> None:
    mine, other = accounts.create("mine").id, accounts.create("other").id
    me = holder(mine, "owner")
    assert [row.id for row in accounts.list(by=me)] == [mine]
    assert accounts.get(mine, by=me).id == mine
    for look in (lambda: accounts.get(other, by=me), lambda: accounts.change(other, name="x", by=me)):
        with pytest.raises(NotFound):
            look()


def test_each_change_is_told_once_it_is_there(accounts: Accounts, clock: FakeClock) -> None:
    told = []
    telling = Accounts(
        accounts._engine, clock, changed=lambda: told.append([row.name for row in accounts.list() if row.id != "acc_default"])
    )
    account = telling.create("acme").id
    telling.change(account, name="ajax")
    telling.delete(account)
    with pytest.raises(NotFound):
        telling.delete(account)
    assert told == [["acme"], ["ajax"], []]
