"""LiteLLM's proxy, with one worker, a master key, and its own access to the network switched off."""

import json
import os
from pathlib import Path

from bench.gateways import Gateway, Launch, Place
from bench.scenarios import MODELS


def missing(peers: Path) -> str:
    """Whether it is installed."""
    return "" if (peers / "litellm/bin/litellm").exists() else "`make bench-peers` installs it from PyPI (litellm[proxy]), about 700 MB"


def launch(place: Place) -> Launch:
    """It renames models, so that the mock reads what to do from the path. JSON is YAML."""
    at = f"http://127.0.0.1:{place.upstream}"
    models = [_model(name, "openai/gpt-4o-mini", f"{at}/{name}/v1") for name in MODELS]
    models += [_model(f"claude-{name}", "anthropic/claude-sonnet-4-5", f"{at}/{name}") for name in MODELS]
    conf = place.work / "litellm.yaml"
    settings = {"set_verbose": False, "num_retries": 0, "telemetry": False, "turn_off_message_logging": True}
    whole = {"model_list": models, "general_settings": {"master_key": "sk-client-1"}, "litellm_settings": settings}
    conf.write_text(json.dumps(whole), encoding="utf-8")
    programs = place.peers / "litellm/bin"
    argv = [programs / "litellm", "--config", conf, "--host", "127.0.0.1", "--port", place.port, "--num_workers", 1]
    env = {
        "LITELLM_LOG": "ERROR",
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "AIOHTTP_TRUST_ENV": "False",
    }
    return Launch([str(each) for each in argv], env)


def _model(name: str, real: str, base: str) -> dict[str, object]:
    return {"model_name": name, "litellm_params": {"model": real, "api_base": base, "api_key": "sk-upstream-secret"}}


GATEWAY = Gateway(name="litellm", missing=missing, launch=launch, claude="claude-{}", streams=10)
