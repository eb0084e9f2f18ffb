"""What stands in headers (daemon contract, A3, B4). Headers are pairs of bytes in any case; ours are written in lower case."""

import base64
import binascii
import contextlib
import re
from collections.abc import Iterable, Sequence

from trunkline_sdk.daemon.gojson import convert, dump, encode, parse
from trunkline_sdk.daemon.messages import Credential, Loss, Wire

Headers = Sequence[tuple[bytes, bytes]]

AUTHORIZATION = b"authorization"
SURFACE = b"x-surface"
MODEL = b"x-model"
TIMEOUT = b"x-timeout"
TOKEN = b"x-credential-token"
ACCOUNT = b"x-credential-account-id"
TOKEN_TYPE = b"x-credential-token-type"
METADATA = b"x-credential-metadata"
LOSSES = b"x-losses"
REQUEST_ID = b"x-request-id"
PRIVATE = frozenset({AUTHORIZATION, TOKEN, ACCOUNT, TOKEN_TYPE, METADATA})
"""Never to be logged, nor passed on upstream or downstream (H3, H5)."""

CHALLENGE = b'Bearer realm="extension-daemon"'
"""The `WWW-Authenticate` of a daemon that refuses the shared secret: a 401 of its own, not of an upstream (K1)."""

LOSSES_BYTES = 8 * 1024
"""The most that `X-Losses` should have, since clients bound the head of an answer (A3)."""

_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_REALM = re.compile(rb'(?i)\bbearer\b[^,]*\brealm="?extension-daemon"?')
_OWS = b" \t\r\n"


class BadHeader(ValueError):
    """The value of the header `name` cannot be sent; the text does not hold it."""

    def __init__(self, name: bytes) -> None:
        super().__init__(f"the value for the header `{name.decode()}` holds a line end or another control character")
        self.name = name


class _Metadata(Wire, frozen=True, kw_only=True):
    metadata: dict[str, str] = {}


class _Losses(Wire, frozen=True, kw_only=True):
    losses: tuple[Loss, ...] = ()


def find(headers: Headers, name: bytes) -> bytes | None:
    """The first value under a lower-case name, without white space around it."""
    return next((value.strip(_OWS) for key, value in headers if key.lower() == name), None)


def value(name: bytes, text: str) -> bytes:
    """Text as a header's value: UTF-8, without white space around it.

    Raises:
        BadHeader: It has a control character, or is no Unicode.
    """
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raise BadHeader(name) from None
    if _CONTROL.search(raw):
        raise BadHeader(name)
    return raw.strip(_OWS)


def text(raw: bytes | None) -> str:
    """A header's value as text: UTF-8, or Latin-1 where it is none; empty where the header is missing."""
    if raw is None:
        return ""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def authorization(secret: str) -> list[tuple[bytes, bytes]]:
    """The header that shows the daemon's shared secret; none without a secret.

    Raises:
        BadHeader: The secret cannot stand in a header.
    """
    raw = value(AUTHORIZATION, secret.strip())
    return [(AUTHORIZATION, b"Bearer " + raw)] if raw else []


def is_wrong_secret(status: int, headers: Headers) -> bool:
    """Whether this answer is a daemon's own refusal of the shared secret (K1)."""
    return status == 401 and _REALM.search(find(headers, b"www-authenticate") or b"") is not None


def credential(given: Credential | None) -> list[tuple[bytes, bytes]]:
    """The credential headers: each only where it has a value, none for no credential.

    Raises:
        BadHeader: A value that no header can hold.
    """
    if given is None:
        return []
    kind = given.token_type if given.token else given.token_type or ("api_key" if given.api_key else "")
    pairs = [(TOKEN, given.token or given.api_key), (ACCOUNT, given.account_id), (TOKEN_TYPE, kind)]
    headers = [(name, raw) for name, plain in pairs if (raw := value(name, plain))]
    if given.metadata:
        try:
            data = dump({key: given.metadata[key] for key in sorted(given.metadata)})
        except ValueError:
            raise BadHeader(METADATA) from None
        headers.append((METADATA, base64.b64encode(data)))
    return headers


def read_credential(headers: Headers) -> Credential | None:
    """The credential of a request; None where it has none. Metadata that cannot be read counts as missing."""
    token, account, kind = (text(find(headers, name)) for name in (TOKEN, ACCOUNT, TOKEN_TYPE))
    metadata: dict[str, str] = {}
    with contextlib.suppress(ValueError):
        metadata = convert(_Metadata, {"metadata": parse(_debase64(find(headers, METADATA)))}).metadata
    if not (token or account or kind or metadata):
        return None
    is_key = kind == "api_key"
    return Credential(
        token="" if is_key else token, api_key=token if is_key else "", account_id=account, token_type=kind, metadata=metadata
    )


def report(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    """Sorted by path, severity, class and detail, each once."""
    return tuple(sorted(set(losses), key=lambda loss: (loss.path, loss.severity, loss.change, loss.detail)))


def losses(given: Iterable[Loss], *, most: int = LOSSES_BYTES) -> list[tuple[bytes, bytes]]:
    """The `X-Losses` header; none without losses. What does not fit into `most` bytes is one advisory entry `**` (K18).

    Raises:
        ValueError: A loss whose text is no Unicode.
    """
    listed = report(given)
    if not listed:
        return []
    rows = [encode(loss) for loss in listed]
    encoded = base64.b64encode(b"[" + b",".join(rows) + b"]")
    kept = len(rows)
    order = sorted(range(len(rows)), key=lambda number: listed[number].severity == "advisory")  # the material ones stay longest
    while len(encoded) > most and kept:
        kept -= max(1, kept * (len(encoded) - most) // (2 * len(encoded)))
        rest = encode(Loss(path="**", change="dropped", severity="advisory", detail=f"{len(rows) - kept} more"))
        encoded = base64.b64encode(b"[" + b",".join([rows[number] for number in sorted(order[:kept])] + [rest]) + b"]")
    return [(LOSSES, encoded)]


def read_losses(headers: Headers) -> tuple[Loss, ...]:
    """The losses that an answer tells; none where they cannot be read."""
    try:
        return convert(_Losses, {"losses": parse(_debase64(find(headers, LOSSES)))}).losses
    except ValueError:
        return ()


def _debase64(raw: bytes | None) -> bytes:
    """Standard base64, padded.

    Raises:
        ValueError: Anything else.
    """
    try:
        return base64.b64decode(raw or b"", validate=True)
    except binascii.Error:
        raise ValueError("no base64") from None
