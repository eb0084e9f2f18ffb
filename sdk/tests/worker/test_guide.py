"""The guide's extension runs as it stands there."""

import base64
import re
from pathlib import Path

import pytest

from sdk.tests.worker.host import Starts, read
from trunkline_sdk.channel import Call

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "extension-code.md"


@pytest.mark.proves("worker.guide")
async def test_the_guides_extension_fetches_a_forecast_and_says_when_there_is_none(starts: Starts) -> None:
    [code] = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    async with starts(code) as worker:
        pages = {"https://weather.example/bergen": (200, "rain"), "https://weather.example/atlantis": (404, "")}

        async def fetch(call: Call) -> object:
            url = read(call.params)["url"]
            status, text = pages[url]
            return {"status": status, "url": url, "headers": [], "body": base64.b64encode(text.encode()).decode()}

        worker.answers["network.fetch"] = fetch
        assert await worker.ask("activate") == {"registered": ["forecast"]}
        assert (await worker.hears("log"))["fields"] == {"name": "extension-1"}
        assert await worker.call("forecast", {"city": "bergen"}) == "rain"
        assert await worker.call("forecast", {"city": "atlantis"}) is None
        assert (await worker.hears("log"))["fields"] == {"status": 404}
