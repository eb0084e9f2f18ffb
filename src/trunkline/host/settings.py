"""`[extensions.NAME]`."""

from collections.abc import Mapping
from typing import Annotated

from trunkline.base.codec import Meta, Record
from trunkline.host.grants import NETWORK, Grants
from trunkline.host.sandbox.policy import Limits

Megabytes = Annotated[int, Meta(ge=64, le=65_536)]


class ExtensionSettings(Record, frozen=True):
    """An extension, and what it may."""

    path: Annotated[str, Meta(min_length=1, description="Its folder, with `main.py` in it.")]
    enabled: Annotated[bool, Meta(description="Whether it runs.")] = True
    network: Annotated[
        list[str],
        Meta(
            description="Whom it may ask over HTTP: `HOST[:PORT]`, `*.HOST`, `*`, or the address of something inside, which only counts here."
        ),
    ] = []
    allow_unsandboxed: Annotated[
        bool, Meta(description="Whether it runs also where this machine cannot keep it apart: then it can do whatever this server can.")
    ] = False
    memory_mb: Annotated[Megabytes, Meta(description="The most memory that it may hold, with all that it started.")] = 256
    cpu_seconds: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Processor time of its whole life, in which it cannot fork then; without it, any."),
    ] = None
    idle_seconds: Annotated[float, Meta(ge=0, description="Without a call for so long it is stopped until the next one; 0: never.")] = 600

    @property
    def grants(self) -> Grants:
        """What it may. Raises: `ConfigInvalid`."""
        return Grants(operator=[f"{NETWORK}{each}" for each in self.network])

    @property
    def limits(self) -> Limits:
        """What it may use."""
        return Limits(memory=self.memory_mb << 20, cpu_seconds=self.cpu_seconds)


Extensions = Annotated[Mapping[str, ExtensionSettings], Meta(description="Extensions, by names of your own.")]
