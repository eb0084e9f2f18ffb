"""Our codec against Go's: `golden.json` holds what encoding/json made of every case (daemon contract, A9).

`python -m pytest sdk/tests/daemon/wire/test_go.py` asks a Go toolchain anew; `WRITE_GOLDEN=1` keeps what it says.
"""

import json

import pytest

from sdk.tests.daemon.wire.go import GOLDEN, Outcome, with_lists
from sdk.tests.daemon.wire.golden_cases import CASES
from trunkline_sdk.daemon import messages
from trunkline_sdk.daemon.messages import Unreadable, decode, encode


def ours(kind: str, data: str) -> Outcome:
    try:
        read, error = decode(getattr(messages, kind), (data or "{}").encode()), False
    except Unreadable as fault:
        read, error = fault.partial, True
    return Outcome(encode(read).decode(), error)


KNOWN = json.loads(GOLDEN.read_text())


def test_every_case_has_its_bytes() -> None:
    assert [(kind, data) for kind, data, *_ in KNOWN] == CASES


@pytest.mark.parametrize("number", range(len(KNOWN)))
def test_we_read_and_write_as_go_does(number: int) -> None:
    kind, data, text, error = KNOWN[number]
    assert ours(kind, data) == Outcome(with_lists(text), error)
