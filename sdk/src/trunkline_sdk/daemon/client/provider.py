"""One provider of a daemon, held to the surfaces that it lists (daemon contract, B2)."""

from trunkline_sdk.daemon.client.client import Client, Reply
from trunkline_sdk.daemon.client.stream import Stream
from trunkline_sdk.daemon.errors import SurfaceNotServed
from trunkline_sdk.daemon.messages import Credential, ProviderInfo
from trunkline_sdk.daemon.protocol import catalogue
from trunkline_sdk.daemon.protocol.catalogue import Catalogue
from trunkline_sdk.daemon.protocol.surfaces import Request


class Provider:
    """`info` is what the daemon told of it; its surfaces are the same for every model."""

    def __init__(self, client: Client, info: ProviderInfo) -> None:
        self._client = client
        self.info = info

    @property
    def surfaces(self) -> tuple[str, ...]:
        """The ids of what it serves natively."""
        return self.info.surfaces

    async def models(self, credential: Credential | None = None, *, within: float | None = None) -> Catalogue:
        """Its catalogue; a row that does not say what it serves gets the paths of the provider's surfaces.

        Raises:
            CallFailed: As for `Client.models`.
        """
        found = await self._client.models(self.info.id, credential, within=within)
        return found._replace(models=catalogue.fill(found.models, self.info.surfaces))

    async def invoke(self, request: Request, credential: Credential | None = None, *, within: float | None = None) -> Reply:
        """`Client.invoke`, if the surface is one of its own.

        Raises:
            SurfaceNotServed: It is not; nothing was sent.
        """
        self._check(request.surface)
        return await self._client.invoke(self.info.id, request, credential, within=within)

    async def stream(self, request: Request, credential: Credential | None = None, *, within: float | None = None) -> Stream:
        """`Client.stream`, if the surface is one of its own.

        Raises:
            SurfaceNotServed: It is not; nothing was sent.
        """
        self._check(request.surface)
        return await self._client.stream(self.info.id, request, credential, within=within)

    def _check(self, surface: str) -> None:
        if surface not in self.info.surfaces:
            raise SurfaceNotServed(self.info.id, surface)
