"""Where a call may go."""

from trunkline.base.codec import Value


class Target(Value, frozen=True):
    """One model of one provider. Written `provider/model`; the model's own name may hold slashes."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"
