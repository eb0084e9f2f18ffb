import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.host.users import reachable
from trunkline.host.sandbox.policy import Policy
from trunkline.host.sandbox.users import FIRST


@pytest.fixture
async def nowhere() -> AsyncIterator[int]:
    descriptor = os.open(os.devnull, os.O_WRONLY)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    return Policy(folder=str(reachable(tmp_path)), user=FIRST if os.geteuid() == 0 else None)
