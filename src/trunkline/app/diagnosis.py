"""What is well and what is not with an installation, without starting it."""

import asyncio
import os
import platform
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from trunkline import dialects as dialects_package
from trunkline.access.key_sources import key_source
from trunkline.access.vault import Vault
from trunkline.app.compose import parts, surfaces
from trunkline.app.config import kinds, load, shared_server
from trunkline.app.database import database_file, open_database
from trunkline.app.resources import resources
from trunkline.app.weights import find
from trunkline.base import members
from trunkline.base.clock import SystemClock
from trunkline.dialects import Dialect
from trunkline.errors import (
    ConfigInvalid,
    LaunchFailed,
    MigrationNeeded,
    OperatorError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    TrunklineError,
    VaultUnavailable,
)
from trunkline.host.broker import groups
from trunkline.host.keeper import MAIN
from trunkline.providers.local import LocalSettings
from trunkline.store.condition import condition
from trunkline.store.schema import SchemaState, schema_state

LEAST_DISK = 100 << 20  # bytes
MOST_SKEW = 2.0  # seconds


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
        *_database(config, data),
        *_shared(config),
        *_vault(config, data),
        *_local_models(config),
        *_extensions(config),
    ]


def inventory() -> dict[str, list[str]]:
    """Every member of every extension point, third-party ones included."""
    return {
        "dialects": list(members.load(dialects_package, "DIALECT", Dialect)),
        "methods": list(groups()),
        "providers": list(kinds()),
        "resources": list(resources()),
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
    note = f", with stored credentials or none: {', '.join(without)}" if without else ""
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


def _database(config: Path | None, data: Path) -> list[Finding]:
    """The database: there, at a schema that this version knows, and ready for an upgrade."""
    try:
        settings = load(config).sections.store
        file = database_file(data, settings)
        if file is not None and not file.exists():
            return [Finding("database", "not there yet; `trunkline serve` makes it")]
        engine = open_database(data, settings)
        try:
            schema, found = _schema(schema_state(engine)), condition(engine, SystemClock())
        finally:
            engine.dispose()
    except TrunklineError as error:
        return [Finding("database", "", error.message, error.hint)]
    return [
        Finding("database", f"{schema}, {found.server}, {found.size >> 20} MB"),
        _looked("database disk", lambda: _database_disk(file, found.size)),
        _looked("database clock", lambda: _database_clock(found.seconds_ahead)),
        _looked("database permissions", lambda: _database_permissions(found.obstacles)),
    ]


def _vault(config: Path | None, data: Path) -> list[Finding]:
    """The vault: its keys can be read, and everything opens with them. Where there is no database yet, there is nothing to look at."""
    try:
        sections = load(config).sections
        file = database_file(data, sections.store)
        if file is not None and not file.exists():
            return []
        engine = open_database(data, sections.store)
    except TrunklineError:
        return []  # told above
    try:
        if not schema_state(engine).ready:
            return []  # its tables may not be there
        return [_looked("vault", lambda: _secrets(Vault(engine, key_source(sections.vault, data))))]
    except TrunklineError:
        return []  # told above
    finally:
        engine.dispose()


def _secrets(vault: Vault) -> str:
    state = vault.status()
    if state.locked:
        raise VaultUnavailable(
            f"{len(state.locked)} of {state.secrets} secrets do not open with what is in {state.where}",
            hint="`trunkline vault status` names them, and the keys that are missed.",
        )
    return f"{state.secrets} secret{'' if state.secrets == 1 else 's'}, keys in {state.where}"


def _schema(state: SchemaState) -> str:
    if not state.known:
        raise MigrationNeeded(
            f"its schema `{state.current}` is newer than this version", hint="Install the version that wrote it, or a later one."
        )
    return f"schema {state.current}" if state.ready else f"schema {state.current or 'none'}; the next start brings it to {state.head}"


def _database_disk(file: Path | None, size: int) -> str:
    if file is None:
        return "on its server, which is to be looked at there"
    free, least = shutil.disk_usage(file.parent).free, max(LEAST_DISK, 2 * size)
    if free < least:
        raise StoreFull(f"only {free >> 20} MB are free at `{file.parent}`", hint=f"An upgrade may need {least >> 20} MB: make room.")
    return f"{free >> 30} GB free"


def _database_clock(ahead: float) -> str:
    if abs(ahead) > MOST_SKEW:
        raise StoreUnavailable(
            f"the database is {abs(ahead):.0f} seconds {'ahead of' if ahead > 0 else 'behind'} this machine's clock",
            hint="Let both keep time by NTP: expiry and order go by it.",
        )
    return "as this machine's"


def _database_permissions(obstacles: Sequence[str]) -> str:
    if obstacles:
        raise StoreReadOnly(
            f"the database {' and '.join(obstacles)}", hint="Mend that before an upgrade: it changes tables and makes new ones."
        )
    return "tables can be made and changed"


def _shared(config: Path | None) -> list[Finding]:
    """The Valkey or Redis, where one is configured."""
    try:
        where = shared_server(load(config).sections.store)
    except OperatorError:
        return []  # told above
    if where is None:
        return []
    from trunkline.store.shared.condition import look

    return [_looked("shared store", lambda: asyncio.run(look(where)))]


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


def _extensions(config: Path | None) -> list[Finding]:
    try:
        configured = load(config).sections.extensions
    except OperatorError:
        return []  # told above
    return [_looked(f"extensions.{name}", lambda path=each.path: _extension(path)) for name, each in configured.items() if each.enabled]


def _extension(path: str) -> str:
    """Whether there is an extension's code. How one stands that runs, its server says."""
    try:
        main = Path(path).expanduser().absolute() / MAIN
    except RuntimeError as error:  # nobody has that home folder
        raise ConfigInvalid(f"`{path}` cannot be found: {error}") from None
    if not main.is_file():
        raise ConfigInvalid(
            f"there is no `{main}`", hint="`path` is the folder with its code; a relative one begins where `serve` is started."
        )
    return str(main)


def _local_model(settings: LocalSettings) -> str:
    weights = find(settings.weights)
    if find_spec("xllamacpp") is None:
        raise LaunchFailed("xllamacpp is not installed", hint='`pip install "trunkline[local]"` brings it.')
    return str(weights)
