"""What a daemon tells of losses, in our words (daemon contract, B4). Pure."""

from collections.abc import Sequence
from typing import cast, get_args

from trunkline.gateway.asked import Asked
from trunkline.gateway.losses import CONTRACT, STRICT, by_contract, judge
from trunkline.gateway.router import Stop
from trunkline.model.loss import Change, Loss, Severity, report
from trunkline_sdk.daemon import messages

MOST = 100  # losses of one answer that are told; a daemon of ours tells no more than fit into 8 KiB
LETTERS = 256  # of a path, or of what is said of it

_CHANGES, _SEVERITIES = get_args(Change), get_args(Severity)


def heard(told: Sequence[messages.Loss]) -> tuple[Loss, ...]:
    """Losses as a daemon tells them, words that this version does not know included: rules that name one do not fit those."""
    return report(
        Loss(_line(each.path), cast(Severity, _line(each.severity)), cast(Change, _line(each.change)), _line(each.detail)) for each in told
    )


def refuse(losses: Sequence[Loss], stop: Stop, asked: Asked, *, late: bool) -> None:
    """Judge what a daemon has told.

    Its caller and its route may refuse; the protocol's own rules do where the configuration says so, and by themselves nothing else does:
    the answer is there, and paid.

    Args:
        losses: as they were heard.
        stop: where they were lost.
        asked: what the caller asked.
        late: they are those of a stream, which are only reported unless the caller itself wants none.

    Raises:
        LossRefused: one of them may not be.
    """
    strict = STRICT if asked.strict else ()
    rules = () if late else (*stop.losses, *(CONTRACT if by_contract(stop.provider) else ()))
    judge(losses, (*strict, *rules))


def known(losses: Sequence[Loss]) -> tuple[Loss, ...]:
    """The same in the words that callers and rows know: an unknown one becomes the gravest, and stands in the detail."""
    return tuple(map(_known, losses[:MOST])) + (
        (Loss("**", "advisory", "dropped", f"{len(losses) - MOST} more"),) if len(losses) > MOST else ()
    )


def _known(loss: Loss) -> Loss:
    unknown = [word for word, words in ((loss.change, _CHANGES), (loss.severity, _SEVERITIES)) if word not in words]
    if not unknown:
        return loss
    return Loss(
        loss.path,
        loss.severity if loss.severity in _SEVERITIES else "material",
        loss.change if loss.change in _CHANGES else "unsupported",
        " ".join(filter(None, (loss.detail, f"(told as `{'`, `'.join(unknown)}`)"))),
    )


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LETTERS else f"{line[:LETTERS]}…"
