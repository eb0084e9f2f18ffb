"""`trunkline config`."""

import tomllib

from cyclopts import App

from trunkline.app.compose import parts
from trunkline.app.config import json_schema, load
from trunkline.app.example import EXAMPLE
from trunkline.cli.output import print_json
from trunkline.cli.places import ConfigFile, Json, config_file

command = App(name="config", help="Check the configuration, or print an example.")


@command.command
def check(*, config: ConfigFile = None, json: Json = False) -> None:
    """Read the configuration as `serve` would, credentials included, and say what it means."""
    path = config_file(config)
    made = parts(load(path))
    providers = made.providers
    names = [name.id for name in made.router.names()]
    without = [name for name, provider in providers.items() if provider.kind.key_required and provider.api_key is None]
    if json:
        print_json({"path": str(path) if path else None, "providers": list(providers), "models": names, "without_credential": without})
        return
    print(f"{path or 'no file, defaults'}: fine")
    print(f"providers: {', '.join(providers) or 'none'}")
    print(f"models: {', '.join(names) or 'none listed'}")
    for name in without:
        print(f"note: `{name}` has no credential here, so calls to it need a stored one (`trunkline credentials add {name}`)")


@command.command
def example(*, json: Json = False) -> None:
    """Print a configuration to begin with."""
    if json:
        print_json(tomllib.loads(EXAMPLE))
    else:
        print(EXAMPLE, end="")


@command.command
def schema(*, json: Json = False) -> None:
    """Print the JSON Schema of the configuration, for editors: JSON in any case."""
    del json
    print_json(json_schema())
