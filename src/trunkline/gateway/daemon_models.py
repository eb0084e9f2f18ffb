"""The models of a provider behind a daemon, as the daemon lists them (daemon contract, B2)."""

from collections.abc import Callable

from trunkline.catalog.daemon_rows import read_rows
from trunkline.catalog.listing import Rows
from trunkline.errors import UpstreamDenied
from trunkline.gateway.daemon_calls import UNAUTHORIZED, Tokens, renewable, shown
from trunkline.gateway.daemon_client import failure
from trunkline.model.credential import Credential
from trunkline.providers import Provider
from trunkline_sdk.daemon.client import Client
from trunkline_sdk.daemon.errors import CallFailed


class DaemonModels:
    """Asks daemons for models.

    Args:
        client: who is asked for a provider, and its id there.
        credential: what the installation calls a provider with.
        tokens: keeps sign-ins usable, however many ask.
    """

    def __init__(
        self,
        *,
        client: Callable[[str], tuple[Client, str]],
        credential: Callable[[Provider], Credential | None],
        tokens: Tokens,
    ) -> None:
        self._client = client
        self._credential = credential
        self._tokens = tokens

    async def ask(self, provider: Provider) -> Rows:
        """All models that its daemon lists for it. A sign-in that the provider refuses is renewed once.

        Raises:
            UpstreamError: the daemon or the provider failed, or refused.
            OperatorError: it cannot be asked as it is configured, or somebody has to sign in.
        """
        credential = self._credential(provider)
        if credential is not None and credential.key:
            credential = await self._tokens.fresh(credential)
        try:
            return await self._asked(provider, credential)
        except UpstreamDenied as error:
            if error.upstream_status != UNAUTHORIZED or credential is None or not renewable(credential):
                raise
            credential = await self._tokens.rejected(credential)
        return await self._asked(provider, credential)

    async def _asked(self, provider: Provider, credential: Credential | None) -> Rows:
        client, served = self._client(provider.name)
        try:
            return read_rows(await client.models(served, None if credential is None else shown(credential)))
        except CallFailed as error:
            raise failure(error, provider.name) from None
