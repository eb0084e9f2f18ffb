"""What to do after a failure. Pure: the error's class decides, nobody reads its text."""

from typing import Literal

from trunkline.errors import (
    LossRefused,
    OperatorError,
    ShuttingDown,
    SignInNeeded,
    TrunklineError,
    UpstreamBusy,
    UpstreamDenied,
    UpstreamDown,
    UpstreamError,
    UpstreamRefused,
)

Next = Literal["stop", "same", "other", "next"]
"""Give up; try the same target once more, or with another credential; go to the next one."""

MOST_ATTEMPTS = 4


def after(error: TrunklineError, *, tried: int, left: int, again: bool, others: bool = False, repeatable: bool = True) -> Next:
    """What to do after a failed attempt, while nothing of a reply has been shown.

    Args:
        error: why it failed.
        tried: attempts so far, this one included.
        left: targets that have not been tried.
        again: whether this attempt was a second one at its target.
        others: whether the target may be tried with another credential.
        repeatable: whether the same may be asked of it once more.
    """
    if isinstance(error, LossRefused):
        return "next" if left else "stop"  # another target may speak the caller's format
    if not _lies_with_the_target(error) or tried >= MOST_ATTEMPTS:
        return "stop"
    if others and isinstance(error, UpstreamDenied | UpstreamBusy | SignInNeeded):
        return "other"  # it was said to the credential
    if left:
        return "next"
    if isinstance(error, UpstreamDown) and repeatable and not again:
        return "same"
    return "stop"


def worth_telling(errors: list[TrunklineError]) -> TrunklineError:
    """Which of several targets' errors the caller gets to see.

    What is wrong with the request itself comes first. A busy target will be there again, so else the caller is told to wait, and for the
    shortest of the waits; else the last one counts.
    """
    if not _lies_with_the_target(errors[-1]):
        return errors[-1]
    busy = [error for error in errors if error.retry_after is not None]
    return min(busy, key=lambda error: error.retry_after or 0.0) if busy else errors[-1]


def _lies_with_the_target(error: TrunklineError) -> bool:
    return isinstance(error, UpstreamError | OperatorError) and not isinstance(error, UpstreamRefused | ShuttingDown)
