"""From a request's parts to the records that its route declares. Pure but for the body."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from starlette.datastructures import QueryParams

from trunkline.base.codec import Annotated, Malformed, Record, decode_raw, nearest, take
from trunkline.errors import BadRequest, PreconditionFailed, PreconditionRequired, UnsupportedMedia
from trunkline.gateway.headers import Headers, first
from trunkline.server.admin import Route

R = TypeVar("R", bound=Record)

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"  # RFC 7396
MOST_QUERY = 4096  # bytes

_ETAG = re.compile(rb'(W/)?"([\x21\x23-\x7e\x80-\xff]*)"')  # RFC 9110, section 8.8.3
_REVISION = re.compile(rb"[1-9][0-9]{0,17}")


def read_query(raw: bytes, kind: type[R]) -> R:
    """The query as a record; a field that is a list may stand several times.

    Raises:
        BadRequest: names the parameter, and its value where that is wrong.
    """
    if len(raw) > MOST_QUERY:
        raise BadRequest(f"the query is longer than {MOST_QUERY} bytes")
    try:
        text = raw.decode("ascii")
    except UnicodeDecodeError:
        raise BadRequest("the query has bytes that are not percent-encoded") from None
    names = dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))
    hints = get_type_hints(kind)
    found: dict[str, Any] = {}
    for name, value in QueryParams(text).multi_items():
        if name not in names:
            close = nearest(name, list(names))
            raise BadRequest(
                f"`{name}` is not a parameter here",
                hint=f"Did you mean `{close}`?" if close else f"Known here: {', '.join(names) or 'none'}.",
            )
        if "\0" in value:  # PostgreSQL has no room for one
            raise BadRequest(f"`{name}` holds a NUL character")
        if _is_list(hints[names[name]]):
            found.setdefault(name, []).append(value)
        elif name in found:
            raise BadRequest(f"the parameter `{name}` stands twice: `{found[name]}` and `{value}`")
        else:
            found[name] = value
    query = take(found, kind, noun="parameter", lax=True)
    for name, value in found.items():
        if getattr(query, names[name]) is None:
            raise BadRequest(f"`{name}` is `{value}`, and a parameter is no null", hint="Leave it out.")
    return query


def check_type(headers: Headers, method: str) -> None:
    """See that a body says that it is JSON. Raises: `UnsupportedMedia`."""
    given = (first(headers, b"content-type") or b"").decode("latin-1")
    name, *parameters = [part.strip().lower() for part in given.split(";")]
    taken = [JSON, MERGE_PATCH] if method == "PATCH" else [JSON]
    charset = [part for part in parameters if part.startswith("charset=")]
    if name not in taken or (charset and charset[0].removeprefix("charset=").strip('"') != "utf-8"):
        raise UnsupportedMedia(f"the body's `content-type` is `{given[:100]}`", hint=f"Send `{JSON}`, in UTF-8.")


def read_body(body: bytes, kind: type[R]) -> R:
    """The body as a record. Raises: `BadRequest`, naming the field and its value."""
    if not body.strip():
        raise BadRequest("the body is empty", hint="Send a JSON object.")
    try:
        tree: object = decode_raw(body, object)
    except Malformed as error:
        raise BadRequest(f"the body is not JSON: {error}") from None
    if b"\\u0000" in body and _holds_nul(tree):
        raise BadRequest("a text of the body holds a NUL character", hint="Leave it out: a database has no room for it.")
    if not isinstance(tree, Mapping):
        raise BadRequest("the body is JSON, and no object", hint='Send a JSON object: `{"name": "value"}`.')
    return take(tree, kind)  # pyright: ignore[reportUnknownArgumentType] - JSON, of which nothing is known yet


def read_if_match(headers: Headers, route: Route[Any]) -> int | None:
    """The revision that `If-Match` names; None where it names none, or any.

    Raises:
        BadRequest: it cannot be read, names several, or is not for this route.
        PreconditionFailed: it names what is no revision.
        PreconditionRequired: there is none, and the route requires it.
    """
    raw = first(headers, b"if-match")
    if raw is None:
        if route.matches == "required":
            raise PreconditionRequired("this is changed only under `If-Match`", hint="Read it first, and send its `ETag` as `If-Match`.")
        return None
    shown = raw[:100].decode("latin-1")
    if route.matches == "refused":
        raise BadRequest(f"`If-Match` is `{shown}`, and nothing is matched here", hint="Leave it out.")
    if raw.strip() == b"*":
        return None
    found = _ETAG.fullmatch(raw.strip())
    if found is None:
        raise BadRequest(
            f"`If-Match` is `{shown}`, which is not one entity tag", hint='Send the `ETag` as it came: `"7"`, quotes included.'
        )
    if found[1] or not _REVISION.fullmatch(found[2]):  # a weak one never matches: RFC 9110, section 13.1.1
        raise PreconditionFailed(f"`If-Match` is `{shown}`, which is no revision", hint="Read the object again for its `ETag`.")
    return int(found[2])


def is_fresh(headers: Headers, etag: str) -> bool:
    """Whether `If-None-Match` says that the caller has this already (RFC 9110, section 13.1.2)."""
    raw = first(headers, b"if-none-match")
    if raw is None:
        return False
    return raw.strip() == b"*" or etag.strip('"').encode() in {found[1] for found in _ETAG.findall(raw)}


def _holds_nul(tree: object) -> bool:
    match tree:
        case str():
            return "\0" in tree
        case dict() | list():
            inner: list[object] = [*tree, *tree.values()] if isinstance(tree, dict) else tree  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType, reportUnknownMemberType] - JSON, of which nothing is known yet
            return any(map(_holds_nul, inner))
        case _:
            return False


def _is_list(kind: Any) -> bool:
    if get_origin(kind) is Annotated:
        return _is_list(get_args(kind)[0])
    return get_origin(kind) is list or any(map(_is_list, get_args(kind)))
