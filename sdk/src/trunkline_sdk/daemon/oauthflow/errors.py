"""What can go wrong with a sign-in. No text holds a code, a token or a state.

```text
FlowError
├── FlowNotFound         unknown, somebody else's, or used up: one error for the three, so that none can be told from another
├── FlowExpired          its owner took too long
├── FlowConflict         a store's: the flow was changed meanwhile
├── SlowDown             asked again too soon; the provider was not asked
├── CodeRequired         what was pasted has neither a code nor an error
├── StateMismatch        the answer belongs to another sign-in; this one is still open
├── AccessDenied         the owner, or the provider, said no
├── InvalidStart         the caller, instance or method cannot sign in
└── InvalidAnswer        the driver left out what the method needs, or said what nobody knows
```
"""


class FlowError(Exception):
    """A sign-in cannot go on."""


class FlowNotFound(FlowError):
    """There is no such sign-in for this caller."""

    def __init__(self) -> None:
        super().__init__("there is no such sign-in")


class FlowExpired(FlowError):
    """The sign-in has expired."""


class FlowConflict(FlowError):
    """The flow's revision is another one by now."""


class SlowDown(FlowError):
    """The next poll is due later."""


class CodeRequired(FlowError):
    """There is no code in what was given."""


class StateMismatch(FlowError):
    """The state is not this sign-in's."""


class AccessDenied(FlowError):
    """The sign-in was refused."""


class InvalidStart(FlowError):
    """A sign-in cannot start like this."""


class InvalidAnswer(FlowError):
    """The driver's answer cannot be used."""
