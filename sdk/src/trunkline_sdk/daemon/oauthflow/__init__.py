"""Signing in: the product's side of device, browser and manual flows, and PKCE for both sides (daemon contract, G).

signing_in = SignIns(store, driver=drivers.__getitem__, save=keep)
view = await signing_in.start(caller, "daemon/codex", "device")
view = await signing_in.poll(caller, view.id)                # device: until it is complete
view = await signing_in.complete(caller, view.id, pasted)    # manual: what the owner pasted
view = await signing_in.callback(answer, redirect_uri)       # browser: what the redirect brought
"""

from trunkline_sdk.daemon.oauthflow.errors import (
    AccessDenied,
    CodeRequired,
    FlowConflict,
    FlowError,
    FlowExpired,
    FlowNotFound,
    InvalidAnswer,
    InvalidStart,
    SlowDown,
    StateMismatch,
)
from trunkline_sdk.daemon.oauthflow.memory import MemoryFlows
from trunkline_sdk.daemon.oauthflow.pasted import Answer
from trunkline_sdk.daemon.oauthflow.pkce import ClientMode, OAuthClient, Pkce, challenge
from trunkline_sdk.daemon.oauthflow.service import Driver, SignIns
from trunkline_sdk.daemon.oauthflow.store import FlowStore, state_hash
from trunkline_sdk.daemon.oauthflow.view import Status, View

__all__ = [
    "AccessDenied",
    "Answer",
    "ClientMode",
    "CodeRequired",
    "Driver",
    "FlowConflict",
    "FlowError",
    "FlowExpired",
    "FlowNotFound",
    "FlowStore",
    "InvalidAnswer",
    "InvalidStart",
    "MemoryFlows",
    "OAuthClient",
    "Pkce",
    "SignIns",
    "SlowDown",
    "StateMismatch",
    "Status",
    "View",
    "challenge",
    "state_hash",
]
