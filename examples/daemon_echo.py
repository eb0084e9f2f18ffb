"""A daemon in one class: it says what it was told. `python examples/daemon_echo.py`, then point a product at http://127.0.0.1:18888."""

import json
import os
from collections.abc import AsyncIterator, Sequence

from trunkline_sdk.daemon.messages import Credential, ModelInfo, ProviderInfo
from trunkline_sdk.daemon.server import Backend, Call, Reply, Stream
from trunkline_sdk.daemon.server.running import serve


class Echo(Backend):
    info = ProviderInfo(id="echo", name="Echo", surfaces=("chat_completions",), credential="none")

    async def models(self, credential: Credential | None) -> Sequence[ModelInfo]:
        return [ModelInfo(id="parrot", owned_by="me")]

    async def invoke(self, call: Call) -> Reply:
        message = {"role": "assistant", "content": said(call)}
        return Reply(json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode())

    async def stream(self, call: Call) -> Stream:
        async def events() -> AsyncIterator[bytes]:
            for word in said(call).split():
                yield b"data: %s\n\n" % json.dumps({"choices": [{"index": 0, "delta": {"content": word + " "}}]}).encode()
            yield b"data: [DONE]\n\n"

        return Stream(events())


def said(call: Call) -> str:
    return json.loads(call.body)["messages"][-1]["content"]


if __name__ == "__main__":
    serve(Echo(), secret=os.environ.get("DAEMON_SECRET", ""), port=int(os.environ.get("PORT", "18888")))
