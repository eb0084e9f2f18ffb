"""`trunkline serve` as a process of its own, a client of the standard library's, and a provider that says what it is told to."""

import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PATIENCE = 20.0  # seconds that anything may take on a busy machine

INHERITED = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")


def environment(home: Path, **more: str) -> dict[str, str]:
    """A clean environment with a home of its own."""
    return {name: os.environ[name] for name in INHERITED if name in os.environ} | {"HOME": str(home), **more}


def trunkline(*arguments: str | Path, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "trunkline", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment(home, **more),
        cwd=home,
        timeout=PATIENCE,
        check=False,
    )


@dataclass(frozen=True)
class Reply:
    """A whole answer; names of headers in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Call:
    """One request over a connection of its own; the answer may be read at another time, or never."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        if context is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        else:
            self._connection = http.client.HTTPSConnection("localhost", port, timeout=PATIENCE, context=context)
        self._response: http.client.HTTPResponse | None = None

    def send(self, method: str, path: str, body: bytes | Iterable[bytes] | None, headers: Mapping[str, str]) -> None:
        self._connection.request(method, path, body, dict(headers), encode_chunked=not isinstance(body, bytes))

    @property
    def response(self) -> http.client.HTTPResponse:
        """The head of the answer, waited for."""
        if self._response is None:
            self._response = self._connection.getresponse()
        return self._response

    def read(self) -> Reply:
        """The whole answer."""
        headers = {name.lower(): value for name, value in self.response.getheaders()}
        return Reply(self.response.status, headers, self.response.read())

    def leave(self) -> None:
        if self._response is not None:
            self._response.close()
        self._connection.close()


class Server:
    """The server, from its start to its end, in a home of its own.

    Attributes:
        data: the data folder.
        config: the configuration's file; what is written into it counts at the next reload.
        lines: what it logged so far.
        trust: how its clients judge its certificate, where it has one.
    """

    def __init__(self, home: Path, *arguments: str | Path, config: str | None = None, data: bool = True, **variables: str) -> None:
        home.mkdir(exist_ok=True)
        self.home = home
        self.data = home / "data" if data else home / ".local" / "share" / "trunkline"
        self.config = home / "trunkline.toml"
        if config is not None:
            self.config.write_text(config)
        self.lines: list[dict[str, Any]] = []
        self.raw: list[str] = []
        self.trust: ssl.SSLContext | None = None
        self._calls: list[Call] = []
        self._more = threading.Condition()
        self._arguments = ["serve", "--port", "0", *(["--data", self.data] if data else []), *arguments]
        self._environment = environment(home, **variables)

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "trunkline", *map(str, self._arguments)],
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env=self._environment,
            cwd=self.home,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        try:
            self.url: str = self.said("listening")["urls"][0]
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for call in self._calls:
            call.leave()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stderr is not None
        self.process.stderr.close()

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def key(self) -> str:
        """The first admin key."""
        return (self.data / "admin.key").read_text().strip()

    def said(self, event: str, count: int = 1, **values: object) -> dict[str, Any]:
        """The log's line about an event, as soon as it is there."""

        def found() -> list[dict[str, Any]]:
            return [line for line in self.lines if line["event"] == event and values.items() <= line.items()]

        with self._more:
            assert self._more.wait_for(lambda: len(found()) >= count or not self._reader.is_alive(), PATIENCE), (
                f"no {event!r} in {self.raw}"
            )
            assert len(found()) >= count, f"it ended without {event!r}: {self.raw}"
            return found()[count - 1]

    def proc(self, file: str, pattern: str) -> list[str]:
        """The lines of a file under the process's /proc that begin like this."""
        return re.findall(rf"^{pattern}", Path(f"/proc/{self.process.pid}/{file}").read_text(), re.MULTILINE)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self, within: float = PATIENCE) -> int:
        """Its exit status."""
        status = self.process.wait(within)
        self._reader.join()
        return status

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.ended()

    def call(self, method: str, path: str, body: object = None, *, key: str | None = "", headers: Mapping[str, str] | None = None) -> Call:
        """Send a request; with the admin key, unless another or none is given."""
        call = Call(self.port, self.trust)
        self._calls.append(call)
        credential = {} if key is None else {"authorization": f"Bearer {key or self.key}"}
        call.send(method, path, json.dumps(body).encode() if isinstance(body, dict) else body, {**credential, **(headers or {})})
        return call

    def ask(self, method: str, path: str, body: object = None, *, key: str | None = "", headers: Mapping[str, str] | None = None) -> Reply:
        """Send a request and read the whole answer."""
        call = self.call(method, path, body, key=key, headers=headers)
        try:
            return call.read()
        finally:
            call.leave()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            text = line.decode()
            with self._more:
                self.raw.append(text)
                with suppress(ValueError):
                    self.lines.append(json.loads(text))
                self._more.notify_all()
        with self._more:
            self._more.notify_all()


class Peer:
    """The gateway, as a provider meets it on one connection."""

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(PATIENCE)
        self._socket = sock
        self._file = sock.makefile("rb")
        self.head = b""
        self.body = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()

    def receive(self) -> bool:
        """Take a whole request, if there is another one."""
        lines = []
        while (line := self._file.readline()) not in {b"\r\n", b""}:
            lines.append(line)
        self.head = b"".join(lines)
        length = next((int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length:")), 0)
        self.body = self._file.read(length)
        return bool(lines)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def gone(self, within: float) -> bool:
        """Whether the other side closes in this time."""
        self._socket.settimeout(within)
        try:
            return self._socket.recv(1) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True


class Provider:
    """A provider on a loopback port: for each request `talk` says what it does, and then the connection is closed.

    Attributes:
        url: its address.
        requests: heads and bodies so far.
    """

    def __init__(self, talk: Callable[[Peer], object]) -> None:
        self._talk = talk
        self.requests: list[tuple[bytes, bytes]] = []
        self.errors: list[BaseException] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._start(self._accept)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        deadline = time.monotonic() + PATIENCE
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if error is None:
            assert self.errors == []

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                self._start(self._serve, sock)

    def _serve(self, sock: socket.socket) -> None:
        with sock, Peer(sock) as peer:
            if peer.receive():
                self.requests.append((peer.head, peer.body))
                try:
                    self._talk(peer)
                except BaseException as error:
                    self.errors.append(error)
                    raise
