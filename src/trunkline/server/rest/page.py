"""The OpenAPI document as a page for people: one file, without scripts, and nothing from elsewhere."""

import base64
import re
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, Template
from markupsafe import Markup, escape

from trunkline.base.codec import pretty

_CODE = re.compile(r"`([^`]+)`")


def render(document: dict[str, Any]) -> str:
    """The page."""
    schemas: dict[str, Any] = document["components"]["schemas"]
    return TEMPLATE.render(info=document["info"], groups=groups(document), schemas=schemas, style=Markup(STYLE))  # noqa: S704 - our own


def groups(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The document's tags, each with its `operations`, which know their `method` and `path`."""
    operations: list[dict[str, Any]] = [
        {**operation, "path": path, "method": method.upper()}
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    return [{**tag, "operations": [each for each in operations if each["tags"] == [tag["name"]]]} for tag in document["tags"]]


def policy() -> str:
    """The `Content-Security-Policy` under which the page works: its own style, and nothing else."""
    digest = base64.b64encode(sha256(STYLE.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def kind(field: dict[str, Any]) -> str:
    """A type in words."""
    match field:
        case {"$ref": str(ref)}:
            return ref.rpartition("/")[2]
        case {"anyOf": options}:
            return " or ".join(kind(option) for option in options)
        case {"enum": values}:
            return " or ".join("null" if value is None else str(value) for value in values)
        case {"type": "array", "items": items}:
            return f"list of {kind(items)}"
        case {"type": name}:
            return str(name)
        case _:
            return "any"


def _prose(text: str) -> Markup:
    """Text with what stands in backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped


def _made() -> Template:
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(prose=_prose, kind=kind, pretty=pretty)
    return environment.from_string(_file("page.html.jinja"))


def _file(name: str) -> str:
    return files("trunkline.server.rest").joinpath(name).read_text(encoding="utf-8")


STYLE = _file("page.css")
TEMPLATE = _made()  # at the start: compiling it imports codecs
