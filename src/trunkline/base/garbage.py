"""The garbage collector of a process that serves."""

import gc


def spare_what_stays() -> None:
    """Let the garbage collector leave alone what was made until now, and look less often: calls leave hardly any circles behind.

    As Python sets it up, it takes a tenth of a busy gateway's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 10)
