"""What commands print: tables for people, JSON for programs."""

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from trunkline.errors import TrunklineError

WIDE = 1000  # columns of a pipe


def print_json(value: object) -> None:
    """One JSON document on stdout."""
    from trunkline.base.codec import pretty

    print(pretty(value))


def time(at: float) -> str:
    """An instant, in seconds since the Unix epoch, for people and programs: ISO 8601, UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table for people: whole values, folded where a terminal is narrow, and never in a pipe."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console(markup=False, emoji=False)  # what people named is no markup
    if not console.is_terminal:
        console.width = WIDE
    console.print(table)


def print_error(error: TrunklineError, *, as_json: bool) -> None:
    """An error on stderr: what happened, and what to do."""
    if as_json:
        from trunkline.base.codec import pretty

        shape = {"code": error.code, "message": error.message, "hint": error.hint, "fault": error.fault}
        print(pretty({"error": shape}), file=sys.stderr)
    else:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"  {error.hint}", file=sys.stderr)


@contextmanager
def progress_bar(words: str, *, hidden: bool) -> Generator[Callable[[int, int], None]]:
    """A bar on stderr, where that is a terminal; the block tells how much is done, and of how much."""
    if hidden or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(words)
        yield lambda done, total: bar.update(task, completed=done, total=total)
