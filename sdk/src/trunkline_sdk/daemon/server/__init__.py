"""The daemon's side: write one class for a provider, and any product that speaks the protocol can use it.

```python
from trunkline_sdk.daemon.server.running import serve     # needs the extra `serve`

class Echo(Backend):
    info = ProviderInfo(id="echo", name="Echo", surfaces=("chat_completions",), credential="none")

    async def invoke(self, call: Call) -> Reply:
        return Reply(call.outgoing())

serve(Echo(), secret="...")
```

`Daemon` is an ASGI app; `serve` and `run` put it on `trunkline_sdk.listen`, which tells at once of a product that leaves.
"""

from trunkline_sdk.daemon.server.app import Daemon
from trunkline_sdk.daemon.server.backend import Backend, Call, Reply, Stream
from trunkline_sdk.daemon.server.catalogue import serving
from trunkline_sdk.daemon.server.failures import Failure, FailureType, GrantRefused
from trunkline_sdk.daemon.server.limits import DEFAULT_LIMITS, DaemonLimits

__all__ = [
    "DEFAULT_LIMITS",
    "Backend",
    "Call",
    "Daemon",
    "DaemonLimits",
    "Failure",
    "FailureType",
    "GrantRefused",
    "Reply",
    "Stream",
    "serving",
]
