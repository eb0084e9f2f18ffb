"""Where flows are kept (daemon contract, G2)."""

import hashlib
from typing import Protocol

from trunkline_sdk.daemon.messages import Caller, Flow


def state_hash(state: str) -> str:
    """What a store looks a state up by, so that it needs no index of secrets: SHA-256 as hex."""
    return hashlib.sha256(state.encode()).hexdigest()


class FlowStore(Protocol):
    """Keeps flows; every write gives the flow a new revision.

    A flow stays for some time after its expiry, so that its owner is told *expired*. One caller has a bounded number of flows: the oldest
    makes room.
    """

    async def add(self, flow: Flow) -> Flow:
        """Keep a new flow."""
        ...

    async def load(self, caller: Caller, flow_id: str) -> Flow:
        """A flow of this caller, used up or expired ones included; the whole caller has to be the same.

        Raises:
            FlowNotFound: there is none, or it is somebody else's.
        """
        ...

    async def find(self, hashed_state: str) -> Flow:
        """The flow that waits for the answer with this state (see `state_hash`); one that is used up waits for none.

        Raises:
            FlowNotFound: there is none.
        """
        ...

    async def replace(self, revision: str, flow: Flow) -> Flow:
        """Keep the flow in the place of its own revision.

        Raises:
            FlowConflict: it has another revision by now, or is gone.
        """
        ...
