"""`trunkline daemon`."""

import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from trunkline.app.config import load
from trunkline.app.daemon import PORT, Serving, chosen, serve
from trunkline.base.log import open_log
from trunkline.base.secret import Secret
from trunkline.cli.places import ConfigFile, config_file
from trunkline.errors import BadRequest, ConfigInvalid
from trunkline_sdk.listen import Tls

VARIABLE = "TRUNKLINE_DAEMON_SECRET"

Many = Annotated[list[str], Parameter(negative=())]


def command(
    *,
    provider: Many = [],  # noqa: B006 - read only
    config: ConfigFile = None,
    secret_file: Path | None = None,
    bind: str = f"127.0.0.1:{PORT}",
    unix: Path | None = None,
    name: Many = [],  # noqa: B006 - read only
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    drain_seconds: float = 30.0,
) -> None:
    """Serve the configured providers to other programs, by the extension daemon protocol, until stopped by Ctrl-C or SIGTERM.

    Credentials come from those programs, with each call; what is configured or stored here is not used. Anyone who can reach the daemon
    can use its providers that need none, so give it a secret: in TRUNKLINE_DAEMON_SECRET or in a file.

    Args:
        provider: one to serve; may be repeated. By default all but daemons.
        secret_file: holds the secret that programs show; a second line holds the old one while it is being changed.
        bind: the address and the port to listen on; port 0 takes a free one.
        unix: a Unix socket to listen on instead, which is its owner's alone.
        name: another name under which programs reach it; may be repeated.
        tls_cert: the certificate chain, PEM.
        tls_key: its private key, PEM.
        drain_seconds: how long calls under way may go on when it is stopped.
    """
    host, port = _address(bind)
    if (tls_cert is None) != (tls_key is None):
        raise BadRequest("TLS needs the certificate and its key", hint="Give `--tls-cert` and `--tls-key`.")
    serving = Serving(
        secrets=_secrets(secret_file),
        host=host,
        port=port,
        unix=unix,
        names=name,
        tls=Tls(tls_cert, tls_key) if tls_cert and tls_key else None,
        drain_seconds=drain_seconds,
    )
    read = load(config_file(config), os.environ)
    choices = chosen(read, provider)
    log, writer = open_log(read.sections.log, sys.stderr)
    try:
        serve(read, choices, serving, log)
    finally:
        writer.close()


def _address(bind: str) -> tuple[str, int]:
    """`HOST:PORT`; an IPv6 address in brackets."""
    host, colon, port = bind.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535 or (":" in host and not host.startswith("[")):
        raise BadRequest(f"`--bind {bind}` is not an address and a port", hint="For example 127.0.0.1:18888, or [::1]:18888.")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _secrets(file: Path | None) -> list[Secret]:
    """The secrets that products may show. One that was meant to be there and is empty is an error, not an open door."""
    if file is None:
        given = os.environ.get(VARIABLE)
        if given is not None and not given.strip():
            raise ConfigInvalid(f"the variable {VARIABLE} is empty", hint="Give it a secret, or take it away.")
        return [Secret(given.strip())] if given else []
    try:
        lines = file.expanduser().read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError:
        raise ConfigInvalid(f"the secret's file `{file}` is not text") from None
    except OSError as error:
        raise ConfigInvalid(f"the secret's file `{file}` cannot be read: {error.strerror}") from None
    secrets = [Secret(line.strip()) for line in lines if line.strip()]
    if not secrets:
        raise ConfigInvalid(f"the secret's file `{file}` is empty", hint="For example `openssl rand -base64 32` makes one.")
    return secrets
