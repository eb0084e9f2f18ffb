"""What a peer knows of calls in flight, and of those that have ended."""

import msgspec


class Out(msgspec.Struct):
    """An own call in flight."""

    deadline: float
    during: int | None


class In(msgspec.Struct):
    """A call of the other side in flight; `stopped` once its answer is not waited for."""

    deadline: float
    during: int | None
    stopped: bool = False


class Tombstone(msgspec.Struct):
    """An own call that has ended."""

    until: float
    answered: bool
