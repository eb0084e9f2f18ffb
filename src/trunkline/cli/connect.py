"""`trunkline connect`."""

import asyncio
import sys
from getpass import getpass
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote

from cyclopts import Parameter

from trunkline.base.clock import SystemClock
from trunkline.base.codec import Wire, decode, encode, nearest
from trunkline.base.secret import Secret
from trunkline.cli.client import KeyFile, Server, asking
from trunkline.cli.output import print_json
from trunkline.cli.places import DataFolder, Json
from trunkline.cli.sign_in import SIGN_INS, Rest, SignIn, Steps
from trunkline.cli.terminal import Terminal
from trunkline.errors import BadRequest, NotFound

CONNECTIONS = "/api/v1/connections"
_PREFERRED = ("device", "browser", "manual")
_LONGEST = 1 << 16  # letters of a token: a service account's key has a few thousand

Method = Literal["device", "browser", "manual"]
ForAccount = Annotated[
    str | None, Parameter(help="The account whose calls it is for; by default your own, and an operator's: everybody's.")
]
ForUser = Annotated[str | None, Parameter(help="The user whose calls alone it is for; by default you, where the key is a person's.")]


class Joinable(Wire, frozen=True):
    """A provider that people connect themselves; `credential` is `oauth`, `token`, or empty where its daemon does not say."""

    id: str
    credential: str = ""
    methods: list[str] = []


class Connection(Wire, frozen=True):
    """What a provider is called with, without its secrets. Times are seconds since the Unix epoch."""

    id: str
    provider: str
    account: str | None
    user: str | None
    token_type: str
    label: str | None
    expires_at: float | None
    refreshable: bool
    state: str
    created_at: float
    updated_at: float
    revision: int

    @property
    def whose(self) -> str:
        """Whose calls it is for, in words."""
        if self.user:
            return f"the user {self.user}"
        return f"the account {self.account}" if self.account else "everybody"


class Page(Wire, frozen=True):
    """A page of providers."""

    data: list[Joinable]
    next: str | None = None


def command(
    provider: str,
    *,
    method: Annotated[Method | None, Parameter(help="How to sign in; by default the first of these that the provider has.")] = None,
    token_file: Annotated[
        Path | None, Parameter(help="A file with a token to be kept instead of signing in, `-` for stdin.", allow_leading_hyphen=True)
    ] = None,
    token_type: Annotated[str | None, Parameter(help="What the token is, in the provider's words; by default `api_key`.")] = None,
    label: Annotated[str | None, Parameter(help="What you call the token.")] = None,
    account: ForAccount = None,
    user: ForUser = None,
    no_open: Annotated[bool, Parameter(negative=(), help="Open no browser.")] = False,
    server: Server = None,
    key_file: KeyFile = None,
    data: DataFolder = None,
    json: Json = False,
) -> None:
    """Sign in to a provider behind an extension daemon, or give it a token, so that a running server calls it for you.

    `device` shows a code to be typed at an address, on any machine; `browser` signs in with a browser on this one; `manual` takes the
    code, or the address that the browser ends at, as you paste it.

    Args:
        provider: its name, `DAEMON/ID`; or `ID`, where one daemon alone has it.
    """
    rest = asker(server, key_file, data)
    found = asyncio.run(provider_named(rest, provider))
    owner = {name: value for name, value in {"account": account, "user": user}.items() if value is not None}
    if token_file is not None or found.credential == "token" or not (found.credential or found.methods):
        if method is not None:
            raise BadRequest(f"`{found.id}` takes a token, and no sign-in", hint="Leave `--method` out.")
        about = {name: value for name, value in {"token_type": token_type, "label": label}.items() if value is not None}
        token = _token(token_file, found.id)
        made = asyncio.run(rest("POST", CONNECTIONS, {"provider": found.id, "token": token.reveal(), **about, **owner}))
    else:
        if token_type is not None or label is not None:
            raise BadRequest("`--token-type` and `--label` are a token's, and this is a sign-in", hint="Leave them out.")
        clock = SystemClock()
        ended = signed_in(Steps(rest, Terminal(clock, opens=not no_open), clock), found, method, owner)
        made = asyncio.run(rest("GET", f"{CONNECTIONS}/{ended.connection}"))
    row = decode(made, Connection)
    if json:
        print_json(row)
    else:
        print(f"connected {found.id}: {row.id}, for {row.whose}")


def signed_in(steps: Steps, provider: Joinable, method: Method | None, owner: dict[str, str]) -> SignIn:
    """Sign in. Raises: `BadRequest`, where the provider has no such method; what the steps raise."""
    if method is not None and provider.methods and method not in provider.methods:
        raise BadRequest(f"`{provider.id}` has no sign-in `{method}`", hint=f"It has {', '.join(provider.methods)}.")
    chosen = method or next((each for each in _PREFERRED if each in provider.methods), None)
    asked = {"provider": provider.id, **({"method": chosen} if chosen else {}), **owner}
    begun = asyncio.run(steps.browser(asked) if chosen == "browser" else steps.start(asked))
    if begun.status != "pending":
        return begun
    return asyncio.run(steps.device(begun)) if begun.method == "device" else steps.manual(begun)


async def provider_named(rest: Rest, name: str) -> Joinable:
    """The provider of that name.

    Raises:
        NotFound: there is none.
        BadRequest: several daemons have it.
    """
    known = await providers(rest)
    fitting = [each for each in known if each.id == name] or [each for each in known if each.id.partition("/")[2] == name]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise BadRequest(f"several daemons serve `{name}`", hint=f"One of {', '.join(f'`{each.id}`' for each in fitting)}.")
    names = [each.id for each in known]
    close = nearest(name, names)
    raise NotFound(
        f"there is no provider `{name}` that one can connect",
        hint=f"Did you mean `{close}`?" if close else f"There are {', '.join(names)}." if names else "No daemon of this server has one.",
    )


async def providers(rest: Rest) -> list[Joinable]:
    """All that can be connected."""
    known: list[Joinable] = []
    after = ""
    while True:
        page = decode(await rest("GET", f"{SIGN_INS}/providers?limit=500{after}"), Page)
        known += page.data
        if page.next is None:
            return known
        after = f"&after={quote(page.next, safe='')}"


def asker(server: str | None, key_file: Path | None, data: Path | None) -> Rest:
    """The server that the options name."""

    async def ask(method: str, path: str, body: object = None) -> bytes:
        content = b"" if body is None else encode(body)
        return (await asking(method, path, server=server, key_file=key_file, data=data, body=content)).body

    return ask


def _token(file: Path | None, provider: str) -> Secret:
    """What is pasted: from a file, from stdin, or from a person, hidden."""
    try:
        if file is not None and str(file) != "-":
            text = file.expanduser().read_text(encoding="utf-8")
        elif file is None and sys.stdin.isatty():
            text = getpass(f"Token for {provider} (not shown): ", sys.stderr)
        else:
            text = sys.stdin.read(_LONGEST + 1)
    except EOFError:
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "it is no text"
        raise BadRequest(f"the token cannot be read from `{file or 'stdin'}`: {reason}") from None
    text = text.strip()
    if not text or len(text) > _LONGEST:
        raise BadRequest(
            "no token was given" if not text else f"that is no token: it has more than {_LONGEST} letters",
            hint="Type it, give it on stdin, or name a file with `--token-file`.",
        )
    return Secret(text)
