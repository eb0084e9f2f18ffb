"""An extension's process: the program that a sandbox's launcher runs, and what an extension's code is given.

```python
async def activate(context):                      # the folder's main file; may be no coroutine, may return what has a `dispose`
    context.handle("forecast", forecast)

async def forecast(params, call):                 # likewise
    page = await call.network.fetch(f"https://weather.example/{params['city']}")
    return {"status": page.status}

async def deactivate(): ...                       # may be left out
```

The launcher loads `PROGRAM` and calls its `main(controls, arguments)`, with the host's connection at descriptor 3, always; `controls` is what it did
to the process before that, as `trunkline_sdk.rpc.messages.Control` has it, and goes into the worker's hello. stdin is `/dev/null`; stdout and
stderr belong to the extension, and lead to its log.

What the two call each other, beside what is the protocol's own (`trunkline_sdk.rpc`):

| the host calls | with | is answered |
| --- | --- | --- |
| `activate` | `{}` | `{registered: [name]}`: the main file is imported, and its `activate` has run. Else `failed`, with `details` `{stage, error, at}`; without `retryable` it would fail again |
| `call` | `{name, params}` | what the handler returned. What it yields is a stream that it opens to answer the call, and then `null` |
| `deactivate` | | `null`, when `deactivate` and `dispose` have run; the worker exits then |
| `ping` | | `{lag}`: for how many seconds the loop has not turned |
| `dump` | | `null`; every thread's stack is in stderr |

The records of `call`'s context, and of what the worker calls and tells (`network.fetch`, `network.stream`, `log`), are in `trunkline_sdk.api`.
Beside those it tells `lag {seconds}`: once a second while the loop does not turn, and 0 when it turns again.

`ping` and `dump` may come beside as many calls as the worker takes. They are answered, and `lag` is told, by a thread of their own while extension code keeps the loop. On SIGUSR1 stacks are written even
when the interpreter itself is stuck. A worker ends when its connection does.

| exit status | |
| --- | --- |
| 0 | it was deactivated, or the host closed the connection |
| 76 | what came is no protocol |
| 78 | the host does not want it |
| 143 | SIGTERM |

| module | is |
| --- | --- |
| `program` | the file that is executed |
| `running` | one worker's life |
| `extension` | the extension's code: imported, activated, called, ended |
| `context` | what that code is given |
| `network` | HTTP, by way of the host |
| `faults` | an exception in words |
| `wire` | the descriptor 3 |
| `urgent` | what is answered before everything else |
| `watch` | the thread |
"""

from pathlib import Path

PROGRAM = str(Path(__file__).with_name("program.py"))
"""The file that a launcher executes."""

PRELOAD = ("asyncio", "trunkline_sdk.worker.running")
"""Modules that a fork server imports once for all workers; that starts nothing and opens nothing."""

VERSION = "0.1.0"
"""Of the SDK, as a worker tells it."""

API = "1"
"""Of what an extension's code is given."""
