"""`/extensions`: the configured extensions, and how it stands with each."""

from typing import Annotated, Literal

from trunkline.base.codec import Meta, Record
from trunkline.errors import NotFound
from trunkline.host.course import State
from trunkline.host.keeper import Shown
from trunkline.host.sandbox.policy import Tier
from trunkline.host.supervisor import Supervisor
from trunkline.server.admin import Ask, Nothing, Paging, Resource, Route, Rows


class ControlShown(Record, frozen=True):
    """One thing that a sandbox promises."""

    control: str
    status: Annotated[
        Literal["enforced", "partial", "absent", "applied", "failed"],
        Meta(description="`applied` and `failed` are what the kernel said; the others are what a probe within found."),
    ]
    by: Annotated[str, Meta(description="By which means.")]
    evidence: Annotated[Literal["probe", "applied"], Meta(description="`probe`: it was tried.")]
    detail: Annotated[str, Meta(description="What is left open.")]


class ExtensionShown(Record, frozen=True):
    """An extension."""

    id: Annotated[str, Meta(description="Its name in the configuration.")]
    state: Annotated[
        State, Meta(description="`failed_config`: it would fail again, and is not tried before the configuration is read again.")
    ]
    reason: Annotated[str, Meta(description="Why; empty where all is well.")]
    since: Annotated[float, Meta(description="In seconds since the Unix epoch.")]
    next_attempt: Annotated[
        float | None,
        Meta(description="When it may be started again, likewise: in `backoff` it is, in `crash_loop` by the next call after that."),
    ]
    restarts: Annotated[int, Meta(description="After crashes, since the server was started.")]
    pid: Annotated[int | None, Meta(description="Its process; null where it has none.")]
    tier: Annotated[Tier | None, Meta(description="Of the sandbox: A, B, C, or D, which keeps nothing apart; null without a process.")]
    registered: Annotated[list[str], Meta(description="What can be called of it.")]
    permissions: Annotated[list[str], Meta(description="What it may ask of the server.")]
    controls: Annotated[list[ControlShown], Meta(description="What its sandbox was given, and what probes found to hold.")]


def every(extensions: Supervisor, ask: Ask[Paging, None]) -> Rows[ExtensionShown]:
    """A page of extensions, by name."""
    after, limit = ask.query.after or "", ask.query.limit
    found = [shown for shown in extensions.shown() if shown.name > after]
    return Rows(data=[_shown(each) for each in found[:limit]], next=found[limit - 1].name if len(found) > limit else None)


def one(extensions: Supervisor, ask: Ask[Nothing, None]) -> ExtensionShown:
    """One extension. Raises: `NotFound`."""
    return _shown(extensions.one(ask.path["id"]))


def _shown(shown: Shown) -> ExtensionShown:
    applied = [
        ControlShown(control=each.control, status=each.status, by=each.by, evidence="applied", detail=each.detail) for each in shown.applied
    ]
    probed = [
        ControlShown(control=each.control, status=each.status, by=each.by, evidence=each.evidence, detail=each.detail)
        for each in shown.findings
    ]
    return ExtensionShown(
        id=shown.name,
        state=shown.state,
        reason=shown.reason,
        since=shown.since,
        next_attempt=shown.next_attempt,
        restarts=shown.restarts,
        pid=shown.pid,
        tier=shown.tier,
        registered=list(shown.registered),
        permissions=list(shown.permissions),
        controls=probed + applied,
    )


RESOURCE = Resource(
    title="Extensions",
    path="/extensions",
    service=Supervisor,
    columns=("id", "state", "reason", "tier", "restarts"),
    about="Each runs in a process of its own. They are read only: the configuration file is where they are changed.",
    routes=(
        Route(
            "GET",
            "",
            scope="admin",
            summary="List the extensions.",
            do=every,
            query=Paging,
            answer=Rows[ExtensionShown],
            runs="loop",
        ),
        Route(
            "GET",
            "/{id}",
            scope="admin",
            summary="Read how it stands with one extension.",
            do=one,
            answer=ExtensionShown,
            errors=(NotFound,),
            runs="loop",
        ),
    ),
)
