"""Signed-in credentials: a store's contract, and a coordinator that renews them once (daemon contract, E3 and E4).

    coordinator = Coordinator(store, refresh)
    record = await coordinator.token(key)                  # usable now; refreshed if it was about to expire
    record = await coordinator.rejected(key, record)       # an upstream said 401 to it

Among all tasks, processes and machines on one store each refresh token is used once.
"""

from trunkline_sdk.daemon.tokenstore.coordinator import Coordinator, Refresh
from trunkline_sdk.daemon.tokenstore.errors import (
    BlankKey,
    Conflict,
    IdentityChanged,
    InvalidRefresh,
    LeaseTimeout,
    NoRefreshToken,
    NotFound,
    Revoked,
    TokenError,
    is_terminal,
)
from trunkline_sdk.daemon.tokenstore.memory import MemoryStore
from trunkline_sdk.daemon.tokenstore.store import Lease, Store

__all__ = [
    "BlankKey",
    "Conflict",
    "Coordinator",
    "IdentityChanged",
    "InvalidRefresh",
    "Lease",
    "LeaseTimeout",
    "MemoryStore",
    "NoRefreshToken",
    "NotFound",
    "Refresh",
    "Revoked",
    "Store",
    "TokenError",
    "is_terminal",
]
