"""From an order of the host to a running worker.

On the socket TALK, one JSON object a line:

    host → {"namespaces", "steps", "controls", "packages", "program", "arguments"}      the order
         ← {"pid"}            as the host sees it, from the process that forked it or that it is itself
         ← {"applied"}  or  {"failed": why}
    host → {}                 go; the host has taken hold of the process. Its silence is its end, and the worker's

Nothing of an extension has run before that.
"""

import gc
import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location, spec_from_loader
from types import ModuleType
from typing import Any, NoReturn, TextIO

from trunkline.host.sandbox.inside.namespaces import fork
from trunkline.host.sandbox.inside.privileges import close_from
from trunkline.host.sandbox.inside.steps import apply

CHANNEL, TALK = 3, 4
MOST_ASKED = 4096
"""Bytes of the names of a worker's namespaces."""
FAILED = 70
"""Exit status: the sandbox could not be made."""


class Packages:
    """Finds some packages by their names. Their folder is not searched, so that what else is installed is not there, rather than refused."""

    def __init__(self, folders: Mapping[str, str]) -> None:
        self._folders = folders

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:  # noqa: ARG002
        """See `importlib.abc.MetaPathFinder`."""
        folder = self._folders.get(name)
        if folder is None:
            return None
        return spec_from_file_location(name, f"{folder}/__init__.py", submodule_search_locations=[folder])


def cold() -> None:
    """Take the order that is on the talk, and become its worker or, for namespaces, fork it. Raises: `OSError`, `ValueError`."""
    order = _read_order(TALK)
    if not order:
        return
    if not order["namespaces"]:
        _say(TALK, pid=os.getpid())
    elif child := fork(order["namespaces"]):
        _say(TALK, pid=child)
        return
    else:
        os.setsid()  # who leads a session cannot leave its group
    _live(order)


def serve() -> None:
    """Fork workers for whoever is at the other end of the channel, until that end is closed.

    First, on the talk: `{"packages", "preload"}`: modules to import, once for all workers. Then on the channel, for each worker, the list of
    its namespaces with its four descriptors: stdout, stderr, channel, talk. A worker's order is read by the worker alone, so that none finds
    what another was told. Raises: `OSError`, `ValueError`, `ImportError`.
    """
    first = _read_order(TALK)
    sys.meta_path.insert(0, Packages(first["packages"]))
    for name in first["preload"]:
        import_module(name)
    gc.freeze()  # so that collections in workers do not write to pages that all share
    _say(TALK, applied=True)
    os.dup2(os.open(os.devnull, os.O_RDONLY), TALK)  # so that what comes has higher numbers
    with socket.socket(fileno=CHANNEL) as asked:
        while True:
            namespaces, given, _, _ = socket.recv_fds(asked, MOST_ASKED, 4)
            if not given:
                return
            with suppress(OSError):  # the host has given this one up; the fork, if there is one, sees it too
                _fork_for(json.loads(namespaces), given)  # noqa: TID251 - the server's codec is not here
            for descriptor in given:
                os.close(descriptor)


def _fork_for(namespaces: Sequence[str], given: list[int]) -> None:
    """Fork a worker with these descriptors; the worker never returns, whatever fails. Raises: `OSError`, where nobody listens."""
    talk = given[-1]
    try:
        child = fork(namespaces)
    except OSError as error:
        _say(talk, failed=str(error))
        return
    if child:
        _say(talk, pid=child)
        return
    try:
        os.setsid()
        # They lie above the five that a worker has: this process has had its own five since its start.
        for descriptor, becomes in zip(given, (1, 2, CHANNEL, TALK), strict=True):
            os.dup2(descriptor, becomes)
        close_from(TALK + 1)
        # What a stream knows of its file, as whether one can seek in it, is from when it was made: these are of other files.
        sys.stdout = sys.__stdout__ = _written(1)
        sys.stderr = sys.__stderr__ = _written(2)
        if order := _read_order(TALK):
            _live(order)
    finally:
        os._exit(FAILED)


def _read_order(talk: int) -> dict[str, Any]:
    """The host's next word; empty where it has gone. Raises: `ValueError`."""
    line = bytearray()
    while not line.endswith(b"\n"):
        part = os.read(talk, 1 << 16)
        if not part:
            return {}
        line += part
    return json.loads(line)  # noqa: TID251 - the server's codec is not here


def _live(order: Mapping[str, Any]) -> NoReturn:
    code = FAILED
    try:
        try:
            apply(order["steps"])
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing of an extension may run now
            _say(TALK, failed=str(error))
            os._exit(FAILED)
        _say(TALK, applied=True)
        if os.read(TALK, 16) != b"{}\n":
            os._exit(FAILED)
        os.close(TALK)
        code = _run(order)
    finally:
        _flush()
        os._exit(code)


def _run(order: Mapping[str, Any]) -> int:
    """Run the program's `main(controls, arguments)`, as `__main__`; its exit status, as Python has it."""
    sys.meta_path[:] = [Packages(order["packages"]), *(finder for finder in sys.meta_path if not isinstance(finder, Packages))]
    sys.argv = [order["program"]]
    spec = spec_from_loader("__main__", SourceFileLoader("__main__", order["program"]))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["__main__"] = module
    try:
        spec.loader.exec_module(module)
        return module.main(order["controls"], order["arguments"]) or 0
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else 0 if left.code is None else 1
    except BaseException as error:  # noqa: BLE001 - as the interpreter does at its end
        sys.excepthook(type(error), error, error.__traceback__)
        return 1


def _say(talk: int, **words: Any) -> None:
    os.write(talk, json.dumps(words).encode() + b"\n")  # noqa: TID251 - as above


def _written(descriptor: int) -> TextIO:
    return open(descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the other end is gone, or the worker closed it
            stream.flush()
