"""What every daemon can be asked: what it serves, and what it must refuse. No call reaches an upstream."""

from trunkline_sdk.daemon.check.probe import CHAT_BODY, Check, Missed, NotHere, Probe, operation, refused
from trunkline_sdk.daemon.gojson import Unreadable, decode
from trunkline_sdk.daemon.messages import InfoResponse
from trunkline_sdk.daemon.protocol import headers, surfaces
from trunkline_sdk.daemon.protocol.routes import (
    INFO,
    INVOKE,
    MODELS,
    OAUTH_EXCHANGE,
    OAUTH_POLL,
    OAUTH_START,
    PREFIX,
    REFRESH,
    ROUTES,
    STREAM,
    is_provider_id,
)

_NOBODY = "trunkline-check-no-such-provider"
_KINDS = {"", "oauth", "token", "none"}
_METHODS = {"browser", "device", "manual"}


async def info(probe: Probe) -> str:
    """`info` is readable, and so is what it says."""
    answer = await probe.send("GET", INFO.path())
    if answer.status == 401:
        raise Missed("HTTP 401: it does not take the secret that DAEMON_SECRET holds, if any")
    if answer.status != 200:
        raise Missed(f"HTTP {answer.status}")
    try:
        probe.info = decode(InfoResponse, answer.body)
    except Unreadable as fault:
        raise Missed(f"the answer cannot be read: {fault}") from None
    ids = [one.id for one in probe.info.providers]
    if bad := [one for one in ids if not is_provider_id(one)]:
        raise Missed(f"{len(bad)} provider ids cannot be part of a path")
    if len(set(ids)) < len(ids):
        raise Missed("two providers have one id")
    return ", ".join(ids) or "no providers"


async def vocabulary(probe: Probe) -> str:
    """Kinds, methods and surfaces are of the known ones."""
    for one in probe.info.providers:
        if one.credential not in _KINDS:
            raise Missed(f"{one.id}: unknown kind of credential")
        if not set(one.oauth_methods) <= _METHODS:
            raise Missed(f"{one.id}: unknown sign-in method")
        if not one.surfaces or not set(one.surfaces) <= set(surfaces.PATHS):
            raise Missed(f"{one.id}: no surface, or an unknown one")
    return ""


async def without_secret(probe: Probe) -> str:
    """No secret and a wrong one are refused on every route, before the body is read."""
    if not probe.daemon.secret:
        raise NotHere("the daemon's secret was not given (DAEMON_SECRET)")
    for secret in ("", probe.daemon.secret + "x", probe.daemon.secret[:-1]):
        for route in ROUTES:
            status = await probe.bare_head(route, secret=secret)
            if status != 401:
                raise Missed(f"{route.method} {route.name} with {'a wrong' if secret else 'no'} secret: HTTP {status}")
    return f"{len(ROUTES)} routes"


async def open_daemon(probe: Probe) -> str:
    """A daemon that is given credentials has a secret (H1)."""
    answer = await probe.send("GET", INFO.path(), secret="")
    if answer.status == 200:
        raise Missed("everyone who can reach the daemon can use it: start it with a secret")
    return ""


async def marked(probe: Probe) -> str:
    """Its own 401 can be told from an upstream's."""
    if not probe.daemon.secret:
        raise NotHere("the daemon's secret was not given (DAEMON_SECRET)")
    answer = await probe.send("GET", INFO.path(), secret=probe.daemon.secret + "x")
    if not headers.is_wrong_secret(answer.status, answer.headers):
        raise Missed(f"a 401 without `WWW-Authenticate: {headers.CHALLENGE.decode()}`")
    return ""


async def unknown_provider(probe: Probe) -> str:
    """A provider that is not there is refused, with a reason."""
    for route in (MODELS, INVOKE, STREAM, REFRESH, OAUTH_START):
        answer = await probe.send(route.method, route.path(_NOBODY), b"{}" if route.method == "POST" else b"", operation("m"))
        said = refused(answer, route.name)
    return said


async def unknown_route(probe: Probe) -> str:
    """A route that is not there is 404, a wrong method 405, both with an error body."""
    refused(await probe.send("GET", PREFIX + "no/such/route"), "an unknown route", 404)
    refused(await probe.send("GET", PREFIX), "the prefix", 404)
    return refused(await probe.send("POST", INFO.path(), b"{}"), "POST info", 405)


async def unknown_surface(probe: Probe) -> str:
    """A surface that no provider has is refused, on both routes."""
    for route in (INVOKE, STREAM):
        answer = await probe.send("POST", probe.path(route), CHAT_BODY, operation("m", "telepathy"))
        said = refused(answer, route.name, 400, 404)
    return said


async def large_head(probe: Probe) -> str:
    """Credentials of several KiB fit into a head (A3): the answer is the one that a small credential gets."""
    path = probe.path(INVOKE)
    small = await probe.send("POST", path, CHAT_BODY, operation("m", "telepathy", x_credential_token=b"t"))
    large = await probe.send("POST", path, CHAT_BODY, operation("m", "telepathy", x_credential_token=b"t" * 48 * 1024))
    if small.status != large.status:
        raise Missed(f"HTTP {large.status} for a token of 48 KiB, {small.status} for a short one")
    return ""


async def bad_metadata(probe: Probe) -> str:
    """Metadata that cannot be read changes nothing."""
    path = probe.path(INVOKE)
    plain = await probe.send("POST", path, CHAT_BODY, operation("m", "telepathy", x_credential_token=b"t"))
    for raw in (b"%%%", b"bm90IGpzb24="):
        odd = await probe.send("POST", path, CHAT_BODY, operation("m", "telepathy", x_credential_token=b"t", x_credential_metadata=raw))
        if (odd.status, odd.reason) != (plain.status, plain.reason):
            raise Missed(f"HTTP {odd.status} with it, {plain.status} without")
    return ""


async def odd_method(probe: Probe) -> str:
    """A sign-in method that is not served is refused with 400 and a reason."""
    return refused(await probe.send("POST", probe.path(OAUTH_START), b'{"method":"telepathy"}', _JSON), "oauth/start", 400, 404)


async def broken_json(probe: Probe) -> str:
    """A body that is no JSON is refused, with a reason."""
    for route in (OAUTH_START, OAUTH_POLL, OAUTH_EXCHANGE, REFRESH):
        said = refused(await probe.send("POST", probe.path(route), b'{"flow":', _JSON), route.name)
    return said


async def no_leak(probe: Probe) -> str:
    """No refusal repeats a credential or the secret."""
    canary = b"canary-5b1c9f"
    fields = operation("m", "telepathy", x_credential_token=canary, x_credential_account_id=canary)
    answer = await probe.send("POST", probe.path(INVOKE), CHAT_BODY, fields)
    secret = probe.daemon.secret.encode()
    for hidden in (canary, *([secret] if len(secret) > 5 else [])):
        if hidden in answer.body or any(hidden in value for _, value in answer.headers):
            raise Missed("an answer repeats what was sent in confidence")
    return ""


async def browsers(probe: Probe) -> str:
    """A request with an `Origin` comes from a web page, and is refused (H7)."""
    answer = await probe.send("GET", INFO.path(), fields=[(b"origin", b"https://evil.example")])
    return refused(answer, "a request with an Origin")


async def additions(probe: Probe) -> str:
    """`info` says what the daemon can do (K14)."""
    if not probe.info.protocol:
        raise Missed("`info` has no `protocol`")
    return f"protocol {probe.info.protocol}"


_JSON = [(b"content-type", b"application/json")]

CHECKS = (
    Check(group="I.2", name="info", level="must", run=info),
    Check(group="A9", name="info uses known words", level="should", run=vocabulary),
    Check(group="I.3", name="a wrong secret is refused before the body", level="must", run=without_secret),
    Check(group="H1", name="the daemon has a secret", level="should", run=open_daemon),
    Check(group="K1", name="its own 401 is marked", level="should", run=marked),
    Check(group="I.4", name="an unknown provider is refused", level="must", run=unknown_provider),
    Check(group="I.4", name="unknown routes and methods", level="should", run=unknown_route),
    Check(group="I.4", name="an unknown surface is refused", level="must", run=unknown_surface),
    Check(group="I.5", name="large credentials fit", level="should", run=large_head),
    Check(group="I.5", name="bad metadata is ignored", level="must", run=bad_metadata),
    Check(group="I.14", name="an unknown sign-in method is refused", level="must", run=odd_method),
    Check(group="I.14", name="broken JSON is refused", level="must", run=broken_json),
    Check(group="H3", name="refusals repeat no credential", level="must", run=no_leak),
    Check(group="H7", name="web pages are refused", level="should", run=browsers),
    Check(group="K14", name="info tells the protocol", level="should", run=additions),
)
