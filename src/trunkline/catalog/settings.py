"""`[catalog]`: how models are found."""

from trunkline.base.codec import Annotated, Meta, Record


class CatalogSettings(Record, frozen=True):
    """Whether providers are asked which models they have."""

    discover: Annotated[
        bool,
        Meta(
            description="Ask each provider that can tell (`openai`, `anthropic`, `compatible`, a running `local`) for its models, in the "
            "background; `GET /v1/models` lists them too, and they may be asked for by their bare name. What stands behind a `daemon` is "
            "asked in any case."
        ),
    ] = False
    ttl: Annotated[float, Meta(ge=10, le=604_800, description="Seconds after which a provider is asked again.")] = 900.0
