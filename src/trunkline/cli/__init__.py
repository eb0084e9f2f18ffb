"""The command line. Each command is a module, imported when it runs, so that `trunkline --help` answers at once."""

import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from trunkline.cli.output import print_error, print_json
from trunkline.errors import BadRequest, TrunklineError

COMMANDS = {
    "serve": "Serve until stopped.",
    "daemon": "Serve the configured providers to other programs, by the extension daemon protocol.",
    "demo": "Let a real model on this machine answer through Trunkline.",
    "credentials": "Keep providers' credentials, encrypted.",
    "connect": "Sign in to a provider behind an extension daemon, or give it a token.",
    "connections": "List the sign-ins and tokens for providers behind extension daemons.",
    "disconnect": "Forget a sign-in or a token for a provider behind an extension daemon.",
    "vault": "Look after the key that stored credentials are encrypted with.",
    "keys": "Make, list, change, rotate and revoke keys.",
    "accounts": "Make, list, rename, disable and delete accounts.",
    "users": "Make, list, change, disable and delete an account's users.",
    "config": "Check the configuration, or print an example.",
    "models": "List the models and what is known of them, or get one for this machine.",
    "route": "Explain where calls go, by the configuration of this machine.",
    "translate": "Show how a request is carried from one format to another.",
    "backup": "Write all that the database holds into one encrypted file.",
    "restore": "Put a backup into the database.",
    "reload": "Have the running server read its configuration again.",
    "ext": "Try the sandbox of extensions on this machine.",
    "doctor": "Check this installation, and list what it is made of.",
    "api": "Ask the admin API of a running server anything.",
    "remote": "Do with a running server what its admin API offers.",
}

RESOURCES = {
    "catalog_overrides": "Say of models what you know better than the files and the providers do.",
    "exchanges": "List the calls that have ended.",
    "extensions": "List the extensions of a running server, and how it stands with each.",
    "providers": "List the providers of a running server.",
    "routes": "List the routes of a running server, and explain where calls go.",
    "sign_ins": "Sign in to a provider step by step, as programs do.",
}
"""The commands that are made from the admin API's resources (`trunkline.cli.resources`); one whose name is in `COMMANDS` has its own."""


def make_app() -> App:
    """The command line's tree."""
    app = App(
        name="trunkline",
        help="One board between people, their agents and every model.",
        help_format="plaintext",  # a renderer of Markdown takes 40 ms to import
        version=_version,
    )
    for name, help_text in COMMANDS.items():
        app.command(f"trunkline.cli.{name}:command", name=name, help=help_text)
    for name, help_text in RESOURCES.items():
        app.command(f"trunkline.cli.resources:{name}", name=name.replace("_", "-"), help=help_text)
    app.register_install_completion_command(help="Have the shell complete commands.")  # pyright: ignore[reportUnknownMemberType] - its **kwargs
    return app


def run(arguments: Sequence[str]) -> int:
    """Run a command and return the exit status: 0 done, 1 refused or failed, 2 not understood, 130 interrupted."""
    as_json = "--json" in arguments
    if as_json and "--version" in arguments:
        print_json({"version": _version()})
        return 0
    try:
        make_app()(arguments, result_action="return_value", exit_on_error=False, print_error=False)
    except CycloptsError as error:
        print_error(BadRequest(str(error), hint="`trunkline COMMAND --help` shows what there is."), as_json=as_json)
        return 2
    except TrunklineError as error:
        print_error(error, as_json=as_json)
        return 1
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    return 0


def _version() -> str:
    from importlib.metadata import version

    return version("trunkline")
