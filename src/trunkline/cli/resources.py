"""The commands that are made from the admin API's resources: `trunkline exchanges list`, and so on for every route of each.

`trunkline.cli.resources.NAME` is the command of the resource `NAME`: the path's braces are its arguments, the query's and the body's fields
its options.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, cast
from urllib.parse import quote, urlencode

from cyclopts import App, Parameter

from trunkline.app.resources import resources
from trunkline.base.codec import Record, decode, schema, text
from trunkline.cli.api import Body, read_body
from trunkline.cli.client import KeyFile, Server, ask, send
from trunkline.cli.output import print_json, print_table, time
from trunkline.cli.places import DataFolder, Json
from trunkline.errors import BadRequest
from trunkline.server.admin import Declared, Resource, declared

_INSTANT = re.compile(r"(\w+_)?at|since|next_attempt")
"""The fields that are instants."""

_BRACES = re.compile(r"\{(\w+)(?::path)?\}")
_SCALARS: dict[str, type] = {"string": str, "integer": int, "number": float, "boolean": bool}
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
TAKEN = frozenset({"server", "key_file", "data", "json", "body", "clear", "if_match"})
"""What commands have options for themselves; a field of such a name comes by `--body`, or in the query of `trunkline api`."""

BESIDE: dict[str, Any] = {"server": Server, "key_file": KeyFile, "data": DataFolder, "json": Json}


def __getattr__(name: str) -> App:
    """The command of a resource. Raises: `AttributeError`, as a module does."""
    found = resources().get(name)
    if found is None:
        raise AttributeError(name)
    return made(name, found)


def made(name: str, resource: Resource[Any]) -> App:
    """A command with one below it for each route."""
    app = App(name=name.replace("_", "-"), help=resource.about or f"{resource.title} of a running server.")
    for each in declared({name: resource}):
        app.command(_command(each), name=each.route.verb)
    return app


def _command(each: Declared) -> Callable[..., None]:
    steps = _BRACES.findall(each.path)
    query, body = dict(_options(each.route.query)), dict(_options(each.route.body) if each.route.body else ())
    secrets = dict(_secrets(each.route.body) if each.route.body else ())

    def run(*values: str, **given: Any) -> None:
        path = _BRACES.sub(lambda found: quote(values[steps.index(found[1])], safe=""), each.path)
        asked = {name: given.get(f"q_{name}") for name in query}
        if found := {name: value for name, value in asked.items() if value is not None}:
            path += "?" + urlencode(found, doseq=True)
        content = _content(given, body, secrets) if each.route.body else b""
        headers = {"if-match": given["if_match"]} if given.get("if_match") else {}
        where = {name: given.get(name) for name in ("server", "key_file", "data")}
        answer = ask(each.route.method, path, body=content, headers=headers, **where)
        _print(each, answer.json, as_json=given.get("json") or False)

    parameters = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY, annotation=Annotated[str, Parameter(help="Which one.")])
        for name in steps
    ]
    options = {f"q_{name}": kind for name, kind in query.items()} | {f"b_{name}": kind for name, kind in body.items()}
    options |= {f"s_{name}": kind for name, kind in secrets.items()}
    if each.route.body is not None:
        options["body"] = Body
    if each.route.method in {"PATCH", "PUT"}:
        options["clear"] = Annotated[list[str] | None, Parameter(name="--clear", negative=(), help="A field to be null. May be repeated.")]
    if each.route.matches != "refused" and each.route.method != "GET":
        options["if_match"] = Annotated[str | None, Parameter(name="--if-match", help="The `ETag` that it has to have.")]
    options |= BESIDE
    parameters += [
        inspect.Parameter(name, _KEYWORD, annotation=kind, default=False if name == "json" else None) for name, kind in options.items()
    ]
    shaped = cast(Any, run)
    shaped.__signature__ = inspect.Signature(parameters)
    shaped.__annotations__ = {each.name: each.annotation for each in parameters}
    shaped.__doc__ = "\n\n".join(filter(None, [each.route.summary, each.route.details]))
    return run


def _content(given: dict[str, Any], body: dict[str, Any], secrets: dict[str, Any]) -> bytes:
    """The body, of the options that were given."""
    fields: dict[str, Any] = {name: value for name in body if (value := given.get(f"b_{name}")) is not None}
    fields |= dict.fromkeys(given.get("clear") or ())
    for name in secrets:
        if (path := given.get(f"s_{name}")) is not None:
            fields[name] = (sys.stdin.read() if str(path) == "-" else _secret(path)).strip()
    whole: str | None = given.get("body")
    if whole is None:
        return send(fields)
    if not fields:
        return read_body(whole)
    return send({**decode(read_body(whole), dict[str, Any]), **fields})


def _secret(path: Path) -> str:
    try:
        return path.expanduser().read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise BadRequest(f"`{path}` cannot be read: {(error.strerror if isinstance(error, OSError) else '') or 'it is not text'}") from None


def _print(each: Declared, answer: Any, *, as_json: bool) -> None:
    """A list as a table, one object as lines, and both as JSON where that is asked for."""
    if as_json:
        print_json(answer)
        return
    match answer:
        case None:
            print("done")
        case {"data": rows, "next": after}:
            columns = each.resource.columns or tuple(rows[0] if rows else ())
            print_table(columns, [[_cell(column, row.get(column)) for column in columns] for row in rows])
            if after is not None:
                print(f"There are more: --after {after}", file=sys.stderr)
        case {**fields}:
            print_table(("field", "value"), [[name, _cell(name, value)] for name, value in fields.items()])
        case other:
            print_json(other)


def _cell(name: str, value: Any) -> str:
    match value:
        case float() | int() if _INSTANT.fullmatch(name):
            return time(value)
        case None:
            return ""
        case str():
            return value
        case [*items] if all(isinstance(item, str) for item in items):
            return ", ".join(items)
        case _:
            return text(value)


# ----------------------------------------------------------------------------------------------------- fields as options
def _options(kind: type[Record]) -> Iterator[tuple[str, Any]]:
    """The fields that can be options; what is deeper comes by `--body`."""
    for name, field in _fields(kind):
        found = _type(field, schema(kind))
        if found is not None and not _is_secret(field) and name not in TAKEN:
            yield name, Annotated[found | None, Parameter(name=_flag(name), negative=(), help=_words(field))]


def _secrets(kind: type[Record]) -> Iterator[tuple[str, Any]]:
    """The fields that hold secrets: they are read from files, since everybody on a machine sees the arguments of a command."""
    for name, field in _fields(kind):
        if _is_secret(field):
            words = f"A file with it, `-` for stdin. {_words(field)}".strip()
            yield name, Annotated[Path | None, Parameter(name=f"{_flag(name)}-file", allow_leading_hyphen=True, help=words)]


def _fields(kind: type[Record]) -> list[tuple[str, dict[str, Any]]]:
    whole = schema(kind)
    return list(whole["$defs"][whole["$ref"].rpartition("/")[2]]["properties"].items())


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _is_secret(field: dict[str, Any]) -> bool:
    return bool(field.get("writeOnly")) or any(option.get("writeOnly") for option in field.get("anyOf", ()))


def _words(field: dict[str, Any]) -> str:
    words = [field.get("description", ""), *(option.get("description", "") for option in field.get("anyOf", ()))]
    return " ".join(filter(None, words))


def _type(field: dict[str, Any], whole: dict[str, Any]) -> Any:
    """The type of an option for a field; None where it is too deep for one."""
    match field:
        case {"$ref": str(ref)}:
            return _type(whole["$defs"][ref.rpartition("/")[2]], whole)
        case {"enum": values}:
            return Literal[tuple(value for value in values if value is not None)]
        case {"anyOf": options}:
            kinds = [found for option in options if option.get("type") != "null" and (found := _type(option, whole)) is not None]
            return kinds[0] if len(kinds) == 1 else None
        case {"type": "array", "items": items}:
            inner = _type(items, whole)
            return None if inner is None else list[inner]
        case {"type": str(name)}:
            return _SCALARS.get(name)
        case _:
            return None
