"""Where a call may go."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """One model of one provider. Written `provider/model`; the model's own name may hold slashes."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"
