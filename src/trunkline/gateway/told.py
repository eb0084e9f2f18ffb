"""What is told of each exchange at its end: one line in the log, the metrics, a row. Never a prompt, never a secret."""

from collections.abc import Callable

from trunkline.base.log import Logger
from trunkline.base.metrics import Gauge, Registry, Spread, Tally
from trunkline.gateway.exchange import Attempt, Exchange
from trunkline.model.caller import Caller

SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Teller:
    """Writes the line, counts, and has the row kept."""

    def __init__(
        self, log: Logger, registry: Registry, in_flight: Callable[[], int], *, note: Callable[[Exchange, float], None] | None = None
    ) -> None:
        self._log = log
        self._note = note
        self._exchanges = Tally("trunkline_exchanges", "Calls, by what became of them.", ["path", "outcome"], registry=registry)
        self._attempts = Tally("trunkline_attempts", "Attempts at providers.", ["provider", "outcome"], registry=registry)
        self._seconds = Spread(
            "trunkline_exchange_seconds", "From the call to the last byte of its reply.", "path", registry=registry, bounds=SECONDS
        )
        self._first_byte = Spread(
            "trunkline_first_byte_seconds", "From the call to the first byte of its reply.", "path", registry=registry, bounds=SECONDS
        )
        self._losses = Tally("trunkline_losses", "What translations could not carry.", ["class", "severity"], registry=registry)
        self._tokens = Tally("trunkline_tokens", "Tokens, by bucket.", ["provider", "bucket"], registry=registry)
        Gauge("trunkline_exchanges_in_flight", "Calls in flight.", registry=registry).set_function(in_flight)

    def tell(self, exchange: Exchange, seconds: float) -> None:
        """Write the line of one exchange, and count it."""
        tokens = exchange.usage.amounts if exchange.usage else {}
        self._count(exchange, seconds, tokens)
        self._log.info("exchange", **_line(exchange, seconds, tokens))
        if self._note is not None:
            self._note(exchange, seconds)

    def crashed(self, request_id: str, error: Exception) -> None:
        """A fault of ours, with its trace."""
        self._log.error("crashed", request_id=request_id, exc_info=error)

    def _count(self, exchange: Exchange, seconds: float, tokens: dict[str, int]) -> None:
        self._exchanges.add(exchange.path, exchange.outcome)
        self._seconds.note(exchange.path, seconds)
        if exchange.first_byte is not None:
            self._first_byte.note(exchange.path, exchange.first_byte)
        for attempt in exchange.attempts:
            self._attempts.add(attempt.provider, attempt.outcome)
        for loss in exchange.losses:
            self._losses.add(loss.change, loss.severity)
        if tokens and exchange.attempts:
            provider = exchange.attempts[-1].provider
            for bucket, count in tokens.items():
                self._tokens.add(provider, bucket, count=count)


def _line(exchange: Exchange, seconds: float, tokens: dict[str, int]) -> dict[str, object]:
    line: dict[str, object] = {
        "request_id": exchange.id,
        "path": exchange.path,
        "status": exchange.status,
        "outcome": exchange.outcome,
        "ms": round(seconds * 1000, 1),
        "model": exchange.model,
        "stream": exchange.stream,
        "address": exchange.address,
        "sent": exchange.sent,
        "attempts": list(map(_attempt, exchange.attempts)),
    }
    if exchange.caller:
        line.update(_whose(exchange, exchange.caller))
    if exchange.first_byte is not None:
        line["first_byte_ms"] = round(exchange.first_byte * 1000, 1)
    if exchange.client_request_id:
        line["client_request_id"] = exchange.client_request_id
    if exchange.usage:
        line["tokens"] = tokens
    if exchange.tool_calls:
        line["tool_calls"] = exchange.tool_calls
    if exchange.losses:
        line["losses"] = [f"{loss.path} {loss.severity} {loss.change}" for loss in exchange.losses]
    if exchange.facts:
        line.update(exchange.facts)
    return line


def _attempt(attempt: Attempt) -> str:
    told = f"{attempt.target} {attempt.outcome} {attempt.seconds * 1000:.0f}ms"
    return f"{told} {attempt.credential}" if attempt.credential else told


def _whose(exchange: Exchange, caller: Caller) -> dict[str, object]:
    whose: dict[str, object] = {"key": caller.id, "account": caller.account}
    if caller.user:
        whose["user"] = caller.user
    if exchange.end_user:
        whose["end_user"] = exchange.end_user
    if exchange.client_user:
        whose["client_user"] = exchange.client_user
    return whose
