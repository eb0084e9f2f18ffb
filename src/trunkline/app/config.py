"""The configuration: a TOML file and the environment, joined into the frozen records that live with their owners.

The environment wins over the file: `TRUNKLINE_SERVER__PORT=9000` is `[server] port = 9000`, a double underscore for each step.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, cast
from urllib.parse import parse_qs, urlsplit

from trunkline import providers as providers_package
from trunkline.access.settings import AccountSettings
from trunkline.access.vault_key import VaultSettings
from trunkline.app.exposure import check_daemon
from trunkline.base import members
from trunkline.base.codec import Meta, Record, nearest, parse, schema
from trunkline.base.egress import EgressSettings
from trunkline.base.log import LogSettings
from trunkline.base.secret import Secret
from trunkline.catalog.settings import CatalogSettings
from trunkline.errors import ConfigInvalid
from trunkline.gateway.records import ExchangeSettings
from trunkline.gateway.router import RouteSettings
from trunkline.host.settings import Extensions
from trunkline.providers import Kind, Provider, Settings
from trunkline.providers.daemon import DaemonSettings
from trunkline.server.settings import ServerSettings
from trunkline.store.settings import StoreSettings
from trunkline.store.shared.address import Address
from trunkline.store.shared.address import address as server_address

PREFIX = "TRUNKLINE_"
NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")

Routes = Annotated[dict[str, RouteSettings], Meta(description="Names of your own for models; a route wins over a model of the same name.")]


class Sections(Record, frozen=True):
    """The sections of the file whose records do not depend on other settings."""

    server: ServerSettings = ServerSettings()
    log: LogSettings = LogSettings()
    egress: EgressSettings = EgressSettings()
    accounts: AccountSettings = AccountSettings()
    store: StoreSettings = StoreSettings()
    vault: VaultSettings = VaultSettings()
    exchanges: ExchangeSettings = ExchangeSettings()
    catalog: CatalogSettings = CatalogSettings()
    routes: Routes = {}
    extensions: Extensions = {}


class Config(Record, frozen=True):
    """The whole configuration, read and checked."""

    sections: Sections
    providers: dict[str, Settings]


def kinds() -> dict[str, Kind]:
    """Every kind of provider, by its name."""
    return members.load(providers_package, "PROVIDER", Kind)


def load(path: Path | None, environment: Mapping[str, str] = os.environ, *, server: Mapping[str, object] | None = None) -> Config:
    """Read the file, lay the environment over it, and check everything.

    Args:
        path: the TOML file; without one there are the defaults, and `echo` as the only provider.
        environment: the variables.
        server: what flags say of `[server]`; they win over both.

    Raises:
        ConfigInvalid: names the key, the value's place, and what would be right.
    """
    tree: dict[str, Any] = {"providers": {"echo": {"kind": "echo", "models": ["echo"]}}} if path is None else _file(path)
    _lay_over(tree, environment)
    if server and isinstance(section := tree.setdefault("server", {}), dict):
        cast(dict[str, object], section).update(server)
    return read(tree)


def read(tree: dict[str, Any]) -> Config:
    """Check a tree of plain values. Raises: `ConfigInvalid`."""
    rest = dict(tree)
    tables = rest.pop("providers", {})
    known = [*Sections.__struct_fields__, "providers"]
    for section in rest:
        if section not in known:
            close = nearest(section, known)
            raise ConfigInvalid(
                f"`[{section}]` is not a section", hint=f"Did you mean `[{close}]`?" if close else f"Known: {', '.join(sorted(known))}."
            )
    if not isinstance(tables, dict):
        raise ConfigInvalid("`providers` is not a table", hint="Write `[providers.NAME]`.")
    by_kind = kinds()
    sections = parse(rest, Sections)
    _check_extensions(sections)
    return Config(
        sections=sections,
        providers={name: _provider(name, table, by_kind) for name, table in cast(dict[str, object], tables).items()},
    )


def connect(config: Config, environment: Mapping[str, str] = os.environ) -> dict[str, Provider]:
    """The providers, with their credentials read.

    Raises:
        ConfigInvalid: a credential is not where the file says, a provider lacks an address, or a daemon's is not safe.
    """
    by_kind = kinds()
    return {name: _connected(name, settings, by_kind[settings.kind], environment) for name, settings in config.providers.items()}


def json_schema() -> dict[str, Any]:
    """JSON Schema of the file, for editors."""
    whole = schema(Sections)
    variants = {name: schema(kind.settings) for name, kind in kinds().items()}
    definitions = whole["$defs"]
    for variant in variants.values():
        definitions.update(variant["$defs"])
    options = [{"allOf": [{"$ref": variant["$ref"]}, {"properties": {"kind": {"const": name}}}]} for name, variant in variants.items()]
    definitions["Sections"]["properties"]["providers"] = {
        "type": "object",
        "description": "The upstreams, by names of your own.",
        "additionalProperties": {"oneOf": options},
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Trunkline", **whole}


def _file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigInvalid(
            f"the configuration `{path}` cannot be read: {error.strerror}", hint="`trunkline config example` prints one to begin with."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigInvalid(f"`{path}` is not valid TOML: {error}") from None


def _lay_over(tree: dict[str, Any], environment: Mapping[str, str]) -> None:
    for name, value in environment.items():
        if name.startswith(PREFIX) and "__" in name:
            *path, last = name.removeprefix(PREFIX).lower().split("__")
            table = tree
            for step in path:
                inner = table.setdefault(step, {})
                if not isinstance(inner, dict):
                    raise ConfigInvalid(f"`{name}` is set, but `{step}` is not a table")
                table = cast(dict[str, Any], inner)
            table[last] = _scalar(value)


def _scalar(value: str) -> object:
    """A value as TOML reads it, and else as the text that it is."""
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return value


def _provider(name: str, table: object, by_kind: Mapping[str, Kind]) -> Settings:
    at = f"providers.{name}"
    if not NAME.fullmatch(name):
        raise ConfigInvalid(
            f"`{at}`: a provider's name has small letters, digits, `_`, `-` and `.`", hint="It stands before the `/` of a model."
        )
    if not isinstance(table, dict):
        raise ConfigInvalid(f"`{at}` is not a table", hint=f"Write `[{at}]`.")
    fields = cast(dict[str, object], table)
    kind = fields.get("kind")
    if not isinstance(kind, str):
        raise ConfigInvalid(f"`{at}.kind` is missing", hint=f"Known: {', '.join(by_kind)}.")
    if kind not in by_kind:
        close = nearest(kind, list(by_kind))
        raise ConfigInvalid(
            f"`{at}.kind` is `{kind}`, which is not a kind of provider",
            hint=f"Did you mean `{close}`?" if close else f"Known: {', '.join(by_kind)}.",
        )
    return parse(fields, by_kind[kind].settings, at=at)


def _check_extensions(sections: Sections) -> None:
    for name, settings in sections.extensions.items():
        if not NAME.fullmatch(name):
            raise ConfigInvalid(f"`extensions.{name}`: an extension's name has small letters, digits, `_`, `-` and `.`")
        try:
            settings.grants  # noqa: B018 - it is made to see whether it can be
        except ConfigInvalid as error:
            raise ConfigInvalid(f"`extensions.{name}.network`: {error.message}", hint=error.hint) from None


def _connected(name: str, settings: Settings, kind: Kind, environment: Mapping[str, str]) -> Provider:
    base_url = settings.base_url or kind.base_url
    if base_url is None and kind.answer is None and not kind.launched:
        raise ConfigInvalid(f"`providers.{name}.base_url` is missing", hint='For example `base_url = "http://127.0.0.1:8000/v1"`.')
    _spoken(name, settings, kind)
    opens = None
    if isinstance(settings, DaemonSettings):
        opens = secret(settings.secret, f"providers.{name}.secret", environment, required=True) if settings.secret else None
        check_daemon(name, settings, base_url or "", has_secret=opens is not None)
    source = settings.api_key or kind.api_key
    key = secret(source, f"providers.{name}.api_key", environment, required=settings.api_key is not None) if source else None
    return Provider(name=name, kind=kind, settings=settings, base_url=base_url, api_key=key, secret=opens)


def _spoken(name: str, settings: Settings, kind: Kind) -> None:
    known = [wire.dialect.name for wire in kind.speaks]
    for each in settings.speaks:
        if each not in known:
            close = nearest(each, known)
            raise ConfigInvalid(
                f"`providers.{name}.speaks` names `{each}`, which the kind `{settings.kind}` does not speak",
                hint=f"Did you mean `{close}`?" if close else f"Known: {', '.join(known)}.",
            )


def _text(path: str) -> tuple[str, str]:
    """What a file holds, or an empty text and why."""
    try:
        return Path(path).expanduser().read_text(encoding="utf-8"), f"the file `{path}` is empty"
    except OSError as error:
        reason = error.strerror
    except UnicodeDecodeError:
        reason = "it is not text"
    except (ValueError, RuntimeError) as error:  # no path, or a home folder that nobody has
        reason = str(error)
    return "", f"the file `{path}` cannot be read: {reason}"


def secret(source: str, at: str, environment: Mapping[str, str], *, required: bool) -> Secret | None:
    """Read a secret from where the configuration says.

    Args:
        source: `env:NAME` or `file:PATH`.
        at: the setting, for messages.
        environment: the variables.
        required: whether an absent one is an error.

    Raises:
        ConfigInvalid: says where it was looked for, never what was found.
    """
    place, _, where = source.partition(":")
    if place == "env":
        value = environment.get(where, "")
        problem = f"the environment variable `{where}` is not set"
    else:
        value, problem = _text(where)
    value = value.strip()
    if value and value.isascii() and value.isprintable():
        return Secret(value)
    if value:
        raise ConfigInvalid(f"`{at}`: what `{source}` holds is not one line of ASCII", hint="A key, or a URL, is nothing else.")
    if required:
        raise ConfigInvalid(f"`{at}`: {problem}")
    return None


def address(source: str, at: str, environment: Mapping[str, str] = os.environ) -> Secret:
    """The URL of a service, which may hold a password: as it stands in the configuration, or from where that says.

    Args:
        source: a URL without a password, or `env:NAME` or `file:PATH` of one.
        at: the setting, for messages.
        environment: the variables.

    Raises:
        ConfigInvalid: there is none, or one with a password stands in the file.
    """
    if source.startswith(("env:", "file:")):
        found = secret(source, at, environment, required=True)
        assert found is not None
        return found
    try:
        parts = urlsplit(source)
        open_secret = parts.password is not None or not parse_qs(parts.query).keys().isdisjoint(("password", "sslpassword"))
    except ValueError:
        raise ConfigInvalid(f"`{at}` is not a URL") from None
    if open_secret:
        raise ConfigInvalid(
            f"`{at}` holds a password", hint="Put the URL into a variable or a file, and write `env:NAME` or `file:PATH` in its place."
        )
    return Secret(source)


def shared_server(settings: StoreSettings, environment: Mapping[str, str] = os.environ) -> Address | None:
    """The Valkey or Redis that several processes share; `None` where counters and messages are in memory. Raises: `ConfigInvalid`."""
    if settings.shared == "memory":
        return None
    return server_address(address(settings.shared, "store.shared", environment))
