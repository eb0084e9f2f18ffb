"""`[accounts]`."""

from typing import Annotated, Literal

from trunkline.base.codec import Meta, Record


class AccountSettings(Record, frozen=True):
    """Accounts and those who use them."""

    unknown_end_users: Annotated[
        Literal["refuse", "create"],
        Meta(description="What becomes of a call for an end user that nobody has made yet, by a key that acts for end users."),
    ] = "refuse"
