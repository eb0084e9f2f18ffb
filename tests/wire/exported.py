"""`trunkline daemon` in this process, and a product that asks it by the protocol's own client."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import StringIO
from typing import Any

from trunkline.app.config import read
from trunkline.app.daemon import Serving, chosen, served
from trunkline.base.aio import cancelled
from trunkline.base.log import LogSettings, open_log
from trunkline.base.secret import Secret
from trunkline_sdk.daemon.client import Client

SECRET = "canary-the-daemons-own-0001"


@dataclass(frozen=True)
class Exported:
    """Where it listens, a client with its secret, and what it logs."""

    url: str
    client: Client
    lines: StringIO


@asynccontextmanager
async def exported(providers: Mapping[str, Any]) -> AsyncGenerator[Exported]:
    """A daemon of these providers while the block runs."""
    config = read({"providers": dict(providers)})
    lines = StringIO()
    log, writer = open_log(LogSettings(format="json"), lines)
    loop = asyncio.get_running_loop()
    urls: asyncio.Future[tuple[str, ...]] = loop.create_future()
    serving = Serving(secrets=[Secret(SECRET)], port=0)
    task = loop.create_task(served(config, chosen(config, environment={}), serving, log, ready=urls.set_result))
    try:
        await asyncio.wait([task, urls], timeout=10, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        url = (await urls)[0]
        async with Client(url, secret=SECRET) as client:
            yield Exported(url, client, lines)
    finally:
        await cancelled(task)
        writer.close()


def body(**fields: Any) -> bytes:
    """A request's body with a model that is the product's own word for it, and a private field."""
    return json.dumps({"model": "instance/as-the-product-says", "_product": {"private": 1}, **fields}).encode()
