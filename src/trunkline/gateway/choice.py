"""Which of a provider's credentials a call goes out with. Pure, but for the draw.

The most specific owner's: the caller's own, else its account's, else the installation's, to which the configuration adds one. Among
those one is drawn by weight that does not rest.
"""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from trunkline.base.secret import Secret
from trunkline.errors import NoCredential
from trunkline.model.caller import Caller
from trunkline.model.credential import FILE, INSTALLATION, Credential, Owner
from trunkline.model.target import Target
from trunkline.providers import Provider


class Wallet(Protocol):
    """The stored credentials, in memory."""

    def of(self, provider: str) -> Mapping[Owner, tuple[Credential, ...]]:
        """A provider's, by whose they are; an empty tuple where an owner's cannot be used."""
        ...


class Choice:
    """The credentials that calls may go out with.

    Args:
        wallet: the stored ones.
        providers: to which the configuration may have given one.
        rest: for how many seconds more a credential is to be left alone at a target.
        draw: a number from 0 up to 1.
    """

    def __init__(
        self,
        *,
        wallet: Wallet,
        providers: Mapping[str, Provider],
        rest: Callable[[Credential, Target], float],
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._wallet = wallet
        self._rest = rest
        self._files = {
            name: (Credential(id=FILE, weight=1, secret=provider.api_key),)
            for name, provider in providers.items()
            if provider.api_key is not None
        }
        self._draw = draw

    def of(self, provider: Provider, caller: Caller) -> Sequence[Credential]:
        """Those of a provider that a caller's calls may go out with; none where it needs none."""
        if (held := self._wallet.of(provider.name)) and provider.base_url is not None:
            return owned(held, self._files.get(provider.name, ()), caller)
        return self._files.get(provider.name, ())

    def one(self, credentials: Sequence[Credential], target: Target, *, tried: Collection[Credential] = ()) -> Credential | None:
        """One of them for a target, as `pick` says."""
        if len(credentials) < 2:
            return credentials[0] if credentials and not tried else None
        return pick(credentials, lambda each: self._rest(each, target), self._draw, tried=tried)

    def own(self, provider: Provider) -> Secret | None:
        """What the installation itself calls a provider with, for calls that are nobody's; `None` where the provider needs nothing.

        Raises:
            NoCredential: it needs one, and there is none.
        """
        held = self._wallet.of(provider.name).get(INSTALLATION, ())
        found = self.one((*held, *self._files.get(provider.name, ())), Target(provider.name, ""))
        if found is None and provider.kind.key_required:
            raise self._none(provider)
        return None if found is None else found.secret

    def missing(self, provider: Provider, caller: Caller) -> NoCredential | None:
        """What is told where `of` has none, and the provider cannot be called without."""
        if (held := self._wallet.of(provider.name)) and any(owner in held for owner in _owners(caller)):
            return NoCredential(
                f"the credentials of the provider `{provider.name}` cannot be opened",
                hint="The operator asks `trunkline vault status` why.",
            )
        return self._none(provider) if provider.kind.key_required else None

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
