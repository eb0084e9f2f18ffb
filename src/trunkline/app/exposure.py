"""Who could listen along: beyond loopback keys must not travel in the clear."""

import ssl
from ipaddress import ip_address
from urllib.parse import urlsplit

from trunkline.errors import ConfigInvalid
from trunkline.providers.daemon import DaemonSettings
from trunkline.server.settings import ServerSettings


def check_exposure(settings: ServerSettings) -> None:
    """Whether it may listen where the settings say.

    Raises:
        ConfigInvalid: it would listen beyond loopback without TLS, or has half of what TLS needs.
    """
    if bool(settings.tls_cert) != bool(settings.tls_key):
        missing = "tls_key" if settings.tls_cert else "tls_cert"
        raise ConfigInvalid(f"`server.{missing}` is missing", hint="TLS needs the certificate and its key.")
    if not settings.tls_cert and not settings.insecure_http and not _is_loopback(settings.host):
        raise ConfigInvalid(
            f"`{settings.host}` can be reached from other machines, and there is no TLS",
            hint="Give `--tls-cert` and `--tls-key`; or `--insecure-http`, if a proxy in front of it adds TLS.",
        )


def check_tls(settings: ServerSettings) -> None:
    """Whether the certificate and its key, if any, can be used. Raises: `ConfigInvalid`."""
    if not settings.tls_cert or not settings.tls_key:
        return
    try:
        # A key with a passphrase would have OpenSSL ask the terminal for it, and a server wait for ever.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.tls_cert, settings.tls_key, password=lambda: b"")
    except (OSError, ValueError) as error:
        reason = "they are no such PEM files, do not belong together, or the key has a passphrase"
        if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
            reason = error.strerror or reason
        raise ConfigInvalid(
            f"`server.tls_cert` and `server.tls_key` cannot be used: {reason}",
            hint=f"They name the files `{settings.tls_cert}` and `{settings.tls_key}`.",
        ) from None


def check_daemon(name: str, settings: DaemonSettings, base_url: str, *, has_secret: bool) -> None:
    """Whether a daemon may be asked at an address: its secret and everybody's credentials travel there (daemon contract, H1, H2).

    Raises:
        ConfigInvalid: others could read along, anybody could ask it, or a setting is of no use there.
    """
    at = f"providers.{name}"
    if settings.api_key is not None:
        raise ConfigInvalid(
            f"`{at}.api_key`: an extension daemon has none",
            hint=f"What opens it is its `secret`; for a provider behind it there is `trunkline credentials add {name}/PROVIDER`.",
        )
    try:
        parts = urlsplit(base_url)
        host = parts.hostname or ""
    except ValueError:
        raise ConfigInvalid(f"`{at}.base_url` is not a URL") from None
    plain = parts.scheme == "http"
    if plain and (settings.ca is not None or settings.pins):
        raise ConfigInvalid(f"`{at}`: `ca` and `pins` are about TLS, and `base_url` begins with `http:`")
    if _is_loopback(host):
        return
    if plain and not settings.insecure_http:
        raise ConfigInvalid(
            f"`{at}.base_url` leaves this machine, and there is no TLS: its secret and all credentials could be read on the way",
            hint="Use an `https` address; or say `insecure_http = true`, if nobody can listen in between.",
        )
    if not has_secret:
        raise ConfigInvalid(
            f"`{at}.secret` is missing: a daemon beyond this machine needs one",
            hint="Start the daemon with a secret, and name it here as `env:NAME` or `file:PATH`.",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
