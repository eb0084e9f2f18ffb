from pathlib import Path

import pytest

from sdk.tests.worker.host import Starts


@pytest.fixture
def starts(tmp_path: Path) -> Starts:
    return Starts(tmp_path)
