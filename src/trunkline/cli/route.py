"""`trunkline route`."""

from cyclopts import App

from trunkline import dialects as dialects_package
from trunkline.app.config import connect, load
from trunkline.base import members
from trunkline.base.codec import nearest
from trunkline.cli.output import print_json, print_table
from trunkline.cli.places import ConfigFile, Json, config_file
from trunkline.dialects import Dialect
from trunkline.errors import NotFound
from trunkline.gateway.router import Router, Stop

command = App(name="route", help="Explain where calls go, by the configuration of this machine.")


@command.command
def explain(model: str, *, format: str = "openai_chat", config: ConfigFile = None, json: Json = False) -> None:  # noqa: A002 - the flag's name
    """Say where a call for a model would go, in which order, and whether it would be translated.

    Args:
        model: the name that a client asks for.
        format: the format that the client speaks.
    """
    known = members.load(dialects_package, "DIALECT", Dialect)
    if format not in known:
        close = nearest(format, list(known))
        raise NotFound(f"there is no format `{format}`", hint=f"Did you mean `{close}`?" if close else f"Known: {', '.join(known)}.")
    read = load(config_file(config))
    router = Router(providers=connect(read), routes=read.sections.routes)
    stops = router.stops(model, known[format], "chat")
    rows = [_row(number, stop, known[format]) for number, stop in enumerate(stops, start=1)]
    if json:
        print_json(rows)
    else:
        columns = ("try", "target", "kind", "format", "how", "at")
        print_table(columns, [[str(row[column]) for column in columns] for row in rows])


def _row(number: int, stop: Stop, dialect: Dialect) -> dict[str, object]:
    theirs = stop.wire.dialect
    return {
        "try": number,
        "target": str(stop.target),
        "kind": stop.provider.settings.kind,
        "format": theirs.name,
        "how": "forwarded" if theirs.name == dialect.name else "translated",
        "at": stop.provider.base_url or ("a process of its own" if stop.provider.kind.launched else "this process"),
    }
