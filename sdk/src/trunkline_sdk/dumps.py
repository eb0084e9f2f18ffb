"""Core dumps."""

import contextlib


def no_core_dumps() -> None:
    """A core dump of this process would hold credentials (daemon contract, H7)."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
