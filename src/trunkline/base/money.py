"""Money: whole micro-cents, never a float. A micro-cent is 10^-8 dollar.

Rates are micro-cents per million of a unit, so that three dollars for a million tokens are 300,000,000, and every price that a
vendor prints is a whole number.
"""

import re

from trunkline.errors import BadRequest

DOLLAR = 100_000_000
"""Micro-cents."""
MILLION = 1_000_000

_DIGITS = 8  # behind the point of a dollar
_DECIMAL = re.compile(r"(-?)([0-9]{1,15})(?:\.([0-9]{1,30}))?")


def micro_cents(dollars: str, *, at: str = "amount") -> int:
    """Dollars in decimal digits (`2.50`) as micro-cents.

    Args:
        dollars: as people write them, without a sign of currency and without an exponent.
        at: the field, for the error.

    Raises:
        BadRequest: it is no decimal number, or finer than a micro-cent.
    """
    found = _DECIMAL.fullmatch(dollars)
    if found is None:
        raise BadRequest(f"`{at}` is `{dollars[:40]}`, which is not an amount in dollars", hint='Write decimal digits, as in "2.50".')
    sign, whole, rest = found[1], found[2], (found[3] or "").rstrip("0")
    if len(rest) > _DIGITS:
        raise BadRequest(
            f"`{at}` is `{dollars[:40]}`, which is finer than a micro-cent", hint="At most eight digits stand behind the point."
        )
    amount = int(whole) * DOLLAR + int(rest.ljust(_DIGITS, "0"))
    return -amount if sign else amount


def dollars(amount: int) -> str:
    """Micro-cents as dollars in decimal digits, exactly, with at least two behind the point: `micro_cents` reads it back."""
    whole, rest = divmod(abs(amount), DOLLAR)
    return f"{'-' if amount < 0 else ''}{whole}.{f'{rest:0{_DIGITS}}'.rstrip('0').ljust(2, '0')}"
