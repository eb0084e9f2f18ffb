"""Who could listen along: beyond loopback keys must not travel in the clear."""

import ssl
from ipaddress import ip_address

from trunkline.errors import ConfigInvalid
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


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
