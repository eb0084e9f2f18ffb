"""The reference pages, from the code: `make docs` writes them, and a test compares."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trunkline import errors
from trunkline.app.compose import surfaces
from trunkline.app.config import json_schema, kinds
from trunkline.app.resources import resources
from trunkline.base.codec import decode, encode, pretty
from trunkline.cli import COMMANDS, RESOURCES
from trunkline.providers import Kind, Provider
from trunkline.server.admin import declared
from trunkline.server.rest import openapi, page
from trunkline.surfaces import Endpoint

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the probes of docs/translation.md are the tests' own

from tests.wire.features import FEATURES, dialects, fate  # noqa: E402

MADE = "<!-- Made by `make docs`; change the code instead. -->\n"


def pages() -> dict[str, Callable[[], str]]:
    """What makes each page, by its path."""
    return {
        "README.md": readme,
        "docs/translation.md": translation_page,
        "docs/reference/errors.md": error_page,
        "docs/reference/configuration.md": configuration_page,
        "docs/reference/configuration.schema.json": lambda: pretty(json_schema()) + "\n",
        "docs/reference/providers.md": provider_page,
        "docs/reference/cli.md": cli_page,
        "docs/reference/api.md": api_page,
    }


def readme() -> str:
    """The README with its table of what reaches what."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    head, _, rest = text.partition(TABLE[0])
    _, _, tail = rest.partition(TABLE[1])
    return f"{head}{TABLE[0]}\n{reach()}\n{TABLE[1]}{tail}"


TABLE = ("<!-- which client reaches which provider -->", "<!-- end -->")


def reach() -> str:
    """Which provider answers which endpoint, and how."""
    names = kinds()
    rows = []
    for surface in surfaces().values():
        for endpoint in surface.endpoints:
            cells = [how(kind, endpoint) for kind in names.values()]
            rows.append(f"| `{endpoint.path}` | {' | '.join(cells)} |")
    return "\n".join([f"| | {' | '.join(names)} |", f"| --- |{' --- |' * len(names)}", *rows])


def how(kind: Kind, endpoint: Endpoint) -> str:
    """How a kind of provider answers an endpoint."""
    wire = Provider(name="x", kind=kind, settings=kind.settings(kind="x"), base_url=None, api_key=None).wire(
        endpoint.dialect, endpoint.operation
    )
    if wire is None:
        return ""
    if endpoint.operation not in wire.paths:
        return "counted here"
    return "bytes" if wire.dialect.name == endpoint.dialect.name else "translated"


def translation_page() -> str:
    """The passport of each pair of formats."""
    formats = dialects()
    parts = [
        MADE,
        "# Translation\n",
        "Where a caller and a provider speak the same format, bytes pass through. Embeddings and speech are never translated: they reach",
        "the providers of their format. Chats are: the request is read and written, and so is the reply, and everything that cannot be",
        "carried is told:\n",
        "* in the header `X-Losses` (base64 of a JSON list of `path`, `class`, `severity`, `detail`), in the log line and in a metric;",
        "* what a *reply* loses is known only later: it is in the log line, and with `X-Trunkline-Losses: stream` in a comment",
        "  `: trunkline.losses […]` before the end of the stream.\n",
        "`X-Trunkline-Strict: 1` refuses a call with any material loss (422, `loss_refused`). Without it only what leaves out content or",
        "tools is refused, and another target of the route may take over. A route decides otherwise with `losses`, first match first:\n",
        "```toml",
        "[routes.fast]",
        'targets = [{ model = "openai/gpt-5-mini" }]',
        'losses = [{ path = "messages.**", class = "unsupported", action = "allow" }]',
        "```\n",
        "`trunkline translate FROM TO < body.json` shows what would be sent, and what would be lost. A signed thought goes back only to",
        "the vendor that signed it: other clients carry it unread (`reasoning_details` in Chat Completions, `encrypted_content` in",
        "Responses, the signature in Messages), to the byte.\n",
        "`*` marks what is material: the reply may differ for it.\n",
    ]
    for source in formats.values():
        targets = [target for target in formats.values() if target is not source]
        rows = []
        for feature in FEATURES:
            cells = [fate(source, target, feature) for target in targets]
            if any(cells):
                rows.append(f"| {feature.name} | {' | '.join(cells)} |")
        head = f"| | {' | '.join(f'to `{target.name}`' for target in targets)} |\n| --- |{' --- |' * len(targets)}"
        parts.append(f"## From `{source.name}`\n\n{head}\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def error_page() -> str:
    """All errors, by whose fault they are."""
    rows = [
        f"| `{kind.code}` | {kind.status} | {kind.fault} | {'yes' if kind.retryable else 'no'} | {(kind.__doc__ or '').strip()} |"
        for kind in concrete(errors.TrunklineError)
    ]
    return f"""{MADE}
# Errors

Every error says whose fault it is and what to do next. In OpenAI's shape it is `error.code`, in Anthropic's too; the status is
HTTP's. Where a provider's own status says more (a rate limit or an overload, what is wrong with a request), that one is handed on.

| code | status | fault | worth asking again | |
| --- | --- | --- | --- | --- |
{chr(10).join(rows)}
"""


def concrete(root: type[errors.TrunklineError]) -> list[type[errors.TrunklineError]]:
    """The classes below a root that have a code, in the order of the source."""
    return [kind for sub in root.__subclasses__() for kind in ([sub] if "code" in vars(sub) else []) + concrete(sub)]


def configuration_page() -> str:
    """All settings, with types, defaults and meanings."""
    schema = json_schema()
    definitions: dict[str, Any] = schema["$defs"]
    parts = [
        MADE,
        "# Configuration\n",
        "A TOML file (`--config`, `TRUNKLINE_CONFIG`, `./trunkline.toml`, or in the XDG configuration folder) and the environment,",
        "which wins: `TRUNKLINE_SERVER__PORT=9000` is `[server] port = 9000`. A key that is not listed here is an error. For editors:",
        "[configuration.schema.json](configuration.schema.json). `trunkline config check` reads it all, and says what it means.\n",
        section("[server]", definitions["ServerSettings"], definitions),
        section("[store]", definitions["StoreSettings"], definitions),
        section("[log]", definitions["LogSettings"], definitions),
        section("[egress]", definitions["EgressSettings"], definitions),
        section("[accounts]", definitions["AccountSettings"], definitions),
        section("[exchanges]", definitions["ExchangeSettings"], definitions),
        section("[catalog]", definitions["CatalogSettings"], definitions),
        section("[providers.NAME]", definitions["Settings"], definitions),
        section("[providers.NAME.timeouts]", definitions["Timeouts"], definitions),
        section('[providers.NAME], with kind = "local"', own(definitions["LocalSettings"], definitions["Settings"]), definitions),
        section("[providers.NAME.models.MODEL]", definitions["ModelSettings"], definitions),
        section("`lifecycle` of a model", definitions["LifecycleFields"], definitions),
        section("[routes.NAME]", definitions["RouteSettings"], definitions),
        section("each of `targets`", definitions["TargetSettings"], definitions),
        section("each of `losses`", definitions["LossRule"], definitions),
        section("[extensions.NAME]", definitions["ExtensionSettings"], definitions),
    ]
    return "\n".join(parts)


def own(schema: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """A record without what it shares with its base."""
    return {**schema, "properties": {name: field for name, field in schema["properties"].items() if name not in base["properties"]}}


def section(title: str, schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    """One table of settings."""
    rows = [
        f"| `{name}` | {kind(field, definitions)} | {default(field)} | {field.get('description', '')} |"
        for name, field in schema["properties"].items()
    ]
    head = "| | type | default | |\n| --- | --- | --- | --- |"
    return f"## {title}\n\n{(schema.get('description') or '').strip()}\n\n{head}\n" + "\n".join(rows) + "\n"


def kind(field: dict[str, Any], definitions: dict[str, Any]) -> str:
    """A type in words."""
    match field:
        case {"$ref": ref}:
            return f"table ({ref.rpartition('/')[2]})"
        case {"anyOf": options}:
            return " or ".join(kind(option, definitions) for option in options if option.get("type") != "null")
        case {"enum": values}:
            return " or ".join(f"`{value}`" for value in values if value is not None)
        case {"type": "array", "items": items}:
            return f"list of {kind(items, definitions)}"
        case {"type": kind_name}:
            return str(kind_name)
        case _:
            return ""


def default(field: dict[str, Any]) -> str:
    """A default, where there is one."""
    if "default" not in field:
        return "required"
    value = field["default"]
    return "" if value in (None, [], {}) or isinstance(value, dict) else f"`{pretty(value)}`"


def provider_page() -> str:
    """All kinds of provider."""
    rows = [
        f"| `{name}` | {each.title} | {', '.join(wire.dialect.name for wire in each.speaks)} "
        f"| {f'`{each.base_url}`' if each.base_url else ''} | {f'`{each.api_key}`' if each.api_key else ''} |"
        for name, each in kinds().items()
    ]
    return f"""{MADE}
# Providers

| kind | | speaks | base_url | api_key |
| --- | --- | --- | --- | --- |
{chr(10).join(rows)}
"""


def api_page() -> str:
    """The admin API's routes and records."""
    document = openapi.document(declared(resources()))
    records: dict[str, Any] = document["components"]["schemas"]
    parts = [
        MADE,
        "# Admin API\n",
        str(document["info"]["description"]) + "\n",
        "`GET /openapi.json` has the same for programs (OpenAPI 3.1), `GET /docs/api` for people; both need a key, unless `server.open_docs`",
        "is set. Any route may answer 400, 401, 403, 405, 429, 500 and 503, as [errors](errors.md) says.\n",
    ]
    for group in page.groups(document):
        parts.append(f"## {group['name']}\n\n{group['description']}\n")
        parts += map(operation, group["operations"])
    parts.append("## Records\n")
    parts += [f"### {name}\n\n{fields(record)}\n" for name, record in records.items() if "properties" in record]
    return "\n".join(parts)


def operation(told: dict[str, Any]) -> str:
    """One route."""
    lines = [f"### {told['method']} {told['path']}\n", f"{told['summary']} {told['description']}\n"]
    if parameters := told.get("parameters"):
        rows = [
            f"| `{each['name']}`{' *' if each['required'] else ''} | {each['in']} | {page.kind(each['schema'])} | {each.get('description', '')} |"
            for each in parameters
        ]
        lines += ["| parameter | in | type | |\n| --- | --- | --- | --- |", *rows, ""]
    if body := told.get("requestBody"):
        content = body["content"]["application/json"]
        lines.append(f"Body: {page.kind(content['schema'])}\n")
        if "example" in content:
            lines.append(f"```json\n{pretty(content['example'])}\n```\n")
    for status, response in told["responses"].items():
        if status < "300":
            schema = response.get("content", {}).get("application/json", {}).get("schema")
            lines.append(f"Answers {status}{f' with {page.kind(schema)}' if schema else ''}.\n")
    return "\n".join(lines)


def fields(record: dict[str, Any]) -> str:
    """One record."""
    required = record.get("required", [])
    rows = [
        f"| `{name}`{' *' if name in required else ''} | {page.kind(field)} | {field.get('description', '')} |"
        for name, field in record["properties"].items()
    ]
    return "\n".join([f"{(record.get('description') or '').strip()}\n", "| | | |\n| --- | --- | --- |", *rows])


def cli_page() -> str:
    """The help of every command."""
    commands = [[], *([name] for name in COMMANDS)]
    commands += [["keys", sub] for sub in ("create", "list", "change", "rotate", "revoke", "reset-admin")]
    commands += [["accounts", sub] for sub in ("create", "list", "rename", "disable", "enable", "delete")]
    commands += [["users", sub] for sub in ("create", "list", "change", "disable", "enable", "delete")]
    commands += [["config", sub] for sub in ("check", "example", "schema")] + [["models", "fetch"], ["route", "explain"]]
    made = {name: [each.route.verb for each in declared({name: resource})] for name, resource in resources().items()}
    made_commands = [[name.replace("_", "-"), *verb] for name in RESOURCES for verb in ([], *([verb] for verb in made[name]))]
    # Apart: of choices that are the same in another order, `typing` keeps those that it met first in a process.
    helps = [*zip(commands, helps_of(commands), strict=True), *zip(made_commands, helps_of(made_commands), strict=True)]
    texts = [f"## trunkline {' '.join(command)}".rstrip() + f"\n\n```text\n{told}\n```\n" for command, told in helps]
    return f"{MADE}\n# Command line\n\nWhat prints a result takes `--json`.\n\n" + "\n".join(texts)


TELL_HELP = """
import io, json, sys
from contextlib import redirect_stdout
from trunkline.cli import run

told = []
for command in json.load(sys.stdin):
    with redirect_stdout(io.StringIO()) as out:
        if run([*command, "--help"]) != 0:
            sys.exit(f"{command} has no help")
    told.append(out.getvalue())
json.dump(told, sys.stdout)
"""


def helps_of(commands: list[list[str]]) -> list[str]:
    """What `--help` of each prints, at a width of 100."""
    run = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", TELL_HELP],
        input=encode(commands),
        stdout=subprocess.PIPE,
        check=True,
        env={"COLUMNS": "100", "PYTHONPATH": ":".join(sys.path), "TERM": "dumb", "PYTHONUTF8": "1", "HOME": "/"},
    )
    return ["\n".join(line.rstrip() for line in told.strip().splitlines()) for told in decode(run.stdout, list[str])]


if __name__ == "__main__":
    for name, made in pages().items():
        (ROOT / name).write_text(made(), encoding="utf-8")
        print(name)
