"""Where our client does better than the original without changing the wire (daemon contract, K)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixes:
    """Each True is our way, each False the original's; `ORIGINAL` is all of the original."""

    wrong_secret_is_configuration: bool = True
    """K1: a 401 that the daemon itself marks is `configuration`, so that no good login is refreshed for it."""
    cut_streams_fail: bool = True
    """K2: a stream that ends cleanly without its surface's own end has broken off."""
    own_deadlines_are_retryable: bool = True
    """K3: only the caller's own end is terminal; our built-in deadline is a transport failure."""
    definitive_refusals_are_neutral: bool = True
    """K4: a 4xx that says no for good does not count against the circuit."""
    overload_cools_down: bool = True
    """K5: `Retry-After` is heeded on 503 and 529 too."""
    lost_answers_are_retryable: bool = True
    """K6: a connection lost while reading info, models or a refresh is a transport failure, no invalid answer."""
    bad_headers_are_refused: bool = True
    """K7: a value that no header can hold is `invalid_request` and names the field, no transport failure."""
    terminal_needs_an_error: bool = True
    """K8: a 2xx refresh that says `terminal` without an error is a refusal that ends no login, no success."""
    bad_rows_are_dropped: bool = True
    """K11: a bad row of a catalogue costs that row, not the catalogue."""
    header_wait_follows_timeout: bool = True
    """A8: the wait for the head of an answer is `X-Timeout` and a margin, where one is set."""


OURS = Fixes()
ORIGINAL = Fixes(
    wrong_secret_is_configuration=False,
    cut_streams_fail=False,
    own_deadlines_are_retryable=False,
    definitive_refusals_are_neutral=False,
    overload_cools_down=False,
    lost_answers_are_retryable=False,
    bad_headers_are_refused=False,
    terminal_needs_an_error=False,
    bad_rows_are_dropped=False,
    header_wait_follows_timeout=False,
)
