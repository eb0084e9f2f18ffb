"""`trunkline vault`."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict

from cyclopts import App

from trunkline.access.key_sources import key_source
from trunkline.access.vault import Rotation, Vault
from trunkline.app.config import load
from trunkline.app.database import open_store
from trunkline.cli.output import print_json, print_table
from trunkline.cli.places import ConfigFile, DataFolder, Json, config_file, data_folder
from trunkline.errors import VaultUnavailable

command = App(name="vault", help="Look after the key that stored credentials are encrypted with.")


@command.command
def status(*, config: ConfigFile = None, data: DataFolder = None, json: Json = False) -> None:
    """Say where the vault's keys are, what each is needed for, and whether all secrets open."""
    with opened(config, data) as vault:
        state = vault.status()
    if json:
        print_json(asdict(state))
        return
    print(f"The keys are in {state.where}. {state.secrets} secrets are kept, {len(state.locked)} of them do not open.")
    if state.keys:
        columns = ("key", "state", "has sealed", "secrets")
        named = {(True, True): "current", (False, True): "old", (False, False): "missing"}
        print_table(columns, [[key.id, named[key.current, key.present], str(key.seals), str(key.secrets)] for key in state.keys])
    for secret in state.locked:
        print(f"locked: {secret}")


@command.command
def rotate(*, config: ConfigFile = None, data: DataFolder = None, json: Json = False) -> None:
    """Make a new key, seal every secret with it, and remove the old one. Running servers notice by themselves.

    It may be interrupted at any time; the next call goes on where it stopped.
    """
    with opened(config, data) as vault, _bar(shown=not json) as progress:
        done = vault.rotate(progress)
    if json:
        print_json(asdict(done))
    else:
        _tell(done)
    if done.locked:
        raise VaultUnavailable(
            f"{len(done.locked)} secrets do not open, and were left as they are: {', '.join(done.locked)}",
            hint="Remove them with `trunkline credentials remove`, or put the key back that they were sealed with, and rotate again.",
        )


@contextmanager
def opened(config: ConfigFile, data: DataFolder) -> Generator[Vault]:
    """The vault of an installation, which may be running."""
    folder = data_folder(data)
    sections = load(config_file(config)).sections
    source = key_source(sections.vault, folder)
    engine = open_store(folder, sections.store)
    try:
        yield Vault(engine, source)
    finally:
        engine.dispose()


def _tell(done: Rotation) -> None:
    if done.resumed:
        print("A new key was there already, so that no other one was made.")
    print(f"{done.sealed} secrets were sealed with the key {done.key}.")
    if done.removed:
        print(f"Removed: {', '.join(done.removed)}. Backups of the database from before need it: keep a copy as long as you keep them.")
    if done.removable:
        print(f"Nothing needs {', '.join(done.removable)} any more: you can take it away.")


@contextmanager
def _bar(*, shown: bool) -> Generator[Callable[[int, int], None]]:
    """A bar on stderr, where that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), disable=not (shown and sys.stderr.isatty())) as progress:
        task = progress.add_task("sealing anew", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
