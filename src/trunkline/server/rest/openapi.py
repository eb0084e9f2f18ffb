"""The OpenAPI 3.1 document, from the declared routes. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from trunkline.base.codec import Record, decode, encode, schema, schemas
from trunkline.errors import (
    BadRequest,
    Denied,
    Internal,
    LimitReached,
    MethodNotAllowed,
    NotFound,
    PreconditionFailed,
    PreconditionRequired,
    SlowRequest,
    StoreUnavailable,
    TooLarge,
    TrunklineError,
    Unauthenticated,
    UnsupportedEncoding,
    UnsupportedMedia,
)
from trunkline.server.admin import Declared, Route

REF = "#/components/schemas/{name}"
ALWAYS: tuple[type[TrunklineError], ...] = (BadRequest, Unauthenticated, Denied, LimitReached, Internal, StoreUnavailable)
WITH_BODY: tuple[type[TrunklineError], ...] = (SlowRequest, TooLarge, UnsupportedMedia, UnsupportedEncoding)
ABOUT = """Accounts, keys, providers and calls of one Trunkline.

Send a key in `Authorization`, by the scheme `Bearer`, or in `x-api-key`. Lists are pages: `?limit=&after=`, answered by `data` and `next`.

An object with a `revision` has it as its `ETag`: with `If-Match`, which is optional unless a route requires it, a change is refused when
somebody else was faster; `If-None-Match` is 304 where nothing has changed. `PATCH` changes what it names, and nothing else; null clears.

Every error is `{"error": {code, message, hint, fault, request_id}}`. Unknown parameters and fields are errors. What belongs to another
account is not found."""

_BRACES = re.compile(r"\{(\w+)(:path)?\}")
_PAGE = re.compile(rb"\bRows_(\w+)_\b")
"""What a generic record is called by default."""

_ERROR = {
    "type": "object",
    "description": "What went wrong.",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "hint", "fault", "request_id"],
            "properties": {
                "code": {"type": "string", "description": "What programs act on."},
                "message": {"type": "string", "description": "What happened, with the value that was wrong."},
                "hint": {"type": "string", "description": "What to do next, or an empty text."},
                "fault": {"enum": ["caller", "upstream", "extension", "operator"], "description": "Whose it is."},
                "request_id": {"type": "string", "description": "Under this the log has it."},
            },
        }
    },
}


def document(routes: Sequence[Declared]) -> dict[str, Any]:
    """The whole document."""
    kinds = [kind for each in routes for kind in (each.route.body, each.route.answer) if kind is not None]
    found, named = decode(_PAGE.sub(rb"\1Page", encode(schemas(kinds, REF))), tuple[list[dict[str, Any]], dict[str, Any]])
    of = dict(zip(map(str, kinds), found, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in routes:
        paths.setdefault(_BRACES.sub(r"{\1}", each.path), {})[each.route.method.lower()] = _operation(each, of, named)
    tags = {each.name: {"name": each.name, "description": each.resource.about or f"{each.resource.title}."} for each in routes}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Trunkline", "version": "1", "description": ABOUT},
        "tags": list(tags.values()),
        "paths": paths,
        "components": {
            "schemas": {**named, "Error": _ERROR},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
        "security": [{"bearer": []}, {"header": []}],
    }


def errors(route: Route[Any], path: str) -> list[type[TrunklineError]]:
    """All that a route may answer instead of what was asked."""
    found = [*ALWAYS, MethodNotAllowed, *route.errors]
    found += [NotFound] if "{" in path else []
    found += WITH_BODY if route.body is not None else []
    found += [PreconditionFailed] if route.matches != "refused" else []
    found += [PreconditionRequired] if route.matches == "required" else []
    return sorted(dict.fromkeys(found), key=lambda kind: (kind.status, kind.code))


def _operation(each: Declared, of: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    route = each.route
    made: dict[str, Any] = {
        "operationId": f"{each.name}_{route.verb}".replace("-", "_"),
        "tags": [each.name],
        "summary": route.summary,
        "description": "\n\n".join(filter(None, [route.details, f"Needs {needs(route)}."])),
        "x-trunkline-scope": route.scope,
    }
    if route.scope == "account":
        made["x-trunkline-roles"] = list(route.roles)
    if route.own:
        made["x-trunkline-own"] = True
    if parameters := [*_path_parameters(each.path), *_query_parameters(route.query), *_conditions(route)]:
        made["parameters"] = parameters
    if route.body is not None:
        content: dict[str, Any] = {"schema": of[str(route.body)]}
        if (shown := example(of[str(route.body)], named)) is not None:
            content["example"] = shown
        made["requestBody"] = {"required": True, "content": {"application/json": content}}
    made["responses"] = dict(_responses(each, of))
    return made


def needs(route: Route[Any]) -> str:
    """What a caller needs, in words."""
    if route.scope != "account":
        return f"the scope `{route.scope}`"
    own = ", or, for what is a user's own, the scope `inference` and a key of that user" if route.own else ""
    return f"the scope `account` and one of the roles {', '.join(f'`{role}`' for role in route.roles)}, or the scope `admin`{own}"


def _path_parameters(path: str) -> Iterator[dict[str, Any]]:
    for name, _ in _BRACES.findall(path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _query_parameters(kind: type[Record]) -> Iterator[dict[str, Any]]:
    whole = schema(kind)
    shape: dict[str, Any] = whole["$defs"][whole["$ref"].rpartition("/")[2]]
    for name, field in cast(dict[str, dict[str, Any]], shape["properties"]).items():
        rest = _without_null(field)
        yield {
            "name": name,
            "in": "query",
            "required": name in shape.get("required", ()),
            "description": rest.pop("description", ""),
            "schema": rest,
        }


def _without_null(field: dict[str, Any]) -> dict[str, Any]:
    """A parameter's schema: what may be left out cannot be null in a URL."""
    options = [option for option in field.get("anyOf", ()) if option != {"type": "null"}]
    rest = {key: value for key, value in field.items() if key != "anyOf" and not (key == "default" and value is None)}
    match options:
        case []:
            if "enum" in rest:
                rest["enum"] = [value for value in rest["enum"] if value is not None]
            return rest
        case [one]:
            return {**one, **rest}
        case several:
            return {"anyOf": several, **rest}


def _conditions(route: Route[Any]) -> Iterator[dict[str, Any]]:
    if route.matches != "refused":
        yield {
            "name": "If-Match",
            "in": "header",
            "required": route.matches == "required",
            "description": "The `ETag` that the object has to have.",
            "schema": {"type": "string", "pattern": r'^(\*|"[1-9][0-9]{0,17}")$'},
        }


def _responses(each: Declared, of: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    route = each.route
    good: dict[str, Any] = {"description": "Done." if route.answer is None else "What was asked for."}
    if route.answer is not None:
        good["content"] = {"application/json": {"schema": of[str(route.answer)]}}
    yield str(route.good_status), good
    if route.method == "GET":
        yield "304", {"description": "It has not changed since `If-None-Match`."}
    by_status: dict[int, list[type[TrunklineError]]] = {}
    for kind in errors(route, each.path):
        by_status.setdefault(kind.status, []).append(kind)
    for status, kinds in by_status.items():
        described = " ".join(f"`{kind.code}`: {' '.join((kind.__doc__ or '').split())}" for kind in kinds)
        yield str(status), {"description": described, "content": {"application/json": {"schema": {"$ref": REF.format(name="Error")}}}}


def example(field: Mapping[str, Any], named: Mapping[str, Any]) -> Any:  # noqa: C901, PLR0911 - one match over a schema's cases is its table
    """A value that a schema describes, made of its examples, choices and defaults; None where none can be made up. Never a secret."""
    match field:
        case {"$ref": str(ref)}:
            return example(named[ref.rpartition("/")[2]], named)
        case {"writeOnly": True}:
            return "the secret"
        case {"examples": [first, *_]} | {"const": first} | {"enum": [first, *_]}:
            return first
        case {"anyOf": [first, *_]}:
            return example(first, named)
        case {"type": "object", "properties": fields}:
            return _example_object(fields, field.get("required", []), named)
        case {"type": "array", "items": items}:
            one = example(items, named)
            return None if one is None else [one]
        case {"pattern": _}:
            return None
        case {"type": "string"}:
            return "text"
        case {"type": "integer" | "number"}:
            return field.get("minimum", 1)
        case {"type": "boolean"}:
            return True
        case _:
            return None


def _example_object(fields: Mapping[str, Any], required: Sequence[str], named: Mapping[str, Any]) -> dict[str, Any] | None:
    made = {name: example(each, named) for name, each in fields.items() if name in required or "examples" in each}
    return None if None in made.values() else made
