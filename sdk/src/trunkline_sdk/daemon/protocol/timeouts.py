"""How `X-Timeout` is written: seconds, as a plain decimal without unit, exponent or zeros at its end (daemon contract, C1)."""

import math
import re
from decimal import Decimal

_PLAIN = re.compile(rb"[0-9]{1,32}(?:\.[0-9]{1,64})?")
CEILING = 24 * 3600.0
"""The longest that a daemon of ours waits, whatever it is told: a day."""


def write(seconds: float | None) -> bytes | None:
    """`90.5`, `300`; None for what is no wait: none, zero, negative, endless."""
    if seconds is None or not math.isfinite(seconds) or seconds <= 0:
        return None
    text = f"{Decimal(repr(float(seconds))):f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).encode()


def read(raw: bytes | None, *, ceiling: float = CEILING) -> float | None:
    """Seconds, at most `ceiling`; None where the header is missing or says nothing usable."""
    if raw is None or _PLAIN.fullmatch(raw) is None:
        return None
    seconds = float(raw)
    return min(seconds, ceiling) if seconds > 0 else None
