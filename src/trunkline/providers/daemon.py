"""An extension daemon: a program that serves providers, each of which is a provider here (daemon contract, A and B)."""

from typing import Literal

from trunkline.base.codec import Annotated, Meta
from trunkline.dialects.anthropic import DIALECT as ANTHROPIC
from trunkline.dialects.openai_chat import DIALECT as OPENAI_CHAT
from trunkline.dialects.openai_embeddings import DIALECT as OPENAI_EMBEDDINGS
from trunkline.dialects.openai_responses import DIALECT as OPENAI_RESPONSES
from trunkline.dialects.openai_speech import DIALECT as OPENAI_SPEECH
from trunkline.errors import DaemonRefused
from trunkline.providers import Kind, SecretSource, Settings, Wire

Fingerprint = Annotated[str, Meta(pattern="^[0-9A-Fa-f]{2}(:?[0-9A-Fa-f]{2}){31}$")]


class DaemonSettings(Settings, frozen=True):
    """What the operator says about an extension daemon, and with it about every provider behind it."""

    secret: Annotated[
        SecretSource | None,
        Meta(
            description="Where the secret is that it was started with: `env:NAME` or `file:PATH`. Only a daemon on this machine may do without."
        ),
    ] = None
    insecure_http: Annotated[
        bool, Meta(description="Whether it may be asked over `http` beyond this machine, where its secret and all credentials can be read.")
    ] = False
    ca: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(
            description="A PEM file with the certificates that its own is held to, in place of this machine's trusted roots; for a certificate "
            "that signs itself, that one.",
        ),
    ] = None
    pins: Annotated[
        list[Fingerprint],
        Meta(
            description="SHA-256 fingerprints of its certificate, as `openssl x509 -fingerprint -sha256` prints them: with one of these, or "
            "it is not asked. They come on top of all other checks."
        ),
    ] = []
    loss_policy: Annotated[
        Literal["report", "contract"],
        Meta(
            description="What becomes of losses that it tells of: `report` hands them on; `contract` refuses what the protocol's own rules "
            "refuse, which is all that is material."
        ),
    ] = "report"


def secret_refused(name: str) -> DaemonRefused:
    """What is told wherever a daemon does not accept our secret; `name` is the daemon's or that of a provider behind it."""
    return DaemonRefused(
        f"the daemon of `{name}` does not accept the secret that is configured for it",
        hint="The operator sets the `secret` under `[providers]` to the one that the daemon was started with.",
    )


PROVIDER = Kind(
    title="Extension daemon",
    key_required=False,
    daemon=True,
    settings=DaemonSettings,
    speaks=(
        Wire(OPENAI_CHAT, {"chat": "chat_completions"}),
        Wire(OPENAI_RESPONSES, {"chat": "responses"}),
        Wire(ANTHROPIC, {"chat": "messages"}),
        Wire(OPENAI_EMBEDDINGS, {"embeddings": "embeddings"}),
        Wire(OPENAI_SPEECH, {"speech": "audio_speech"}),
    ),
)
