"""What commands print: tables for people, JSON for programs."""

import sys
from collections.abc import Sequence

from trunkline.errors import TrunklineError

WIDE = 1000  # columns of a pipe


def print_json(value: object) -> None:
    """One JSON document on stdout."""
    from trunkline.base.codec import pretty

    print(pretty(value))


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
