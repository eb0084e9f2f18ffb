"""`trunkline serve`."""

import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from trunkline.app.config import Config, load
from trunkline.app.serving import serve
from trunkline.base.log import open_log
from trunkline.cli.places import ConfigFile, DataFolder, config_file, data_folder


def command(
    *,
    config: ConfigFile = None,
    host: str | None = None,
    port: int | None = None,
    data: DataFolder = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    insecure_http: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Serve until stopped by Ctrl-C or SIGTERM. SIGHUP, or `trunkline reload`, reads the configuration again.

    Args:
        config: the configuration.
        host: the address to listen on (127.0.0.1).
        port: the port to listen on (8484); 0 takes a free one.
        data: the data folder.
        tls_cert: the certificate chain, PEM.
        tls_key: its private key, PEM.
        insecure_http: listen beyond loopback without TLS, behind a proxy that adds it.
    """
    path = config_file(config)
    flags: dict[str, Any] = {
        "host": host,
        "port": port,
        "tls_cert": str(tls_cert) if tls_cert else None,
        "tls_key": str(tls_key) if tls_key else None,
        "insecure_http": insecure_http or None,
    }
    read = partial(_load, path, {name: value for name, value in flags.items() if value is not None})
    first = read()
    log, writer = open_log(first.sections.log, sys.stderr)
    try:
        serve(first, read, data_folder(data), log, terminal=sys.stderr)
    finally:
        writer.close()


def _load(path: Path | None, flags: dict[str, Any]) -> Config:
    """The configuration with the flags over it. Where there was no file, one may be there by now."""
    return load(path or config_file(None), os.environ, server=flags)
