"""Users that are nobody's, for workers of a host that runs as root: no file on the machine is theirs, and no two workers are one."""

from trunkline.errors import LaunchFailed

FIRST, COUNT = 60_578, 606
"""A range that neither distributions nor systemd give out. Source: systemd's UIDS-GIDS."""


class Users:
    """The pool."""

    def __init__(self, first: int = FIRST, count: int = COUNT) -> None:
        self._free = list(range(first + count - 1, first - 1, -1))

    def take(self) -> int:
        """A user whom no worker has. Raises: `LaunchFailed`, when all are taken."""
        if not self._free:
            raise LaunchFailed("every user for workers is taken", hint="Disable extensions that you do not need.")
        return self._free.pop()

    def give(self, user: int) -> None:
        """A worker's processes are all gone."""
        self._free.append(user)
