"""The product's side: asks one daemon (daemon contract, A, C, D).

```python
async with Client("http://127.0.0.1:18888", secret=secret) as client:
    info = await client.info()
    async with await client.stream("codex", Request("responses", "gpt-5", body), credential) as stream:
        async for record in stream:
            ...
```
"""

from trunkline_sdk.daemon.client.arriving import Arriving
from trunkline_sdk.daemon.client.client import Client, Driver, Reply
from trunkline_sdk.daemon.client.options import Options
from trunkline_sdk.daemon.client.provider import Provider
from trunkline_sdk.daemon.client.stream import Stream
from trunkline_sdk.daemon.client.transport import Answer, Transport, over_tcp, over_unix
from trunkline_sdk.daemon.protocol.catalogue import Catalogue
from trunkline_sdk.daemon.protocol.fixes import ORIGINAL, OURS, Fixes
from trunkline_sdk.daemon.protocol.surfaces import Request

__all__ = [
    "ORIGINAL",
    "OURS",
    "Answer",
    "Arriving",
    "Catalogue",
    "Client",
    "Driver",
    "Fixes",
    "Options",
    "Provider",
    "Reply",
    "Request",
    "Stream",
    "Transport",
    "over_tcp",
    "over_unix",
]
