"""What an account's own systems call one of its users. Pure."""

from trunkline.errors import BadRequest

LONGEST = 200
"""Characters."""


def check(text: str, at: str) -> str:
    """An external id that may be one; `at` says where it stands. Raises: `BadRequest`."""
    if not text.strip() or not text.isprintable() or len(text) > LONGEST:
        raise BadRequest(
            f"{at} has {len(text)} characters, or some that cannot be printed; an end user's id is a line of 1 to {LONGEST}",
            hint="Send your own id of the end user.",
        )
    return text
