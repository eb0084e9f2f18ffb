"""The extension's code: imported, activated, called and ended. Whatever it raises stays here, but for what it may tell the host."""

import asyncio
import inspect
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import msgspec

from trunkline_sdk import api
from trunkline_sdk.channel import Call, Channel
from trunkline_sdk.rpc.errors import RpcError
from trunkline_sdk.worker import faults
from trunkline_sdk.worker.context import CallContext, Context, Handler

MODULE = "extension"
"""What the main file is called as a module. Its folder comes last where modules are looked for: it hides none of the SDK's own."""


class _Params(msgspec.Struct, frozen=True):
    name: str
    params: Any = None


_params = msgspec.json.Decoder(_Params)
_context = msgspec.json.Decoder(api.Context)


class Extension:
    """One extension.

    Args:
        name: what it is called.
        folder: its own.
        main: the file in it that has `activate`.
    """

    def __init__(self, channel: Channel, *, name: str, folder: str, main: str) -> None:
        self._channel = channel
        self._name = name
        self._folder = folder
        self._main = str(Path(folder, main))
        self._handlers: dict[str, Handler] = {}
        self._module: ModuleType | None = None
        self._result: object = None
        self._active = False

    async def activate(self) -> list[str]:
        """Import and activate it; the names that it answers to. Raises: `RpcError`, which says why it does not run."""
        if self._module is not None:
            raise RpcError("invalid_params", "it was activated before")
        stage: faults.Stage = "import"
        try:
            self._module = _load(self._main, self._folder)
            stage = "entry"
            activate = _entry(self._module)
            stage = "activate"
            self._result = await _outcome(activate(Context(self._channel, self._name, self._handlers)))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - also `SystemExit`: it is the worker that ends the process
            faults.show(error)
            raise faults.refusal(stage, error, self._folder) from None
        self._active = True
        return sorted(self._handlers)

    async def call(self, call: Call) -> object:
        """Have a handler answer. Raises: `RpcError`; what else it raised is in the extension's log."""
        try:
            asked = _params.decode(call.params)
            told = _context.decode(call.context) if bytes(call.context) else api.Context(call_id="", extension=self._name)
        except msgspec.DecodeError as error:
            raise RpcError("invalid_params", str(error)) from None
        handler = self._handlers.get(asked.name) if self._active else None
        if handler is None:
            raise RpcError("method_not_found", f"nothing answers to `{asked.name}`")
        try:
            value = handler(asked.params, CallContext(self._channel, call, told))
            if inspect.isasyncgen(value):
                return await self._stream(call, cast(AsyncGenerator[bytes], value))
            return await _outcome(value)
        except (RpcError, asyncio.CancelledError):
            raise
        except BaseException as error:  # noqa: BLE001 - as above
            faults.show(error)
            raise RpcError("failed", f"`{asked.name}` failed with {type(error).__name__}") from None

    async def _stream(self, call: Call, pieces: AsyncGenerator[bytes]) -> None:
        async with aclosing(pieces), self._channel.open_stream(answering=call.id) as stream:
            async for piece in pieces:
                await stream.send(piece)

    async def deactivate(self) -> None:
        """End it: each step is tried. Raises: `RpcError`, where one failed."""
        if not self._active:
            return
        self._active = False
        failed: RpcError | None = None
        for function in (_function(self._module, "deactivate"), _function(self._result, "dispose")):
            try:
                if function is not None:
                    await _outcome(function())
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001 - as above
                faults.show(error)
                failed = failed or faults.refusal("deactivate", error, self._folder)
        if failed is not None:
            raise failed


def _load(path: str, folder: str) -> ModuleType:
    sys.path.append(folder)
    loader = SourceFileLoader(MODULE, path)
    spec = spec_from_loader(MODULE, loader)
    assert spec is not None
    module = sys.modules[MODULE] = module_from_spec(spec)
    loader.exec_module(module)
    return module


def _entry(module: ModuleType) -> Callable[..., object]:
    found = _function(module, "activate")
    if found is None:
        raise TypeError("the main file has no function `activate`")
    return found


def _function(holder: object, name: str) -> Callable[..., object] | None:
    found = getattr(holder, name, None)
    return found if callable(found) else None


async def _outcome(value: object) -> object:
    return await value if inspect.isawaitable(value) else value
