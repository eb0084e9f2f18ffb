"""The names of the providers that a configuration lets calls go to, for whoever stores something under one."""

from collections.abc import Collection, Iterator

from trunkline.app.config import Config, kinds
from trunkline_sdk.daemon.protocol.routes import is_provider_id


class Callables(Collection[str]):
    """The configured providers, and whatever a daemon may serve: `DAEMON/ID` is one before the daemon has been reached."""

    def __init__(self, config: Config) -> None:
        known = kinds()
        self._plain = [name for name, settings in config.providers.items() if not known[settings.kind].daemon]
        self._daemons = [name for name, settings in config.providers.items() if known[settings.kind].daemon]

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        daemon, _, served = name.partition("/")
        return name in self._plain or (daemon in self._daemons and is_provider_id(served))

    def __iter__(self) -> Iterator[str]:
        yield from self._plain
        yield from (f"{name}/PROVIDER" for name in self._daemons)

    def __len__(self) -> int:
        return len(self._plain) + len(self._daemons)
