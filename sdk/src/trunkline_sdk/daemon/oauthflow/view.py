"""What a flow's owner may see: never a secret."""

from datetime import datetime
from typing import Literal, Self, get_args

from msgspec import Struct

from trunkline_sdk.daemon.messages import Flow

Status = Literal["pending", "complete", "failed", "expired"]
_STATUSES: tuple[Status, ...] = get_args(Status)


class View(Struct, frozen=True, kw_only=True):
    """One sign-in.

    Attributes:
        interval: seconds between two polls.
        credential_key: under which the credential was kept, once it is complete.
    """

    id: str
    instance: str
    method: str
    status: Status
    authorization_url: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    interval: int
    expires_at: datetime | None
    credential_key: str

    @classmethod
    def of(cls, flow: Flow, now: datetime) -> Self:
        """The flow as it stands."""
        return cls(
            id=flow.id,
            instance=flow.instance,
            method=flow.method,
            status=_status(flow, now),
            authorization_url=flow.authorization_url,
            user_code=flow.user_code,
            verification_uri=flow.verification_uri,
            verification_uri_complete=flow.verification_uri_complete,
            interval=round(flow.progress.interval.total_seconds()),
            expires_at=flow.expires_at,
            credential_key=flow.progress.credential_key,
        )


def is_expired(flow: Flow, now: datetime) -> bool:
    """Whether it is too late for this flow."""
    return flow.expires_at is not None and now >= flow.expires_at


def _status(flow: Flow, now: datetime) -> Status:
    for status in _STATUSES:
        if flow.progress.outcome == status:
            return status
    return "expired" if flow.consumed_at is None and is_expired(flow, now) else "pending"
