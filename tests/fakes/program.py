"""A command of `trunkline` that goes on while a test talks to it."""

import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

from tests.fakes.server import PATIENCE, environment


class Program:
    """A command that runs, and what it says meanwhile."""

    def __init__(self, home: Path, *arguments: str, **variables: str) -> None:
        self.said = ""
        self._more = threading.Condition()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "trunkline", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(home, **variables),
            cwd=home,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._stdin, self._stdout, self._stderr = self._process.stdin, self._process.stdout, self._process.stderr
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def says(self, pattern: str) -> str:
        """The first group of what is found on stderr, as soon as it is there."""
        with self._more:
            self._more.wait_for(lambda: re.search(pattern, self.said) or not self._reader.is_alive(), PATIENCE)
            found = re.search(pattern, self.said)
            assert found is not None, self.said
            return found[1]

    def types(self, line: str) -> None:
        self._stdin.write(f"{line}\n".encode())
        self._stdin.flush()

    def ended(self) -> tuple[int, str]:
        """Its status, and its stdout."""
        try:
            status = self._process.wait(PATIENCE)
            return status, self._stdout.read().decode()
        finally:
            self.kill()

    def kill(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._stdin, self._stdout, self._stderr):
            pipe.close()

    def leave(self) -> None:
        """End it as Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)
        assert self.ended() == (130, "")

    def _read(self) -> None:
        for line in self._stderr:
            with self._more:
                self.said += line.decode()
                self._more.notify_all()
        with self._more:
            self._more.notify_all()
