"""The steps of a plan, by name. Each is told its values, and raises `OSError` where it cannot be done."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trunkline.host.sandbox.inside import landlock, privileges, seccomp
from trunkline.host.sandbox.inside.namespaces import keep_ids, new_root

Step = Callable[[Mapping[str, Any]], None]


def _ids(values: Mapping[str, Any]) -> None:
    keep_ids(values["user"], values["group"])


def _root(values: Mapping[str, Any]) -> None:
    new_root(readable=values["readable"], writable=values["writable"])


def _user(values: Mapping[str, Any]) -> None:
    privileges.bound_capabilities()
    if values["user"] is not None:
        privileges.become(values["user"])
    privileges.drop_capabilities()


def _limits(values: Mapping[str, Any]) -> None:
    privileges.limit(values)


def _parent(values: Mapping[str, Any]) -> None:
    privileges.die_with_parent(values["pid"])


def _no_new_privileges(_: Mapping[str, Any]) -> None:
    privileges.no_new_privileges()


def _landlock(values: Mapping[str, Any]) -> None:
    landlock.restrict(values["abi"], readable=values["readable"], writable=values["writable"])


def _seccomp(values: Mapping[str, Any]) -> None:
    seccomp.install(os.getpid(), children=values["children"])


STEPS: dict[str, Step] = {
    "ids": _ids,
    "root": _root,
    "user": _user,
    "limits": _limits,
    "parent": _parent,
    "no_new_privileges": _no_new_privileges,
    "landlock": _landlock,
    "seccomp": _seccomp,
}
"""In the order in which a plan has them: each needs what the ones before it left, and the last two take away what those needed."""


def apply(steps: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Do them all. Raises: `OSError`, naming the step."""
    for name, values in steps:
        try:
            STEPS[name](values)
        except OSError as error:
            raise OSError(error.errno, f"{name}: {error.strerror or error}") from error
