"""The person at the terminal, who is told things on stderr and gives lines on stdin."""

import os
import sys
import threading
import webbrowser
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from trunkline.base.clock import Clock


class Terminal:
    """Stdout is left to what a command has to say in the end. `opens`: whether a browser may be opened."""

    def __init__(self, clock: Clock, *, opens: bool) -> None:
        self._clock = clock
        self._opens = opens

    def say(self, text: str) -> None:
        """A line; what would steer the terminal is left out of it."""
        print("".join(letter for letter in text if letter.isprintable()), file=sys.stderr)

    def visit(self, url: str) -> bool:
        """Open a browser in a window of its own, never one of text in this terminal, and nothing but a web page. Whether it was tried.

        Some browsers are waited for until they are closed, so that they get a thread.
        """
        seen = sys.platform != "linux" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
        if not self._opens or not seen or not url.startswith(("http://", "https://")) or not url.isprintable():
            return False
        threading.Thread(target=_open, args=(url,), daemon=True).start()
        return True

    def paste(self) -> str | None:
        """The next line; none at the end of what is given."""
        if sys.stdin.isatty():
            print("> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        return line.strip() if line else None

    @contextmanager
    def waiting(self, words: str, until: float) -> Generator[Callable[[str], None]]:
        """A line that lives while something is waited for, with the time that is left; where this is no terminal, a line at the beginning."""
        if not sys.stderr.isatty():
            self.say(words)
            yield lambda _trouble: None
            return
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        trouble = ""

        def tell(text: str) -> None:
            nonlocal trouble
            trouble = f" ({text})" if text else ""

        def line() -> Text:
            minutes, seconds = divmod(max(0, round(until - self._clock.now())), 60)
            return Text(f"{words}, {minutes}:{seconds:02} left{trouble}", overflow="ellipsis", no_wrap=True)

        with Live(get_renderable=line, console=Console(stderr=True), transient=True, refresh_per_second=4):
            yield tell


def _open(url: str) -> None:
    with suppress(webbrowser.Error, OSError):
        webbrowser.open(url)
