"""`trunkline disconnect`."""

import asyncio
from urllib.parse import quote

from trunkline.cli.client import KeyFile, Server
from trunkline.cli.connect import CONNECTIONS, Connection, ForAccount, ForUser, asker
from trunkline.cli.connections import every
from trunkline.cli.output import print_json
from trunkline.cli.places import DataFolder, Json
from trunkline.cli.sign_in import Rest
from trunkline.errors import BadRequest, NotFound


def command(
    connection: str,
    *,
    account: ForAccount = None,
    user: ForUser = None,
    server: Server = None,
    key_file: KeyFile = None,
    data: DataFolder = None,
    json: Json = False,
) -> None:
    """Have a running server forget a sign-in or a token, at once and for good.

    Args:
        connection: its id, `con_…`; or the provider's name, where that has one alone.
    """
    row = asyncio.run(_disconnected(asker(server, key_file, data), connection, account, user))
    if json:
        print_json(row)
    else:
        print(f"disconnected {row.provider}: {row.id}, for {row.whose}")


async def _disconnected(rest: Rest, name: str, account: str | None, user: str | None) -> Connection:
    rows = [row for row in await every(rest) if row.state == "active"]
    fitting = [row for row in rows if row.id == name] or [
        row
        for row in rows
        if name in {row.provider, row.provider.partition("/")[2]} and account in {None, row.account} and user in {None, row.user}
    ]
    if not fitting:
        raise NotFound(f"there is no connection `{name}`", hint="`trunkline connections` lists them.")
    if len(fitting) > 1:
        named = ", ".join(f"`{row.id}` (for {row.whose})" for row in fitting)
        raise BadRequest(f"there are {len(fitting)} connections to `{name}`", hint=f"Name one of {named}.")
    [row] = fitting
    await rest("DELETE", f"{CONNECTIONS}/{quote(row.id, safe='')}")
    return row
