"""`trunkline connections`."""

import asyncio
from typing import Annotated
from urllib.parse import quote

from cyclopts import Parameter

from trunkline.base.codec import Wire, decode
from trunkline.cli.client import KeyFile, Server
from trunkline.cli.connect import CONNECTIONS, Connection, asker
from trunkline.cli.output import print_json, print_table, time
from trunkline.cli.places import DataFolder, Json
from trunkline.cli.sign_in import Rest

_COLUMNS = ("id", "provider", "for", "kind", "label", "state", "until")


def command(
    *,
    provider: Annotated[str | None, Parameter(help="Only those of this provider, `DAEMON/ID`.")] = None,
    server: Server = None,
    key_file: KeyFile = None,
    data: DataFolder = None,
    json: Json = False,
) -> None:
    """List the sign-ins and tokens with which a running server calls providers behind extension daemons; none of their secrets."""
    rows = asyncio.run(every(asker(server, key_file, data), provider))
    if json:
        print_json(rows)
    else:
        print_table(_COLUMNS, [_cells(row) for row in rows])


class Page(Wire, frozen=True):
    """A page of the list."""

    data: list[Connection]
    next: str | None = None


async def every(rest: Rest, provider: str | None = None) -> list[Connection]:
    """All that the key may know of."""
    rows: list[Connection] = []
    narrowed = f"&provider={quote(provider, safe='')}" if provider else ""
    after = ""
    while True:
        page = decode(await rest("GET", f"{CONNECTIONS}?limit=500{narrowed}{after}"), Page)
        rows += page.data
        if page.next is None:
            return rows
        after = f"&after={quote(page.next, safe='')}"


def _cells(row: Connection) -> list[str]:
    if row.expires_at is None:
        until = ""
    elif row.refreshable:
        until = "renewed by itself"
    else:
        until = time(row.expires_at)
    return [row.id, row.provider, row.whose, row.token_type, row.label or "", row.state, until]
