"""For whom a call is, as its request says. Pure."""

from trunkline.base.codec import Decoder, Malformed, Raw, Wire, decode_raw
from trunkline.errors import BadRequest
from trunkline.gateway.headers import Headers, first
from trunkline.model import external_id
from trunkline.model.request import Request

HEADER = b"x-trunkline-user"


class _Metadata(Wire, frozen=True):
    user_id: str | None = None


_metadata = Decoder(_Metadata)


def named(headers: Headers, request: Request | None) -> str:
    """What the header calls the end user, else `user` in the body, else `metadata.user_id`; empty where none does.

    Raises:
        BadRequest: what stands there is no id.
    """
    if (header := first(headers, HEADER)) is not None:
        return external_id.check(_header(header), "`X-Trunkline-User`")
    if request is None:
        return ""
    if (raw := request.fields.get("user")) is not None and (user := _text(raw)):
        return external_id.check(user, "`user`")
    if (raw := request.fields.get("metadata")) is not None and (user := _user_of(raw)):
        return external_id.check(user, "`metadata.user_id`")
    return ""


def claimed(headers: Headers, request: Request) -> str:
    """The same for the log, where it is nobody's identity: whatever stands there, cut to a length."""
    if (header := first(headers, HEADER)) is not None:
        return header.decode("utf-8", "replace")[: external_id.LONGEST]
    raw, metadata = request.fields.get("user"), request.fields.get("metadata")
    return ((raw is not None and _text(raw)) or (metadata is not None and _user_of(metadata)) or "")[: external_id.LONGEST]


def _header(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:  # two ids must not become one
        raise BadRequest("`X-Trunkline-User` is not UTF-8", hint="Send an id of ASCII, or encode it.") from None


def _text(raw: Raw) -> str:
    try:
        return decode_raw(raw, str)
    except Malformed:
        return ""  # the provider will say so, if it minds


def _user_of(raw: Raw) -> str:
    try:
        return _metadata.decode(raw).user_id or ""
    except Malformed:
        return ""
