"""Which losses a call may have, and how a caller is told of them. Pure."""

import base64
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from trunkline.base.codec import Meta, Record, encode, field
from trunkline.errors import LossRefused
from trunkline.model.loss import Change, Loss, Severity, report
from trunkline.providers import Provider
from trunkline.providers.daemon import DaemonSettings

HEADER_BYTES = 8192  # a header that every client takes
SHOWN = 5  # losses that an error lists


class LossRule(Record, frozen=True):
    """One rule of a route: the first that fits a loss decides."""

    action: Annotated[Literal["allow", "reject"], Meta(description="What to do with a loss that fits.")]
    path: Annotated[
        str,
        Meta(
            pattern=r"^([^.]+(\.[^.]+)*)?$", description="Where it stood, as a pattern: `*` is one step, `**` any number; empty fits all."
        ),
    ] = ""
    severity: Annotated[Severity | None, Meta(description="`material` or `advisory`; both, where it is absent.")] = None
    change: Annotated[Change | None, Meta(description="What happened; any, where it is absent.")] = field(default=None, name="class")

    def fits(self, loss: Loss) -> bool:
        """Whether it decides about a loss."""
        return self.severity in {None, loss.severity} and self.change in {None, loss.change} and _matches(self.path, loss.path)


# What a model sees, or may do, must not change behind its caller's back: a picture, a file or a tool that is left out.
DEFAULT = (LossRule(action="reject", severity="material", change="unsupported"),)
STRICT = (LossRule(action="reject", severity="material"),)
CONTRACT = (LossRule(action="allow", severity="advisory"), LossRule(action="reject"))
"""What of the losses of a provider behind a daemon may be where nobody said so (daemon contract, B4), if the configuration wants it so."""


def by_contract(provider: Provider) -> bool:
    """Whether what is lost on the way to a provider, and behind its daemon, is judged as the daemon contract says (B4)."""
    return isinstance(provider.settings, DaemonSettings) and provider.settings.loss_policy == "contract"


def judge(losses: Sequence[Loss], rules: Sequence[LossRule]) -> None:
    """Let losses pass, or not.

    Raises:
        LossRefused: a rule rejects one; the message names the paths.
    """
    refused = [loss for loss in losses if next((rule.action for rule in rules if rule.fits(loss)), "allow") == "reject"]
    if refused:
        shown = "; ".join(f"`{loss.path}` is {loss.change}{f' ({loss.detail})' if loss.detail else ''}" for loss in refused[:SHOWN])
        more = f"; and {len(refused) - SHOWN} more" if len(refused) > SHOWN else ""
        raise LossRefused(
            f"the request cannot be translated without loss: {shown}{more}",
            hint="Ask a model whose provider speaks your format, leave this out, or have the operator allow it in the route's `losses`.",
        )


def header(losses: Sequence[Loss]) -> list[tuple[bytes, bytes]]:
    """`X-Losses`: base64 of a JSON list (extension daemon contract, A3), as many as fit, the material ones first."""
    if not losses:
        return []
    kept = list(losses)
    value = _base64(kept)
    if len(value) > HEADER_BYTES:
        kept.sort(key=lambda loss: loss.severity != "material")
    while len(value) > HEADER_BYTES:
        kept = kept[: len(kept) * 3 // 4]
        value = _base64(report([*kept, Loss("**", "advisory", "dropped", f"and {len(losses) - len(kept)} more")]))
    return [(b"x-losses", value)]


def wire(losses: Sequence[Loss]) -> list[dict[str, str]]:
    """Losses as JSON tells them."""
    return [{"path": loss.path, "class": loss.change, "severity": loss.severity, "detail": loss.detail} for loss in losses]


def comment(losses: Sequence[Loss]) -> bytes:
    """Losses of a reply as a comment inside its stream, for callers that ask for it."""
    return b": trunkline.losses " + encode(wire(losses)) + b"\n\n"


def _base64(losses: Sequence[Loss]) -> bytes:
    return base64.b64encode(encode(wire(losses)))


def _matches(pattern: str, path: str) -> bool:
    return not pattern or _steps(pattern.split("."), path.split("."))


def _steps(pattern: Sequence[str], path: Sequence[str]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(_steps(pattern[1:], path[skip:]) for skip in range(len(path) + 1))
    return bool(path) and fnmatchcase(path[0], pattern[0]) and _steps(pattern[1:], path[1:])
