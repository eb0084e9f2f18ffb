"""TensorZero's gateway, embedded: the wheel from PyPI behind a minimal HTTP server, so that the same load drives it."""

from pathlib import Path

from bench.gateways import Gateway, Launch, Place
from bench.scenarios import MODELS

SERVER = Path(__file__).parents[1] / "tensorzero_server.py"

HEAD = """\
[gateway]
observability.enabled = false
disable_pseudonymous_usage_analytics = true
"""
MODEL = """
[models.{name}]
routing = ["mock"]
[models.{name}.providers.mock]
type = "openai"
model_name = "{name}"
api_base = "http://127.0.0.1:{upstream}/v1/"
api_key_location = "env::OPENAI_API_KEY"
"""


def missing(peers: Path) -> str:
    """Whether it is installed."""
    return "" if (peers / "tensorzero/bin/python").exists() else "`make bench-peers` installs it from PyPI (tensorzero), about 100 MB"


def launch(place: Place) -> Launch:
    """No database, nothing observed."""
    conf = place.work / "tensorzero.toml"
    conf.write_text(HEAD + "".join(MODEL.format(name=name, upstream=place.upstream) for name in MODELS), encoding="utf-8")
    argv = [str(place.peers / "tensorzero/bin/python"), str(SERVER), str(place.port), str(conf)]
    return Launch(argv, {"OPENAI_API_KEY": "sk-upstream-secret"})


GATEWAY = Gateway(name="tensorzero", missing=missing, launch=launch, streams=100)
