from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.wallet import Wallet, credential
from trunkline.base.secret import Secret
from trunkline.gateway.choice import Choice, at_home, drawn, owned, pick, stored_id
from trunkline.model.caller import Caller
from trunkline.model.credential import FILE, INSTALLATION, Credential, Owner
from trunkline.model.target import Target
from trunkline.providers import Provider, Served, Settings
from trunkline.providers.compatible import PROVIDER as COMPATIBLE
from trunkline.providers.openai import PROVIDER as OPENAI

ACCOUNTS, USERS = ["acc_a", "acc_b"], ["usr_a", "usr_b"]
NUMBERS = st.floats(0, 1, exclude_max=True)
CREDENTIALS = st.lists(st.integers(1, 1000), min_size=1, max_size=6).map(
    lambda weights: tuple(credential(f"c{number}", weight=weight) for number, weight in enumerate(weights))
)
OWNERS = st.builds(Owner, st.sampled_from(ACCOUNTS), st.sampled_from(["", *USERS])) | st.just(INSTALLATION)
HELD = st.dictionaries(OWNERS, CREDENTIALS)
CALLERS = st.builds(lambda account, user: caller(account, user), st.sampled_from(ACCOUNTS), st.sampled_from(USERS) | st.none())


def caller(account: str = "acc_a", user: str | None = None) -> Caller:
    return Caller(id="key_a", kind="service", name="ann", scopes=frozenset({"inference"}), account=account, user=user)


def file(secret: str = "canary-file") -> Credential:
    return Credential(id=FILE, weight=1, secret=Secret(secret))


def provider(name: str = "up", *, key: str | None = None, needs: bool = True) -> Provider:
    kind = OPENAI if needs else COMPATIBLE
    return Provider(
        name=name, kind=kind, settings=Settings(kind="x"), base_url="http://up.test", api_key=Secret(key) if key is not None else None
    )


def choice(wallet: Wallet, *providers: Provider, rests: Mapping[Credential, float] | None = None) -> Choice:
    return Choice(
        wallet=wallet,
        providers={each.name: each for each in providers},
        rest=lambda each, target: (rests or {}).get(each, 0.0),
        link="https://gw.test/connect/{}".format,
        draw=lambda: 0.0,
    )


# ------------------------------------------------------------------------------------------------------------------ whose
@given(HELD, CALLERS, st.booleans())
@pytest.mark.proves("credentials.choice")
def test_the_most_specific_owner_wins_and_nobody_elses_is_ever_used(
    held: dict[Owner, tuple[Credential, ...]], who: Caller, with_file: bool
) -> None:
    configured = (file(),) if with_file else ()
    own = held.get(Owner(who.account, who.user)) if who.user else None
    expected = own or held.get(Owner(who.account)) or (*held.get(INSTALLATION, ()), *configured)
    assert tuple(owned(held, configured, who)) == expected


@pytest.mark.proves("credentials.choice")
def test_a_caller_without_a_user_never_gets_a_users() -> None:
    assert owned({Owner("acc_a", "usr_a"): (credential("one"),)}, (), caller("acc_a")) == ()


@pytest.mark.proves("credentials.choice")
def test_who_has_one_that_does_not_open_does_not_use_another_ones() -> None:
    shared = credential("shared")
    held = {Owner("acc_a"): (), INSTALLATION: (shared,)}
    assert owned(held, (file(),), caller("acc_a")) == ()
    assert owned(held, (), caller("acc_b")) == (shared,)
    configured = file()
    assert owned({INSTALLATION: ()}, (configured,), caller()) == (configured,)


# ------------------------------------------------------------------------------------------------------------------ which
@given(CREDENTIALS, NUMBERS)
def test_each_takes_up_as_much_of_the_line_as_it_weighs(credentials: Sequence[Credential], number: float) -> None:
    at = number * sum(each.weight for each in credentials)
    before = 0.0
    one = drawn(credentials, number)
    for each in credentials:
        if each is one:
            break
        before += each.weight
    assert before - 1e-9 <= at <= before + one.weight + 1e-9


def test_shares_are_as_the_weights_are() -> None:
    light, heavy = credential("light", weight=1), credential("heavy", weight=3)
    taken = [drawn((light, heavy), number / 1000) for number in range(1000)]
    assert (taken.count(light), taken.count(heavy)) == (250, 750)


@given(CREDENTIALS, st.data())
@pytest.mark.proves("credentials.rest")
def test_one_that_rests_or_was_tried_is_not_taken_while_another_could_be(credentials: Sequence[Credential], data: st.DataObject) -> None:
    rests = {each: data.draw(st.sampled_from([0.0, 0.0, 5.0, 90.0])) for each in credentials}
    tried = data.draw(st.lists(st.sampled_from(credentials), unique=True))
    taken = pick(credentials, rests.__getitem__, lambda: data.draw(NUMBERS), tried=tried)
    free = [each for each in credentials if rests[each] == 0 and each not in tried]
    if free and (len(credentials) > 1 or not tried):
        assert taken in free
    elif tried:
        assert taken is None
    else:
        assert taken is not None
        assert rests[taken] == min(rests.values())


def test_of_none_there_is_none() -> None:
    assert pick((), lambda _: 0.0, lambda: 0.0) is None


# ----------------------------------------------------------------------------------------------------------------- choice
def test_the_configuration_s_is_one_of_the_installations() -> None:
    wallet, up = Wallet(), provider(key="canary-file")
    assert [each.id for each in choice(wallet, up).of(up, caller())] == ["file"]
    stored = credential("stored", weight=4)
    wallet.put("up", stored)
    assert [(each.id, each.weight) for each in choice(wallet, up).of(up, caller())] == [("cred_stored", 4), ("file", 1)]
    wallet.put("up", credential("mine"), owner=Owner("acc_a"))
    assert [each.id for each in choice(wallet, up).of(up, caller())] == ["cred_mine"]


def test_the_configuration_s_is_the_same_object_for_every_call() -> None:
    up = provider(key="canary-file")
    chosen = choice(Wallet(), up)
    assert chosen.of(up, caller())[0] is chosen.of(up, caller())[0]


def test_a_provider_that_is_called_nowhere_is_sent_none() -> None:
    wallet, here = Wallet(), Provider(name="up", kind=OPENAI, settings=Settings(kind="x"), base_url=None, api_key=None)
    wallet.put("up", credential("stored"))
    assert choice(wallet, here).of(here, caller()) == ()


def test_what_rests_at_a_target_is_asked_for_that_target() -> None:
    one, other = credential("one"), credential("other")
    asked: list[Target] = []

    def rest(each: Credential, target: Target) -> float:
        asked.append(target)
        return 1.0 if each is one else 0.0

    chosen = Choice(wallet=Wallet(), providers={}, rest=rest, link=str, draw=lambda: 0.0)
    assert chosen.one((one, other), Target("up", "m")) is other
    assert set(asked) == {Target("up", "m")}
    assert chosen.one((one, other), Target("up", "m"), tried=[other]) is None


def test_where_there_is_none_the_way_out_is_told() -> None:
    wallet, up, open_one = Wallet(), provider(), provider("home", needs=False)
    chosen = choice(wallet, up, open_one)
    missing = chosen.missing(up, caller())
    assert missing is not None
    assert "`up` has no credential" in missing.message
    assert "trunkline credentials add up" in missing.hint
    assert "`providers.up.api_key`" in missing.hint
    assert chosen.missing(open_one, caller()) is None
    for each in ("up", "home"):
        wallet.put(each, owner=Owner("acc_a"))
    for each in (up, open_one):
        locked = chosen.missing(each, caller("acc_a"))
        assert locked is not None
        assert "trunkline vault status" in locked.hint
    assert chosen.missing(open_one, caller("acc_b")) is None


# ------------------------------------------------------------------------------------------------------------------- kept
def test_what_is_kept_is_seen_with_the_credential_that_made_it() -> None:
    one, other, configured = credential("one"), credential("other"), file()
    assert at_home((one, other, configured), "cred_other") == [other]
    assert at_home((one, other, configured), "") == [configured]
    assert at_home((one, other), "") == (one, other)
    assert at_home((one, other), "cred_gone") == []


def test_only_a_stored_one_has_an_id_to_tell() -> None:
    assert (stored_id(credential("one")), stored_id(file()), stored_id(None)) == ("cred_one", "", "")


# ---------------------------------------------------------------------------------------------------------------- daemons
def test_what_a_daemon_serves_to_anybody_is_told_no_credential_and_else_the_installations_own() -> None:
    wallet = Wallet()
    paid, free = (
        replace(provider(name, needs=False), served=Served(daemon="x", id=name[2:], credential=kind))
        for name, kind in (("x/paid", "token"), ("x/free", "none"))
    )
    chosen = choice(wallet, paid, free)
    assert (chosen.own(paid), chosen.ids(paid)) == (None, [])
    for each in (paid, free):
        wallet.put(each.name, credential("b"), credential("a"))
        wallet.put(each.name, credential("theirs"), owner=Owner("acc_a"))
    own = chosen.own(paid)
    assert own is not None
    assert own.id in {"cred_a", "cred_b"}
    assert chosen.ids(paid) == ["cred_a", "cred_b"]
    assert chosen.own(free) is None
    assert chosen.of(free, caller("acc_a")) == ()
