"""A configuration to begin with."""

EXAMPLE = """\
# trunkline.toml: `trunkline config check` reads it as `trunkline serve` would.

[providers.openai]
kind = "openai"
# api_key = "env:OPENAI_API_KEY"        # the default; or "file:/path/to/key". The key itself never stands here.
models = ["gpt-6.1-sol"]

[providers.anthropic]
kind = "anthropic"
models = ["claude-sonnet-5-5"]

[providers.home]                        # anything that speaks OpenAI's format
kind = "compatible"
base_url = "http://127.0.0.1:8000/v1"
models = ["qwen3"]

[providers.local]                       # a small model on this machine: trunkline models fetch smollm2
kind = "local"
models = ["smollm2"]

[providers.echo]                        # says the last message back
kind = "echo"
models = ["echo"]

[routes.fast]                           # a name of your own; the second target takes over when the first fails
targets = [{ model = "openai/gpt-6.1-sol" }, { model = "home/qwen3", order = 1 }]

# [extensions.weather]                  # a folder with a `main.py`, which runs in a sandbox
# path = "/srv/trunkline/weather"
# network = ["api.example.com"]
"""
