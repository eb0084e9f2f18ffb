"""What is well and what is not with an installation, without starting it."""

import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from trunkline import dialects as dialects_package
from trunkline.app.compose import parts, surfaces
from trunkline.app.config import kinds, load
from trunkline.app.weights import find
from trunkline.base import members
from trunkline.dialects import Dialect
from trunkline.errors import LaunchFailed, MigrationNeeded, OperatorError, StoreUnavailable, TrunklineError
from trunkline.providers.local import LocalSettings
from trunkline.store.engine import open_engine, sqlite_url
from trunkline.store.schema import schema_state

LEAST_DISK = 100 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: `problem` is empty where it is well."""

    subject: str
    detail: str
    problem: str = ""
    hint: str = ""


def diagnose(config: Path | None, data: Path) -> list[Finding]:
    """Look at everything that `serve` needs."""
    return [
        Finding("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        _looked("configuration", lambda: _configuration(config)),
        _looked("data folder", lambda: _data_folder(data)),
        _looked("database", lambda: _database(data)),
        *_local_models(config),
    ]


def inventory() -> dict[str, list[str]]:
    """Every member of every extension point, third-party ones included."""
    return {
        "dialects": list(members.load(dialects_package, "DIALECT", Dialect)),
        "providers": list(kinds()),
        "surfaces": list(surfaces()),
    }


def _looked(subject: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(subject, look())
    except TrunklineError as error:
        return Finding(subject, "", error.message, error.hint)
    except OSError as error:
        return Finding(subject, "", f"`{error.filename}` cannot be looked at: {error.strerror}", "Run it as the user that `serve` runs as.")


def _configuration(path: Path | None) -> str:
    providers = parts(load(path)).providers
    without = [name for name, provider in providers.items() if provider.kind.key_required and provider.api_key is None]
    note = f", without credential: {', '.join(without)}" if without else ""
    return f"{path or 'none, so the defaults'}: {len(providers)} providers{note}"


def _data_folder(data: Path) -> str:
    place = next(folder for folder in (data, *data.parents) if folder.exists())
    if not os.access(place, os.W_OK):
        raise StoreUnavailable(f"`{place}` cannot be written to", hint="Give another folder with `--data`, or mend its permissions.")
    if data.exists() and data.stat().st_mode & 0o077:
        raise StoreUnavailable(f"others can look into `{data}`", hint=f"`chmod 700 {data}`")
    free = shutil.disk_usage(place).free
    if free < LEAST_DISK:
        raise StoreUnavailable(f"only {free >> 20} MB are free at `{place}`", hint="Make room.")
    return f"{data}, {free >> 30} GB free"


def _database(data: Path) -> str:
    if not (data / "trunkline.sqlite").exists():
        return "not there yet; `trunkline serve` makes it"
    engine = open_engine(sqlite_url(data))
    try:
        state = schema_state(engine)
    finally:
        engine.dispose()
    if not state.known:
        raise MigrationNeeded(
            f"its schema `{state.current}` is newer than this version", hint="Install the version that wrote it, or a later one."
        )
    return f"schema {state.current}" if state.ready else f"schema {state.current or 'none'}; the next start brings it to {state.head}"


def _local_models(config: Path | None) -> list[Finding]:
    try:
        configured = load(config).providers
    except OperatorError:
        return []  # told above
    return [
        _looked(f"providers.{name}", lambda settings=settings: _local_model(settings))
        for name, settings in configured.items()
        if isinstance(settings, LocalSettings)
    ]


def _local_model(settings: LocalSettings) -> str:
    weights = find(settings.weights)
    if find_spec("xllamacpp") is None:
        raise LaunchFailed("xllamacpp is not installed", hint='`pip install "trunkline[local]"` brings it.')
    return str(weights)
