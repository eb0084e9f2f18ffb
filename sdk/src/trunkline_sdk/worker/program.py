"""The file that a launcher executes, as `__main__`. What it imports is imported already where a fork server made the process."""

from collections.abc import Mapping, Sequence
from typing import Any

from trunkline_sdk.worker.running import run


def main(controls: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any]) -> int:
    """Be the worker on descriptor 3.

    Args:
        controls: what was done to this process, each with the fields of `trunkline_sdk.rpc.messages.Control`.
        arguments: the fields of `trunkline_sdk.worker.running.Arguments`.

    Returns:
        The exit status. Extension code may still run in tasks and threads: the caller ends the process by `os._exit`.
    """
    return run(controls, arguments)
