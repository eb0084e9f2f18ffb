"""Where an admin key goes when the server made it itself: to a person's terminal, else into a file, never into a log."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from trunkline.base.secret import Secret
from trunkline.errors import StoreUnavailable


def deliver(secret: Secret, data_folder: Path, terminal: TextIO | None) -> str:
    """Hand the key over, and say where it went, in words for the log: never the key.

    A terminal shows it once. Where there is none (a pipe, a journal) it is in `admin.key` in the data folder, for its owner alone (0600); an
    older file is replaced, whole.

    Raises:
        StoreUnavailable: the file cannot be written; the key is lost, and the hint says how to get another.
    """
    if terminal is not None and terminal.isatty():
        with suppress(OSError):  # a terminal may be gone; then there is the file
            print(f"The admin key, shown this once: {secret.reveal()}", file=terminal, flush=True)
            return "shown on the terminal"
    path = data_folder / "admin.key"
    try:
        data_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(path, secret.reveal() + "\n")
    except OSError as error:
        raise StoreUnavailable(
            f"the admin key cannot be written to `{path}`: {error.strerror}",
            hint="Let this process write to the folder, then make another key with `trunkline keys reset-admin`.",
        ) from error
    return f"written to {path}"


def _replace(path: Path, text: str) -> None:
    """Put a file in place in one step. It is new and 0600 from its first byte; a link of that name is replaced, not followed."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink()
        raise
