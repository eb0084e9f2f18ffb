"""How long to wait, and whose way to go where ours and the original's part."""

import math
from dataclasses import dataclass

from trunkline_sdk.daemon.protocol.fixes import OURS, Fixes
from trunkline_sdk.http1 import Timeouts


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Times are seconds (A8).

    `control_seconds` bounds info, models, refresh and each sign-in step as a whole, `invoke_seconds` an invoke that has no timeout of its
    own; a call's `within` replaces both. `header_seconds` is the wait for the head of any answer; where a request has a timeout it is that
    and `margin_seconds`, so that the daemon's own error comes first. `record_silence` is the longest time between two records of a stream,
    whatever keep-alives come between them (K17); None waits for ever.
    No wait for more of any answer is longer than that either.
    """

    fixes: Fixes = OURS
    control_seconds: float = 30.0
    invoke_seconds: float = 180.0
    header_seconds: float = 180.0
    margin_seconds: float = 10.0
    connect_seconds: float = 30.0
    record_silence: float | None = None

    def waits(self, timeout: float | None) -> Timeouts:
        """The deadlines of one exchange; `timeout` is what its `X-Timeout` says.

        A total bounds the rest where there is one; a daemon that was told a timeout breaks off what pauses longer.
        """
        lifted = timeout is not None and self.fixes.header_wait_follows_timeout
        wait = timeout + self.margin_seconds if timeout is not None and lifted else self.header_seconds
        silence = min(wait if lifted else math.inf, math.inf if self.record_silence is None else self.record_silence)
        return Timeouts(connect=self.connect_seconds, first_byte=wait, silence=silence, pool=max(wait, self.connect_seconds))
