"""`trunkline api`."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from trunkline.base.codec import Malformed, decode_raw
from trunkline.cli.client import KeyFile, Server, ask
from trunkline.cli.output import print_json
from trunkline.cli.places import DataFolder, Json
from trunkline.errors import BadRequest

ROOT = "/api/v1/"
METHODS = ("GET", "POST", "PATCH", "PUT", "DELETE")

Body = Annotated[str | None, Parameter(name="--body", allow_leading_hyphen=True, help="The body as JSON; `@FILE` reads a file, `-` stdin.")]


def command(
    method: str,
    path: str,
    *,
    body: Body = None,
    if_match: Annotated[str | None, Parameter(name="--if-match")] = None,
    server: Server = None,
    key_file: KeyFile = None,
    data: DataFolder = None,
    json: Json = False,
) -> None:
    """Ask the admin API of a running server, and print its answer, which is JSON in any case.

    Args:
        method: `GET`, `POST`, `PATCH`, `PUT` or `DELETE`.
        path: below `/api/v1/`, such as `exchanges?limit=5`; one that begins with `/` is whole.
        if_match: the `ETag` that the object has to have.
    """
    del json
    if method.upper() not in METHODS:
        raise BadRequest(f"`{method}` is no method that the admin API has", hint=f"There are {', '.join(METHODS)}.")
    headers = {"if-match": if_match} if if_match else {}
    answer = ask(
        method.upper(),
        path if path.startswith("/") else ROOT + path,
        server=server,
        key_file=key_file,
        data=data,
        body=b"" if body is None else read_body(body),
        headers=headers,
    )
    if answer.body and not answer.headers.get("content-type", "").startswith("application/json"):
        sys.stdout.write(answer.body.decode("utf-8", "replace"))
    elif answer.body:
        print_json(answer.json)


def read_body(given: str) -> bytes:
    """A body: as it was given, or from where that says. Raises: `BadRequest`."""
    try:
        content = (
            sys.stdin.buffer.read()
            if given == "-"
            else Path(given[1:]).expanduser().read_bytes()
            if given.startswith("@")
            else given.encode()
        )
    except OSError as error:
        raise BadRequest(f"the body cannot be read from `{given[1:]}`: {error.strerror}") from None
    try:
        decode_raw(content, object)
    except Malformed as error:
        raise BadRequest(f"the body is not JSON: {error}", hint="Quote it for the shell, or use `@FILE`, or `-` for stdin.") from None
    return content
