"""Portkey's open-source gateway. It checks no key of its own."""

import shutil
from pathlib import Path

from bench.gateways import Gateway, Launch, Place

START = "portkey/node_modules/@portkey-ai/gateway/build/start-server.js"
STREAMS = "its streams end at once on some releases of Node 20"


def missing(peers: Path) -> str:
    """Whether it is installed."""
    if shutil.which("node") is None:
        return "it needs Node. Debian, Ubuntu: sudo apt install nodejs npm"
    return "" if (peers / START).exists() else "`make bench-peers` installs it from npm (@portkey-ai/gateway), about 60 MB"


def launch(place: Place) -> Launch:
    """It is configured by each request."""
    headers = (
        "Authorization: Bearer sk-client-1",
        "x-portkey-provider: openai",
        f"x-portkey-custom-host: http://127.0.0.1:{place.upstream}/v1",
    )
    env = {"NODE_ENV": "production", "TRUSTED_CUSTOM_HOSTS": "127.0.0.1,localhost"}
    return Launch(["node", str(place.peers / START), f"--port={place.port}", "--headless"], env, headers)


GATEWAY = Gateway(name="portkey", missing=missing, launch=launch)
