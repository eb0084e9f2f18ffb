import asyncio
import io
import json
from collections.abc import Callable

from trunkline.app.config import Config, read
from trunkline.app.serving import _reload_when
from trunkline.base.aio import cancelled
from trunkline.base.log import LogSettings, open_log
from trunkline.errors import ConfigInvalid


class Installation:
    """Takes each configuration as the script says."""

    def __init__(self, *results: Exception | None) -> None:
        self._results = list(results)
        self.asked = asyncio.Event()

    async def reload(self, load: Callable[[], Config]) -> None:
        self.asked.set()
        if (result := self._results.pop(0)) is not None:
            raise result


async def test_no_configuration_ends_the_server_whatever_is_wrong_with_it() -> None:
    stream = io.StringIO()
    log, writer = open_log(LogSettings(format="json"), stream)
    installation = Installation(
        ConfigInvalid("`[sever]` is not a section", hint="Did you mean `[server]`?"), RuntimeError("a surprise"), None
    )
    changed = asyncio.Event()
    task = asyncio.get_running_loop().create_task(_reload_when(changed, installation, lambda: read({}), log))
    async with asyncio.timeout(5):
        for _ in range(3):
            installation.asked.clear()
            changed.set()
            await installation.asked.wait()
    await cancelled(task)
    writer.close()
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["level"], first["reason"], first["hint"]) == ("warning", "`[sever]` is not a section", "Did you mean `[server]`?")
    assert (second["level"], second["event"]) == ("error", first["event"])
    assert "RuntimeError: a surprise" in second["exception"]
