"""Errors of the file system, as errors of the store."""

import errno

from trunkline.errors import StoreFull, StoreReadOnly, StoreUnavailable


def unavailable(error: OSError, what: str, *, hint: str) -> StoreUnavailable:
    """The error for an operator.

    Args:
        error: the system's.
        what: what could not be done, as a sentence without its reason.
        hint: what to do.
    """
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            kind = StoreFull
        case errno.EROFS | errno.EACCES | errno.EPERM:
            kind = StoreReadOnly
        case _:
            kind = StoreUnavailable
    return kind(f"{what}: {error.strerror}", hint=hint)
