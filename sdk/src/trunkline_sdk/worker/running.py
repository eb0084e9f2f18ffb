"""One worker's life: it greets the host, does what it is asked, and ends with its connection."""

import asyncio
import faulthandler
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from trunkline_sdk.channel import Call, Channel
from trunkline_sdk.rpc import messages
from trunkline_sdk.rpc.errors import RpcError
from trunkline_sdk.rpc.messages import Control, Hello
from trunkline_sdk.rpc.peer import Peer
from trunkline_sdk.worker import API, VERSION, faults
from trunkline_sdk.worker.extension import Extension
from trunkline_sdk.worker.urgent import Urgent
from trunkline_sdk.worker.watch import Watch
from trunkline_sdk.worker.wire import Wire

CHANNEL = 3
STDOUT, STDERR = 1, 2
BROKEN, UNWANTED, TERMINATED = 76, 78, 128 + signal.SIGTERM
"""Exit statuses: what came is no protocol; the host does not want this worker; SIGTERM."""


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    """Which extension it is.

    Attributes:
        name: what it is called.
        folder: its own, absolute.
        main: the file in it that has `activate`.
    """

    name: str
    folder: str
    main: str = "main.py"


def run(controls: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any]) -> int:
    """Be a worker until it is over; the exit status. Nothing of what it began is waited for."""
    _settle()
    given = msgspec.convert(arguments, Arguments)
    hello = Hello(sdk=VERSION, api=API, pid=os.getpid(), controls=msgspec.convert(controls, tuple[Control, ...]))
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=CHANNEL)
    sock.set_inheritable(False)
    return asyncio.new_event_loop().run_until_complete(_live(sock, hello, given))


def _settle() -> None:
    sys.dont_write_bytecode = True
    # New ones: in a fork the old ones still believe in the fork server's `/dev/null`, which has a position.
    sys.stdout, sys.stderr = (open(number, "w", 1, "utf-8", "backslashreplace", closefd=False) for number in (STDOUT, STDERR))  # noqa: SIM115
    faulthandler.enable(STDERR)
    faulthandler.register(signal.SIGUSR1, STDERR)
    # The first process of a namespace is not ended by a signal that it does not handle.
    signal.signal(signal.SIGTERM, lambda _number, _frame: os._exit(TERMINATED))


async def _live(sock: socket.socket, hello: Hello, given: Arguments) -> int:
    loop = asyncio.get_running_loop()
    watch = Watch(loop, sock)
    deactivated = asyncio.Event()

    def reply(urgent: Urgent) -> bytes:
        if urgent.method == "dump":
            faulthandler.dump_traceback(STDERR)
            return messages.result(urgent.id, b"null")
        return messages.result(urgent.id, messages.encode({"lag": round(watch.lag, 1)}))

    async def handle(call: Call) -> object:
        match call.method:
            case "activate":
                return {"registered": await extension.activate()}
            case "call":
                return await extension.call(call)
            case "deactivate":
                task = asyncio.current_task()
                assert task is not None
                task.add_done_callback(lambda _: deactivated.set())  # the channel's own, which answers, comes before it
                return await extension.deactivate()
            case _:
                raise RpcError("method_not_found", f"there is no `{call.method}`")

    wire = Wire(sock, reply)
    channel = Channel(Peer("worker"), handle, crashed=lambda _, error: faults.show(error))
    extension = Extension(channel, name=given.name, folder=given.folder, main=given.main)
    wire.start(channel)
    watch.start(wire)
    try:
        await channel.hello(hello)
    except RpcError as error:
        if not channel.closed:
            return _end(UNWANTED, error.message)
    ends = [loop.create_task(channel.wait_closed()), loop.create_task(deactivated.wait())]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if not channel.closed:
        await wire.written()
        return 0
    why = await channel.wait_closed()
    return _end(BROKEN, why) if why else 0


def _end(status: int, why: str) -> int:
    faults.say(f"the worker ends: {why}")
    return status
