"""The one loader behind every extension point.

An extension point is a package: its `__init__.py` holds the type, every other module is one member and exports one constant.
A module whose name begins with `_` is shared by members and is none. Other distributions add members by an entry point in the
group named like the package, for example

    [project.entry-points."trunkline.providers"]
    acme = "acme_trunkline:PROVIDER"
"""

import importlib
import pkgutil
from importlib.metadata import entry_points
from types import ModuleType
from typing import TypeVar

from trunkline.errors import ConfigInvalid

T = TypeVar("T")


def load(package: ModuleType, constant: str, kind: type[T], *, third_party: bool = True) -> dict[str, T]:
    """All members of an extension point, by module or entry-point name, sorted.

    Raises:
        ConfigInvalid: a member lacks the constant, has one of another type, or takes a name that is taken; or another
            distribution's member cannot be imported.
    """
    members: dict[str, T] = {}
    for found in pkgutil.iter_modules(package.__path__):
        if not found.name.startswith("_"):
            module = importlib.import_module(f"{package.__name__}.{found.name}")
            members[found.name] = _checked(getattr(module, constant, None), kind, f"{module.__name__}.{constant}")
    for point in entry_points(group=package.__name__) if third_party else ():
        if point.name in members:
            raise ConfigInvalid(
                f"the entry point `{point.value}` wants to be `{point.name}` in `{package.__name__}`, and that name is taken",
                hint="Uninstall the package that brings it, or ask its author for another name.",
            )
        try:
            value = point.load()
        except (ImportError, AttributeError) as error:
            raise ConfigInvalid(
                f"the entry point `{point.value}` cannot be loaded: {error}", hint="Mend or uninstall its package."
            ) from error
        members[point.name] = _checked(value, kind, point.value)
    return dict(sorted(members.items()))


def _checked(value: object, kind: type[T], where: str) -> T:
    if not isinstance(value, kind):
        raise ConfigInvalid(f"`{where}` is {type(value).__name__}, not a {kind.__name__}")
    return value
