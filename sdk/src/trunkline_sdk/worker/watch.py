"""The thread that looks after the loop: it tells for how long the loop has not turned, answers for it meanwhile, and ends the process with its connection."""

import asyncio
import os
import select
import socket
import threading
import time

from trunkline_sdk.rpc.messages import notification
from trunkline_sdk.worker.wire import Wire

BEAT_SECONDS = 1.0
"""So often the loop is asked to turn; it lags when it does not within that time."""

GRACE_SECONDS = 0.25
"""For the loop to end the process itself, when the connection is over."""


class Watch:
    """One loop's thread.

    Attributes:
        lag: for so many seconds the loop has not turned. Only time in which this thread ran counts: a process, or a machine, that was
            stopped for a while does not lag.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
        self.lag = 0.0
        self._loop = loop
        self._turned = threading.Event()
        self._hung_up = select.poll()
        self._hung_up.register(sock, 0)
        self._readable = select.poll()
        self._readable.register(sock, select.POLLIN)

    def start(self, wire: Wire) -> None:
        """Begin."""
        threading.Thread(target=self._run, args=(wire,), name="watch", daemon=True).start()

    def _run(self, wire: Wire) -> None:
        while True:
            if self._hung_up.poll(BEAT_SECONDS * 1000):
                self._end()
            self._turned.clear()
            try:
                self._loop.call_soon_threadsafe(self._turned.set)
            except RuntimeError:  # it is closed
                return
            if not self._turned.wait(BEAT_SECONDS):
                self._answer_for_it(wire)

    def _answer_for_it(self, wire: Wire) -> None:
        self.lag = BEAT_SECONDS
        told = 0.0
        while not self._turned.is_set():
            if self.lag >= told + BEAT_SECONDS:
                told = self.lag
                wire.tell(notification("lag", {"seconds": round(told, 1)}))
            began = time.monotonic()
            ready = self._readable.poll(BEAT_SECONDS * 1000)
            self.lag += min(time.monotonic() - began, BEAT_SECONDS)
            if self._turned.is_set():
                break
            if ready and not wire.serve():
                self._end()
        self.lag = 0.0
        wire.tell(notification("lag", {"seconds": 0}))

    def _end(self) -> None:
        """The connection is over. Whatever the loop does, the process ends."""
        threading.Event().wait(GRACE_SECONDS)
        os._exit(0)
