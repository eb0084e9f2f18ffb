from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, select

from tests.fakes.clock import FakeClock
from tests.fakes.people import settle
from trunkline.access.accounts import Accounts
from trunkline.access.credentials import HINTED, CredentialRow, Credentials
from trunkline.access.key_sources import FileSource
from trunkline.access.users import Users
from trunkline.access.vault import Vault
from trunkline.base.secret import Secret
from trunkline.errors import BadRequest, Conflict, NotFound, PreconditionFailed, TrunklineError
from trunkline.store.engine import reading
from trunkline.store.tables.credentials import TABLE

CANARY = "sk-canary/0123456789+abcdef="


class Changes:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


@pytest.fixture
def changes() -> Changes:
    return Changes()


@pytest.fixture
def vault(engine: Engine, tmp_path: Path) -> Vault:
    return Vault(engine, FileSource(tmp_path / "vault.key"))


@pytest.fixture
def credentials(engine: Engine, vault: Vault, clock: FakeClock, changes: Changes) -> Credentials:
    settle(engine, acc_a=["usr_a"], acc_b=[])
    return Credentials(engine, vault, clock, providers=lambda: ["openai", "anthropic"], changed=changes)


def secret_of(engine: Engine, vault: Vault, wanted: str) -> str:
    with reading(engine) as connection:
        row = connection.execute(select(TABLE).where(TABLE.c.id == wanted)).mappings().one()
    return vault.open(TABLE, row).reveal()


def test_a_new_credential_is_told_without_its_secret(
    credentials: Credentials, engine: Engine, vault: Vault, clock: FakeClock, changes: Changes
) -> None:
    row = credentials.create(provider="openai", secret=Secret(CANARY), name="team", weight=3, account="acc_a", user="usr_a")
    assert row == CredentialRow(
        id=row.id,
        provider="openai",
        name="team",
        weight=3,
        account="acc_a",
        user="usr_a",
        enabled=True,
        hint="def=",
        created_at=clock.now(),
        updated_at=clock.now(),
        revision=1,
    )
    assert row.id.startswith("cred_")
    assert "canary" not in repr(row)
    assert credentials.get(row.id) == row
    assert secret_of(engine, vault, row.id) == CANARY
    assert changes.count == 1


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=6, max_size=60))
def test_a_hint_is_the_end_of_a_long_secret_and_nothing_of_a_short_one(secret: str) -> None:
    from trunkline.access.credentials import _hint

    assert _hint(Secret(secret)) == (secret[-4:] if len(secret) >= HINTED else "")


@pytest.mark.parametrize(
    ("given_", "kind", "says"),
    [
        ({"provider": ""}, BadRequest, "`provider`"),
        ({"provider": "opneai"}, NotFound, "`opneai`"),
        ({"secret": Secret("short")}, BadRequest, "`secret`"),
        ({"secret": Secret("x" * 8193)}, BadRequest, "`secret`"),
        ({"secret": Secret("canary\ncanary")}, BadRequest, "`secret`"),
        ({"secret": Secret(" canary-1")}, BadRequest, "`secret`"),
        ({"secret": Secret("canary-é")}, BadRequest, "`secret`"),
        ({"name": " "}, BadRequest, "`name`"),
        ({"name": "a\nb"}, BadRequest, "`name`"),
        ({"name": "x" * 101}, BadRequest, "`name`"),
        ({"name": "file"}, BadRequest, "`name`"),
        ({"weight": 0}, BadRequest, "`weight` is 0"),
        ({"weight": 1001}, BadRequest, "`weight` is 1001"),
        ({"user": "usr_a"}, BadRequest, "`account`"),
    ],
)
def test_what_cannot_be_is_refused_by_its_field_and_nothing_is_kept(
    credentials: Credentials, changes: Changes, given_: dict[str, object], kind: type[TrunklineError], says: str
) -> None:
    fields = {"provider": "openai", "secret": Secret(CANARY), **given_}
    with pytest.raises(kind) as caught:
        credentials.create(**fields)
    assert says in caught.value.sentence
    assert "canary" not in caught.value.sentence
    assert (credentials.list(), changes.count) == ([], 0)


def test_a_wrong_name_of_a_provider_gets_the_nearest(credentials: Credentials) -> None:
    with pytest.raises(NotFound) as caught:
        credentials.create(provider="antropic", secret=Secret(CANARY))
    assert "`anthropic`" in caught.value.hint


def test_one_owner_has_one_of_a_name_for_a_provider(credentials: Credentials) -> None:
    owners = [{}, {"account": "acc_a"}, {"account": "acc_b"}, {"account": "acc_a", "user": "usr_a"}]
    for provider in ("openai", "anthropic"):
        for owner in owners:
            credentials.create(provider=provider, secret=Secret(CANARY), name="one", **owner)
    for owner in owners:
        with pytest.raises(Conflict, match="`one`"):
            credentials.create(provider="openai", secret=Secret(CANARY), name="one", **owner)
    credentials.create(provider="openai", secret=Secret(CANARY), name="file", account="acc_a")


def test_credentials_are_listed_oldest_first_by_page_and_owner(credentials: Credentials, clock: FakeClock) -> None:
    made: list[str] = []
    for number in range(5):
        clock.advance(1)
        account = "acc_a" if number % 2 else None
        provider = "openai" if number < 3 else "anthropic"
        made.append(credentials.create(provider=provider, name=str(number), secret=Secret(CANARY), account=account).id)
    assert [row.id for row in credentials.list()] == made
    assert [row.id for row in credentials.list(after=made[1], limit=2)] == made[2:4]
    assert [row.id for row in credentials.list(account="acc_a")] == [made[1], made[3]]
    assert [row.id for row in credentials.list(provider="anthropic")] == made[3:]


@pytest.mark.parametrize(
    ("changed", "after"),
    [({"weight": 7}, CANARY), ({"enabled": False}, CANARY), ({"name": "new"}, CANARY), ({"secret": "x" * 24}, "x" * 24)],
)
def test_a_change_leaves_the_rest_alone(
    credentials: Credentials, engine: Engine, vault: Vault, clock: FakeClock, changed: dict[str, object], after: str
) -> None:
    before = credentials.create(provider="openai", secret=Secret(CANARY), weight=2)
    clock.advance(5)
    given_ = {name: Secret(value) if name == "secret" else value for name, value in changed.items()}
    row = credentials.change(before.id, revision=1, **given_)
    assert (row.revision, row.created_at, row.updated_at) == (2, before.created_at, clock.now())
    assert credentials.get(before.id) == row
    same = {"provider", "name", "weight", "enabled"} - set(changed)
    assert {name: getattr(row, name) for name in same} == {name: getattr(before, name) for name in same}
    assert secret_of(engine, vault, before.id) == after
    assert row.hint == after[-4:]


def test_a_change_of_nothing_is_no_change(credentials: Credentials) -> None:
    row = credentials.create(provider="openai", secret=Secret(CANARY))
    assert credentials.change(row.id, enabled=True, weight=1) == row


def test_a_change_or_removal_that_is_meant_for_another_revision_is_refused(credentials: Credentials) -> None:
    row = credentials.create(provider="openai", secret=Secret(CANARY))
    credentials.change(row.id, weight=2)
    for act in (lambda: credentials.change(row.id, revision=1, weight=3), lambda: credentials.delete(row.id, revision=1)):
        with pytest.raises(PreconditionFailed, match="revision is 2, not 1"):
            act()
    assert credentials.get(row.id).weight == 2


def test_a_change_cannot_make_what_could_not_be_created(credentials: Credentials) -> None:
    one = credentials.create(provider="openai", secret=Secret(CANARY), name="one")
    credentials.create(provider="openai", secret=Secret(CANARY), name="two")
    for given_, kind in (
        ({"name": "two"}, Conflict),
        ({"name": ""}, BadRequest),
        ({"weight": -1}, BadRequest),
        ({"secret": Secret("x")}, BadRequest),
    ):
        with pytest.raises(kind):
            credentials.change(one.id, **given_)
    assert credentials.get(one.id) == one


def test_what_is_removed_is_gone(credentials: Credentials, changes: Changes) -> None:
    row = credentials.create(provider="openai", secret=Secret(CANARY))
    assert credentials.delete(row.id, revision=1) == row
    assert changes.count == 2
    for act in (credentials.get, credentials.delete, credentials.change):
        with pytest.raises(NotFound, match=row.id):
            act(row.id)


@pytest.mark.parametrize(
    ("account", "user", "words"),
    [
        ("acc_z", None, "there is no account `acc_z`"),
        ("acc_a", "usr_z", "there is no user `usr_z` in the account `acc_a`"),
        ("acc_b", "usr_a", "there is no user `usr_a` in the account `acc_b`"),
    ],
)
def test_nothing_is_kept_for_nobody(credentials: Credentials, account: str, user: str | None, words: str) -> None:
    with pytest.raises(NotFound, match=words):
        credentials.create(provider="openai", secret=Secret(CANARY), account=account, user=user)
    assert credentials.list() == []


def test_a_deleted_owners_are_gone(credentials: Credentials, engine: Engine, clock: FakeClock) -> None:
    settle(engine, acc_d=["usr_d", "usr_e"])
    for account, user in (("acc_d", "usr_d"), ("acc_d", "usr_e"), ("acc_d", None), (None, None)):
        credentials.create(provider="openai", secret=Secret(CANARY), account=account, user=user)
    Users(engine, clock).delete("usr_d")
    assert {row.user for row in credentials.list(account="acc_d")} == {None, "usr_e"}
    Accounts(engine, clock).delete("acc_d")
    assert [row.account for row in credentials.list()] == [None]
