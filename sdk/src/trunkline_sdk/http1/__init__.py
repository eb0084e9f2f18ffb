"""An HTTP/1.1 client for asyncio (RFC 9110, RFC 9112) that is exact about ends.

Every wait has its own deadline; cancelling closes the socket at once; a short body is an error; the body comes as it arrives.

```python
async with Client() as client:
    response = await client.request("POST", "https://example.com/v1/chat", [(b"content-type", b"application/json")], body)
    async for chunk in response.body:
        ...
```
"""

from trunkline_sdk.http1.client import Client
from trunkline_sdk.http1.decoders import Decoder, DecoderFactory
from trunkline_sdk.http1.dialling import Address, Dial, Origin, connect, connect_first, dial, resolve, tls_context
from trunkline_sdk.http1.errors import (
    BodyCut,
    BodyTooLarge,
    CertificateRejected,
    ClientClosed,
    ConnectFailed,
    ConnectionLost,
    ConnectTimeout,
    FirstByteTimeout,
    Garbled,
    HttpError,
    HttpTimeout,
    InvalidRequest,
    PoolFull,
    PoolTimeout,
    SilenceTimeout,
    UndecodableBody,
)
from trunkline_sdk.http1.limits import Limits, Timeouts
from trunkline_sdk.http1.response import Body, Response

__all__ = [
    "Address",
    "Body",
    "BodyCut",
    "BodyTooLarge",
    "CertificateRejected",
    "Client",
    "ClientClosed",
    "ConnectFailed",
    "ConnectTimeout",
    "ConnectionLost",
    "Decoder",
    "DecoderFactory",
    "Dial",
    "FirstByteTimeout",
    "Garbled",
    "HttpError",
    "HttpTimeout",
    "InvalidRequest",
    "Limits",
    "Origin",
    "PoolFull",
    "PoolTimeout",
    "Response",
    "SilenceTimeout",
    "Timeouts",
    "UndecodableBody",
    "connect",
    "connect_first",
    "dial",
    "resolve",
    "tls_context",
]
