"""How a daemon is asked for models, against one on loopback."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.fakes.daemon import FakeDaemon
from trunkline.base.secret import Secret
from trunkline.errors import DaemonRefused, SignInNeeded, UpstreamDenied, UpstreamDown
from trunkline.gateway.daemon_models import DaemonModels
from trunkline.gateway.daemons import behind
from trunkline.model.credential import Credential
from trunkline.providers import Provider, Served
from trunkline.providers.daemon import PROVIDER, DaemonSettings
from trunkline_sdk.daemon import messages
from trunkline_sdk.daemon.client import Client
from trunkline_sdk.daemon.messages import ModelInfo
from trunkline_sdk.daemon.server import Failure

SECRET = "secret-canary-0123456789"
KEY = Credential(id="cred_a", weight=1, secret=Secret("sk-canary"))
SIGNED_IN = Credential(
    id="con_a",
    weight=1,
    secret=Secret("at-old"),
    token_type="Bearer",
    account="acc",
    metadata={"project": "p"},
    key="k",
    revision="1",
)


class Tokens:
    """Renews `at-old` to `at-new`, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.gone = False

    async def fresh(self, credential: Credential) -> Credential:
        self.asked.append("fresh")
        return credential

    async def rejected(self, credential: Credential) -> Credential:
        self.asked.append("rejected")
        if self.gone:
            raise SignInNeeded("the sign-in has ended")
        return replace(credential, secret=Secret("at-new"), revision="2")


class Asked:
    """A daemon that notes with which credential it was asked for models, and refuses some tokens."""

    def __init__(self, fake: FakeDaemon, client: Client) -> None:
        self.client = client
        self.tokens = Tokens()
        self.seen: list[messages.Credential | None] = []
        self.refuses: Mapping[str, int] = {}
        self.url = fake.url
        fake.backends["open"].models = self._models  # type: ignore[method-assign]

    async def _models(self, credential: messages.Credential | None) -> list[ModelInfo]:
        self.seen.append(credential)
        if credential is not None and (status := self.refuses.get(credential.token or credential.api_key)):
            raise Failure(status, "no")
        return [ModelInfo(id="m"), ModelInfo(id="bad\nid")]

    async def ask(self, credential: Credential | None, client: Client | None = None) -> list[str]:
        asking = DaemonModels(client=lambda _: (client or self.client, "open"), credential=lambda _: credential, tokens=self.tokens)
        rows = await asking.ask(provider(self.url))
        assert rows.left_out == 1
        return [found.id for found in rows.found]


def provider(url: str) -> Provider:
    settings = DaemonSettings(kind="daemon", base_url=url)
    daemon = Provider(name="x", kind=PROVIDER, settings=settings, base_url=url, api_key=None)
    return behind(daemon, Served(daemon="x", id="open"))


@pytest.fixture
async def asked() -> AsyncIterator[Asked]:
    async with FakeDaemon("http://127.0.0.1:9", secret=SECRET, only=("open",)) as fake, Client(fake.url, secret=SECRET) as client:
        yield Asked(fake, client)


@pytest.mark.proves("daemon.models")
async def test_a_daemon_is_told_the_credential_as_the_protocol_says(asked: Asked) -> None:
    for each in (None, KEY, SIGNED_IN):
        assert await asked.ask(each) == ["m"]
    assert asked.seen == [
        None,
        messages.Credential(api_key="sk-canary", token_type="api_key"),
        messages.Credential(token="at-old", token_type="Bearer", account_id="acc", metadata={"project": "p"}),
    ]
    assert asked.tokens.asked == ["fresh"]  # only a sign-in can be renewed


@pytest.mark.proves("daemon.models")
async def test_a_sign_in_that_the_provider_refuses_is_renewed_once(asked: Asked) -> None:
    asked.refuses = {"at-old": 401}
    assert await asked.ask(SIGNED_IN) == ["m"]
    assert asked.tokens.asked == ["fresh", "rejected"]
    asked.refuses = {"at-old": 401, "at-new": 401}
    with pytest.raises(UpstreamDenied):
        await asked.ask(SIGNED_IN)
    assert asked.tokens.asked == ["fresh", "rejected"] * 2
    asked.tokens.gone = True
    with pytest.raises(SignInNeeded):
        await asked.ask(SIGNED_IN)


PASTED = replace(SIGNED_IN, token_type="api_key")


@pytest.mark.parametrize(("credential", "status"), [(KEY, 401), (PASTED, 401), (SIGNED_IN, 403)])
async def test_an_api_key_and_what_is_forbidden_are_not_tried_twice(asked: Asked, credential: Credential, status: int) -> None:
    asked.refuses = {credential.secret.reveal(): status}
    with pytest.raises(UpstreamDenied) as caught:
        await asked.ask(credential)
    assert caught.value.upstream_status == status
    assert len(asked.seen) == 1
    assert "rejected" not in asked.tokens.asked


@pytest.mark.proves("daemon.secret")
async def test_a_wrong_secret_renews_nothing(asked: Asked) -> None:
    async with Client(asked.url, secret="another-canary") as client:
        with pytest.raises(DaemonRefused):
            await asked.ask(SIGNED_IN, client)
    assert asked.tokens.asked == ["fresh"]
    assert asked.seen == []


async def test_a_daemon_that_serves_it_no_longer_is_down() -> None:
    def nobody(_: str) -> Any:
        raise UpstreamDown("the daemon `x` does not serve `open` now")

    asking = DaemonModels(client=nobody, credential=lambda _: None, tokens=Tokens())
    with pytest.raises(UpstreamDown):
        await asking.ask(provider("http://127.0.0.1:9"))
