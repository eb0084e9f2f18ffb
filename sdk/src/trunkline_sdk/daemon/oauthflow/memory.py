"""Flows in memory, for one event loop."""

import secrets
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from trunkline_sdk.daemon.messages import Caller, Flow
from trunkline_sdk.daemon.oauthflow.errors import FlowConflict, FlowNotFound
from trunkline_sdk.daemon.oauthflow.store import state_hash

_KEPT_EXPIRED = timedelta(minutes=15)
_PER_CALLER = 32


def now() -> datetime:
    """The machine's time."""
    return datetime.now(UTC)  # noqa: TID251 - the SDK has no clock of its own; whoever has one gives it


class MemoryFlows:
    """A `FlowStore` that ends with its process."""

    def __init__(self, *, per_caller: int = _PER_CALLER, now: Callable[[], datetime] = now) -> None:
        self._per_caller = per_caller
        self._now = now
        self._flows: dict[str, Flow] = {}  # in the order of their start
        self._states: dict[str, str] = {}  # hashed state → id

    async def add(self, flow: Flow) -> Flow:
        """See `FlowStore`."""
        self._sweep()
        same = [kept.id for kept in self._flows.values() if kept.caller == flow.caller]
        for oldest in same[: max(0, len(same) - self._per_caller + 1)]:
            self._drop(oldest)
        if flow.secrets.state:
            self._states[state_hash(flow.secrets.state)] = flow.id
        return self._keep(flow)

    async def load(self, caller: Caller, flow_id: str) -> Flow:
        """See `FlowStore`."""
        self._sweep()
        flow = self._flows.get(flow_id)
        if flow is None or flow.caller != caller:
            raise FlowNotFound
        return _copied(flow)

    async def find(self, hashed_state: str) -> Flow:
        """See `FlowStore`."""
        self._sweep()
        flow = self._flows.get(self._states.get(hashed_state, ""))
        if flow is None or flow.consumed_at is not None:
            raise FlowNotFound
        return _copied(flow)

    async def replace(self, revision: str, flow: Flow) -> Flow:
        """See `FlowStore`."""
        current = self._flows.get(flow.id)
        if current is None or current.revision != revision:
            raise FlowConflict("the sign-in was changed meanwhile")
        return self._keep(flow)

    def _keep(self, flow: Flow) -> Flow:
        kept = replace(_copied(flow), revision=secrets.token_hex(16))
        self._flows[kept.id] = kept
        return _copied(kept)

    def _sweep(self) -> None:
        past = self._now() - _KEPT_EXPIRED
        for flow in [flow for flow in self._flows.values() if flow.expires_at is not None and flow.expires_at < past]:
            self._drop(flow.id)

    def _drop(self, flow_id: str) -> None:
        del self._flows[flow_id]
        self._states = {state: kept for state, kept in self._states.items() if kept != flow_id}


def _copied(flow: Flow) -> Flow:
    """The flow with maps of its own."""
    return replace(flow, secrets=replace(flow.secrets, driver_data=dict(flow.secrets.driver_data), params=dict(flow.secrets.params)))
