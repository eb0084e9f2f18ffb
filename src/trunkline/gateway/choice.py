"""Which of a provider's credentials a call goes out with. Pure, but for the draw.

The most specific owner's: the caller's own, else its account's, else the installation's, to which the configuration adds one. Among
those one is drawn by weight that does not rest.
"""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from trunkline.errors import NoCredential, SignInNeeded
from trunkline.model.caller import Caller
from trunkline.model.credential import FILE, INSTALLATION, Credential, Owner
from trunkline.model.target import Target
from trunkline.providers import Provider


class Wallet(Protocol):
    """The stored credentials, in memory."""

    def of(self, provider: str) -> Mapping[Owner, tuple[Credential, ...]]:
        """A provider's, by whose they are; an empty tuple where an owner's cannot be used."""
        ...

    def ended(self, provider: str, owner: Owner) -> bool:
        """Whether that is because the provider refuses its sign-in for good."""
        ...


class Choice:
    """The credentials that calls may go out with.

    Args:
        wallet: the stored ones.
        providers: to which the configuration may have given one.
        rest: for how many seconds more a credential is to be left alone at a target.
        link: where a person signs in to a provider, by its name.
        draw: a number from 0 up to 1.
    """

    def __init__(
        self,
        *,
        wallet: Wallet,
        providers: Mapping[str, Provider],
        rest: Callable[[Credential, Target], float],
        link: Callable[[str], str],
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._wallet = wallet
        self._rest = rest
        self._files = {
            name: (Credential(id=FILE, weight=1, secret=provider.api_key),)
            for name, provider in providers.items()
            if provider.api_key is not None
        }
        self._link = link
        self._draw = draw

    def of(self, provider: Provider, caller: Caller) -> Sequence[Credential]:
        """Those of a provider that a caller's calls may go out with; none where it needs none."""
        if _keyless(provider):
            return ()
        if (held := self._wallet.of(provider.name)) and provider.base_url is not None:
            return owned(held, self._files.get(provider.name, ()), caller)
        return self._files.get(provider.name, ())

    def one(self, credentials: Sequence[Credential], target: Target, *, tried: Collection[Credential] = ()) -> Credential | None:
        """One of them for a target, as `pick` says."""
        if len(credentials) < 2:
            return credentials[0] if credentials and not tried else None
        return pick(credentials, lambda each: self._rest(each, target), self._draw, tried=tried)

    def own(self, provider: Provider) -> Credential | None:
        """What the installation itself calls a provider with, for calls that are nobody's; `None` where the provider needs nothing.

        Raises:
            NoCredential: it needs one, and there is none.
        """
        if _keyless(provider):
            return None
        held = self._wallet.of(provider.name).get(INSTALLATION, ())
        found = self.one((*held, *self._files.get(provider.name, ())), Target(provider.name, ""))
        if found is None and provider.kind.key_required:
            raise self._none(provider)
        return found

    def ids(self, provider: Provider) -> list[str]:
        """The ids of all that the installation itself may call a provider with, in one order."""
        held = self._wallet.of(provider.name).get(INSTALLATION, ())
        return sorted(each.id for each in (*held, *self._files.get(provider.name, ())))

    def missing(self, provider: Provider, caller: Caller) -> NoCredential | None:
        """What is told where `of` has none, and the provider cannot be called without."""
        if provider.served is not None and provider.served.credential == "none":
            return None
        held = self._wallet.of(provider.name)
        owner = next((each for each in _owners(caller) if each in held), None) if held else None
        if owner is not None and self._wallet.ended(provider.name, owner):
            return self._sign_in(provider)
        if owner is not None:
            return NoCredential(
                f"the credentials of the provider `{provider.name}` cannot be opened",
                hint="The operator asks `trunkline vault status` why.",
            )
        if provider.served is not None:
            return self._sign_in(provider) if provider.served.credential else None  # an older daemon does not say
        return self._none(provider) if provider.kind.key_required else None

    def _sign_in(self, provider: Provider) -> SignInNeeded:
        return SignInNeeded(
            f"the provider `{provider.name}` is called with a sign-in, and there is none that it accepts",
            hint=f"Sign in at {self._link(provider.name)}, or with `trunkline connect {provider.name}`.",
        )

    def _none(self, provider: Provider) -> NoCredential:
        return NoCredential(
            f"the provider `{provider.name}` has no credential",
            hint=f"The operator can add one with `trunkline credentials add {provider.name}`, "
            f"or set `providers.{provider.name}.api_key` to `env:NAME` or `file:PATH`.",
        )


def owned(held: Mapping[Owner, tuple[Credential, ...]], file: tuple[Credential, ...], caller: Caller) -> tuple[Credential, ...]:
    """The credentials of the most specific owner that has any. One whose cannot be used does not use another's.

    Args:
        held: the stored ones.
        file: the configuration's, which is the installation's too.
        caller: whose call it is.
    """
    for owner in _owners(caller):
        if (own := held.get(owner)) is not None:
            return own if owner.account else (*own, *file)
    return file


def _keyless(provider: Provider) -> bool:
    """Whether a daemon says that it has no use for a credential, so that it gets none to see."""
    return provider.served is not None and provider.served.credential == "none"


def _owners(caller: Caller) -> tuple[Owner, ...]:
    """Whose credentials a caller may use, the most specific first."""
    of_account = Owner(caller.account), INSTALLATION
    return of_account if caller.user is None else (Owner(caller.account, caller.user), *of_account)


def pick(
    credentials: Sequence[Credential],
    rest: Callable[[Credential], float],
    draw: Callable[[], float],
    *,
    tried: Collection[Credential] = (),
) -> Credential | None:
    """One that does not rest and was not tried, by weight. If all rest and none was tried, the one whose rest ends soonest.

    The latter because somebody has to find out whether it is well again.

    Args:
        credentials: of one owner.
        rest: for how many seconds more one is to be left alone.
        draw: a number from 0 up to 1.
        tried: in the same call.
    """
    if len(credentials) == 1 and not tried:  # as nearly always: there is nothing to choose
        return credentials[0]
    awake = [each for each in credentials if each not in tried and rest(each) == 0]
    if awake:
        return drawn(awake, draw())
    return None if tried else min(credentials, key=rest, default=None)


def drawn(credentials: Sequence[Credential], number: float) -> Credential:
    """The one at a number from 0 up to 1, where each takes up as much of the line as it weighs."""
    left = number * sum(each.weight for each in credentials)
    for each in credentials:
        left -= each.weight
        if left < 0:
            return each
    return credentials[-1]


def at_home(credentials: Sequence[Credential], wanted: str) -> Sequence[Credential]:
    """Those with which something is seen that is kept: the one that asked for it.

    Args:
        credentials: that the caller may use.
        wanted: a stored one's id; empty where it was the configuration's, which may be among the stored ones by now.
    """
    found = [each for each in credentials if each.id == (wanted or FILE)]
    return found if found or wanted else credentials


def stored_id(credential: Credential | None) -> str:
    """The id of a credential that is stored; empty for the configuration's, and for none."""
    return "" if credential is None or credential.id == FILE else credential.id
