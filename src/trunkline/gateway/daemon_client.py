"""How a daemon is asked: over an address that was judged and a certificate that is known, and what its failures are here.

Redirects are not followed and proxies not asked (daemon contract, A7, H2).
"""

import ssl
from dataclasses import replace

from trunkline.base.egress import Egress
from trunkline.errors import (
    ConfigInvalid,
    TrunklineError,
    UpstreamBusy,
    UpstreamDenied,
    UpstreamDown,
    UpstreamGarbled,
    UpstreamRefused,
)
from trunkline.net.decoding import BEYOND
from trunkline.net.dial import JudgingDial
from trunkline.net.pins import PinnedDial
from trunkline.providers import Provider
from trunkline.providers.daemon import DaemonSettings, secret_refused
from trunkline_sdk import http1
from trunkline_sdk.daemon.client import OURS, Client, Options
from trunkline_sdk.daemon.errors import AddressRefused, CallFailed
from trunkline_sdk.daemon.protocol.routes import base_url

LIMITS = http1.Limits(head_bytes=1 << 20, unfolded_bytes=1 << 62)
"""The daemon's client has bounds of its own for bodies; heads may hold long lists of losses (daemon contract, A3)."""

MARGIN = 10.0  # seconds that a daemon has to tell of a deadline itself


def settings_of(daemon: Provider) -> DaemonSettings:
    """What the operator says about a daemon. Raises: `ConfigInvalid`: it is something else."""
    if not isinstance(daemon.settings, DaemonSettings):
        raise ConfigInvalid(f"`providers.{daemon.name}` is to be an extension daemon, and its settings are of another kind")
    return daemon.settings


def check(daemon: Provider) -> None:
    """Whether a daemon can be asked as it is configured. Raises: `ConfigInvalid`."""
    trusted(daemon.name, settings_of(daemon))
    try:
        base_url(daemon.base_url or "")
    except AddressRefused as error:
        raise ConfigInvalid(f"`providers.{daemon.name}.base_url`: {error}") from None


def client_of(daemon: Provider, egress: Egress, tls: ssl.SSLContext) -> Client:
    """The client of one daemon; it has connections of its own.

    Args:
        daemon: as it is configured, and checked.
        egress: which addresses may be dialled.
        tls: this machine's trusted roots, for a daemon that has no others.

    Raises:
        ConfigInvalid: its certificates cannot be read any more.
    """
    settings = settings_of(daemon)
    assert daemon.base_url is not None  # seen to by `check`
    http = http1.Client(
        dial=PinnedDial(JudgingDial(egress), settings.pins), decoders=BEYOND, limits=LIMITS, tls=trusted(daemon.name, settings) or tls
    )
    # That a stream is whole is judged by its dialect here, for which the client's own look would be a second one.
    options = Options(
        fixes=replace(OURS, cut_streams_fail=False),
        connect_seconds=settings.timeouts.connect,
        header_seconds=settings.timeouts.first_byte + MARGIN,
        margin_seconds=MARGIN,
        record_silence=settings.timeouts.silence,
    )
    secret = daemon.secret.reveal() if daemon.secret else ""
    return Client(daemon.base_url, secret=secret, transport=http, options=options)


def trusted(name: str, settings: DaemonSettings) -> ssl.SSLContext | None:
    """The certificates that a daemon's is held to; none where they are this machine's. Raises: `ConfigInvalid`."""
    if settings.ca is None:
        return None
    try:
        return http1.tls_context(settings.ca)
    except OSError as error:
        reason = "it holds no certificates" if isinstance(error, ssl.SSLError) else error.strerror
        raise ConfigInvalid(
            f"`providers.{name}.ca`: the file `{settings.ca}` cannot be used: {reason}", hint="It holds certificates in PEM."
        ) from None


def failure(error: CallFailed, name: str, *, secret_only: bool = False) -> TrunklineError:
    """A failure of `info` or `models` as an error about the provider (daemon contract, D2), in our own words.

    Args:
        error: what the client says.
        name: the daemon's or the provider's.
        secret_only: nothing but the daemon's secret went along, so that a denial can only be of that.
    """
    status = error.classification.status or None
    match error.kind:
        case "configuration":
            return secret_refused(name)
        case "auth" | "forbidden":
            return secret_refused(name) if secret_only else UpstreamDenied("the provider refuses the credential", upstream_status=status)
        case "rate_limited":
            return UpstreamBusy("the provider asks to come back later", upstream_status=status)
        case "transport":
            return UpstreamDown("the daemon cannot be reached, or did not answer in time")
        case "invalid_request":
            return ConfigInvalid("the credential holds what cannot be sent in a header")
        case _:
            return _by_status(status or 0)


def _by_status(status: int) -> TrunklineError:
    if status >= 500 or status == 408:
        return UpstreamDown("the daemon failed, or its provider did", upstream_status=status)
    if status >= 400:
        return UpstreamRefused("the daemon has no such thing", upstream_status=status)
    return UpstreamGarbled("the daemon's answer cannot be used", upstream_status=status or None)
