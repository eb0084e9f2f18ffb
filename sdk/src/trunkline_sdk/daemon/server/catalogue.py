"""The rows of `models` as they go out (daemon contract, B2, D4b, K11)."""

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from trunkline_sdk.daemon.messages import ModelInfo, Unreadable, decode, encode
from trunkline_sdk.daemon.protocol.surfaces import PATHS, paths


def serving(row: ModelInfo, *surfaces: str) -> ModelInfo:
    """The row of a model that serves these surfaces alone, whatever else its provider serves.

    Raises:
        ValueError: a surface that has no path.
    """
    if unknown := [surface for surface in surfaces if surface not in PATHS]:
        raise ValueError(f"there is no surface `{unknown[0]}`; there are {', '.join(PATHS)}")
    return replace(row, supported_apis=paths(surfaces))


def rows(given: Iterable[ModelInfo], surfaces: Sequence[str], dropped: Callable[[int, str], None]) -> tuple[ModelInfo, ...]:
    """What products can read, each id once; a row that says nothing of what it serves gets all surfaces of its provider.

    A row that no client could read would cost the whole list there, so it is left out and `dropped` is told its number and why.
    """
    served = paths(surfaces)
    kept: dict[str, ModelInfo] = {}
    for number, row in enumerate(given):
        complete = replace(row, object=row.object or "model")
        if served and not (row.supported_apis or row.capabilities or row.legacy_capabilities):
            complete = replace(complete, supported_apis=served)
        try:
            decode(ModelInfo, encode(complete))
        except Unreadable as unreadable:
            dropped(number, str(unreadable))
        except (ValueError, TypeError, AttributeError):
            dropped(number, "it cannot be written")
        else:
            if not row.id.strip():
                dropped(number, "it has no id")
            elif row.id in kept:
                dropped(number, "its id has come before")
            else:
                kept[row.id] = complete
    return tuple(kept.values())
