"""Renews credentials, each refresh token once (daemon contract, E4)."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from trunkline_sdk.daemon.messages import Record
from trunkline_sdk.daemon.tokenstore.errors import (
    Conflict,
    IdentityChanged,
    InvalidRefresh,
    LeaseTimeout,
    NoRefreshToken,
    NotFound,
    Revoked,
    is_terminal,
)
from trunkline_sdk.daemon.tokenstore.memory import copied
from trunkline_sdk.daemon.tokenstore.store import Lease, Store

Refresh = Callable[[Record], Awaitable[Record]]
"""Asks the provider for new tokens. An error whose `terminal` is true says that the refresh token is void."""

SKEW = 60.0
"""Seconds before its expiry at which an access token is not used any more."""

LEASE_WAIT = 90.0
"""Seconds to wait for somebody else's refresh; longer than a refresh can take."""


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - the SDK has no clock of its own; whoever has one gives it


class Coordinator:
    """Gives usable records out of a store.

    Args:
        store: where they are kept; its leases are what makes a refresh happen once.
        refresh: asks the provider.
        skew: seconds, not negative.
        lease_wait: seconds, positive.
        now: the time, with its zone.
    """

    def __init__(
        self, store: Store, refresh: Refresh, *, skew: float = SKEW, lease_wait: float = LEASE_WAIT, now: Callable[[], datetime] = _now
    ) -> None:
        if skew < 0:
            raise ValueError(f"skew is a number of seconds, not negative; it is {skew}")
        if lease_wait <= 0:
            raise ValueError(f"lease_wait is a positive number of seconds; it is {lease_wait}")
        self._store = store
        self._refresh = refresh
        self._skew = timedelta(seconds=skew)
        self._lease_wait = lease_wait
        self._now = now

    async def token(self, key: str) -> Record:
        """The record, refreshed if its access token is missing or about to expire.

        Raises:
            NotFound: there is none.
            TokenError: it cannot be renewed.
            Exception: what `refresh` raises when that is not terminal; the record stays as it is.
        """
        current = await self._store.load(key)
        if self._usable(current):
            return current
        async with await self._lease(key):
            current = await self._store.load(key)
            if self._usable(current):
                return current
            return await self._renew(key, current)

    async def rejected(self, key: str, rejected: Record) -> Record:
        """A record in the place of one that an upstream refused with 401: somebody else's newer one, or a refreshed one.

        Raises:
            Exception: as `token`.
        """
        async with await self._lease(key):
            current = await self._store.load(key)
            if current.revision != rejected.revision and self._usable(current):
                return current
            return await self._renew(key, current)

    def _usable(self, record: Record) -> bool:
        return bool(record.access_token.strip()) and (record.expiry is None or self._now() + self._skew < record.expiry)

    async def _lease(self, key: str) -> Lease:
        bound = asyncio.timeout(self._lease_wait)
        try:
            async with bound:
                return await self._store.lease(key)
        except TimeoutError:
            if not bound.expired():
                raise
            raise LeaseTimeout(f"another refresh of this credential has taken more than {self._lease_wait:g} s") from None

    async def _renew(self, key: str, current: Record) -> Record:
        """Refresh and keep what came; the lease is held."""
        if not current.refresh_token.strip():
            raise NoRefreshToken("the credential has no refresh token: its owner has to sign in again")
        try:
            refreshed = await self._refresh(copied(current))
        except Exception as error:
            if not is_terminal(error):
                raise
            with suppress(Conflict, NotFound):
                await self._store.revoke_if_current(key, current.revision)
            raise Revoked("the provider has revoked the credential: its owner has to sign in again") from error
        if not refreshed.access_token.strip():
            raise InvalidRefresh("the refresh gave no access token")
        if current.account_id and refreshed.account_id and current.account_id != refreshed.account_id:
            raise IdentityChanged("the refresh gave the tokens of another account")
        try:
            return await self._store.replace_if_current(key, current.revision, merged(current, refreshed))
        except Conflict:
            latest = await self._latest(key)
            if latest is not None and self._usable(latest):
                return latest
            raise

    async def _latest(self, key: str) -> Record | None:
        with suppress(NotFound):
            return await self._store.load(key)
        return None


def merged(current: Record, refreshed: Record) -> Record:
    """What a refresh gave, completed by what it left out. The expiry is the refreshed one: unset is no expiry."""
    return replace(
        refreshed,
        revision="",
        refresh_token=refreshed.refresh_token or current.refresh_token,
        id_token=refreshed.id_token or current.id_token,
        token_type=refreshed.token_type or current.token_type,
        account_id=refreshed.account_id or current.account_id,
        metadata={**current.metadata, **refreshed.metadata},
    )
