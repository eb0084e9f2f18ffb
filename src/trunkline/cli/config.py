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
    read = load(path)
    made = parts(read)
    providers = made.providers
    names = [name.id for name in made.router.names()]
    without = [name for name, provider in providers.items() if provider.kind.key_required and provider.api_key is None]
    extensions = list(read.sections.extensions)
    if json:
        told = {"providers": list(providers), "models": names, "extensions": extensions, "without_credential": without}
        print_json({"path": str(path) if path else None, **told})
        return
    print(f"{path or 'no file, defaults'}: fine")
    print(f"providers: {', '.join(providers) or 'none'}")
    print(f"models: {', '.join(names) or 'none listed'}")
    if extensions:
        print(f"extensions: {', '.join(extensions)}")
    for name in without:
        usual = (providers[name].kind.api_key or "").removeprefix("env:")
        print(
            f"note: `{name}` has no credential here: {f'set {usual}, or ' if usual else ''}keep one by `trunkline credentials add {name}`"
        )


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
