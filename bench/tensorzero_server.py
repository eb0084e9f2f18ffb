"""Just enough HTTP in front of TensorZero's embedded gateway: python tensorzero_server.py PORT CONFIG. Runs in TensorZero's own venv."""

import asyncio
import json
import re
import sys
from typing import Any

import uvloop
from tensorzero import AsyncTensorZeroGateway


async def serve(port: int, config: str) -> None:
    """Answer until killed."""
    gateway = await AsyncTensorZeroGateway.build_embedded(config_file=config)

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
                await answer(gateway, json.loads(await reader.readexactly(int(length[1]) if length else 0)), writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    await asyncio.start_server(connection, "127.0.0.1", port, backlog=2048)
    await asyncio.Event().wait()


async def answer(gateway: AsyncTensorZeroGateway, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    """One call, in the shape of OpenAI's request and in none of the reply."""
    messages = [message for message in body["messages"] if message["role"] != "system"]
    system = [message["content"] for message in body["messages"] if message["role"] == "system"]
    asked: dict[str, Any] = {"messages": messages, **({"system": system[0]} if system else {})}
    if not body.get("stream"):
        reply = await gateway.inference(model_name=body["model"], input=asked)
        usage = [reply.usage.input_tokens, reply.usage.output_tokens]
        data = json.dumps({"id": str(reply.inference_id), "text": reply.content[0].text, "usage": usage}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(data) + data)
        return
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    async for chunk in await gateway.inference(model_name=body["model"], input=asked, stream=True):
        text = chunk.content[0].text if chunk.content else ""
        usage = chunk.usage and [chunk.usage.input_tokens, chunk.usage.output_tokens]
        data = b"data: " + json.dumps({"text": text, "usage": usage}).encode() + b"\n\n"
        writer.write(b"%x\r\n%b\r\n" % (len(data), data))
    writer.write(b"0\r\n\r\n")


uvloop.run(serve(int(sys.argv[1]), sys.argv[2]))
