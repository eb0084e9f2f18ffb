"""A model on this machine as a provider: how its server is started, and when it answers."""

from functools import partial

from trunkline.app.launch import Launched
from trunkline.app.weights import find
from trunkline.base.aio import Tasks
from trunkline.base.clock import Clock
from trunkline.base.log import Logger
from trunkline.base.process import Command
from trunkline.base.secret import Secret
from trunkline.errors import ConfigInvalid
from trunkline.gateway.upstream import Address
from trunkline.providers import Provider
from trunkline.providers._local_server import Settings as ServerProgram
from trunkline.providers._local_server import command
from trunkline.providers.local import LocalSettings
from trunkline_sdk import http1


def launched(provider: Provider, *, http: http1.Client, tasks: Tasks, clock: Clock, log: Logger) -> Launched:
    """The server of one provider, which its first use starts.

    Args:
        provider: of a kind that is launched.
        http: connections to our own children.
        tasks: the owner of the start.
        clock: time for back-off and probes.
        log: is told what the server says.

    Raises:
        ConfigInvalid: its kind does not say how.
    """
    settings = provider.settings
    if not isinstance(settings, LocalSettings):
        raise ConfigInvalid(f"`providers.{provider.name}` is to be launched, and its kind does not say how")

    def start(key: Secret) -> Command:
        program = ServerProgram(
            model=str(find(settings.weights)),
            api_key=key.reveal(),
            aliases=list(settings.models),
            threads=settings.threads,
            context=settings.context,
            parallel=settings.parallel,
        )
        return command(program, hears=lambda line: log.info("local model", provider=provider.name, line=line))

    return Launched(provider.name, command=start, ready=partial(_answers, http), tasks=tasks, clock=clock)


async def _answers(http: http1.Client, address: Address) -> bool:
    """Whether a llama.cpp server has loaded its model: `/health` is 200 then, and 503 before."""
    try:
        response = await http.request("GET", f"{address.base_url}/health", [])
        await response.read()
    except http1.HttpError:
        return False
    return response.status == 200
