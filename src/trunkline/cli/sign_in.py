"""A person's sign-in to a provider, through the routes `/sign-ins` of a server (daemon contract, G)."""

import asyncio
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol
from urllib.parse import parse_qs, urlsplit

from trunkline.base.clock import Clock
from trunkline.base.codec import Wire, decode
from trunkline.cli.redirect import Page, Redirect
from trunkline.errors import BadRequest, LimitReached, SignInNeeded, StoreUnavailable, TrunklineError, UpstreamError
from trunkline_sdk.listen import ListenError

SIGN_INS = "/api/v1/sign-ins"
_LEAST_PAUSE = 1.0  # seconds between two polls, whatever the provider says
_LOOPBACK = re.compile(r"http://(?P<name>127\.0\.0\.1|localhost):(?P<port>[0-9]{1,5})(?P<path>/[^?#]*)?")


class SignIn(Wire, frozen=True):
    """A sign-in as the server shows it. `interval` is seconds, `expires_at` seconds since the Unix epoch."""

    id: str
    provider: str
    method: str
    status: Literal["pending", "complete", "failed", "expired"]
    authorization_url: str | None = None
    user_code: str | None = None
    verification_uri: str | None = None
    verification_uri_complete: str | None = None
    interval: float = 5
    expires_at: float = 0
    connection: str | None = None


class Rest(Protocol):
    """A server that can be asked; gives the body of a good answer."""

    async def __call__(self, method: str, path: str, body: object = None) -> bytes:
        """Ask. Raises: `TrunklineError`."""
        ...


class Person(Protocol):
    """Who signs in, at a terminal."""

    def say(self, text: str) -> None:
        """Show a line, which may hold what a daemon sent."""
        ...

    def visit(self, url: str) -> bool:
        """Open a browser there, where that is wanted and there may be one; whether it was tried."""
        ...

    def paste(self) -> str | None:
        """A line that the person gives; none where no more comes."""
        ...

    def waiting(self, words: str, until: float) -> AbstractContextManager[Callable[[str], None]]:
        """Show that something is waited for, until when at most; the block may say how it goes."""
        ...


class Steps:
    """The ways to sign in. Each gives the sign-in when it is complete; `browser` also one that is pending, whose code has to be pasted.

    Raises (all of them):
        SignInNeeded: it was refused, or it is too late.
        TrunklineError: what the server answered.
    """

    def __init__(self, rest: Rest, person: Person, clock: Clock) -> None:
        self._rest = rest
        self._person = person
        self._clock = clock

    async def start(self, asked: dict[str, Any]) -> SignIn:
        """Begin one."""
        return decode(await self._rest("POST", SIGN_INS, asked), SignIn)

    async def device(self, begun: SignIn) -> SignIn:
        """Show the code, and wait until it was typed somewhere."""
        say = self._person.say
        say(f"Go to     {begun.verification_uri}")
        say(f"and type  {begun.user_code}")
        if begun.verification_uri_complete not in {None, begun.verification_uri}:
            say(f"or open   {begun.verification_uri_complete}")
        with self._person.waiting("Waiting for you to sign in there", begun.expires_at) as tell:
            return _ended(await self._polled(begun, tell))

    async def browser(self, asked: dict[str, Any]) -> SignIn:
        """Begin one whose redirect comes to this machine, and wait for that; where it goes elsewhere, it is pasted."""
        inbox = _Inbox(self._rest)
        async with Redirect(inbox.take) as redirect:
            inbox.begun = begun = await self.start({**asked, "redirect_uri": redirect.uri})
            wanted = _redirect_of(begun) or redirect.uri
            if wanted == redirect.uri:
                return await self._redirected(begun, redirect, inbox)
        # The provider knows its client by another address, with a port of its own.
        here = _LOOPBACK.fullmatch(wanted)
        if here is not None:
            try:
                async with Redirect(inbox.take, port=int(here["port"]), path=here["path"] or "/", name=here["name"]) as redirect:
                    return await self._redirected(begun, redirect, inbox)
            except ListenError:
                self._person.say(f"The provider sends browsers to port {here['port']} of this machine, where something else listens.")
        return begun

    def manual(self, begun: SignIn) -> SignIn:
        """Have the code pasted. Not a coroutine, so that Ctrl-C ends the wait for a line."""
        say = self._person.say
        self._person.visit(begun.authorization_url or "")
        say(f"Sign in at  {begun.authorization_url}")
        say("Then paste the code that you get, or the whole address that the browser was sent to.")
        while True:
            pasted = self._person.paste()
            if pasted is None:
                raise BadRequest("no code was given", hint=f"`trunkline connect {begun.provider}` starts anew.")
            try:
                return _ended(asyncio.run(completed(self._rest, begun, pasted)))
            except BadRequest as error:  # a slip of the hand: the sign-in goes on
                say(f"{error.message}. Try again, or end with Ctrl-C.")

    async def _polled(self, begun: SignIn, tell: Callable[[str], None]) -> SignIn:
        pause = begun.interval
        while True:
            await self._clock.sleep(max(pause, _LEAST_PAUSE))
            try:
                stands = decode(await self._rest("POST", f"{SIGN_INS}/{begun.id}/poll"), SignIn)
            except LimitReached:
                continue
            except (UpstreamError, StoreUnavailable) as trouble:  # for the moment: the sign-in is kept
                if self._clock.now() >= begun.expires_at:
                    raise
                tell(trouble.message)
                continue
            if stands.status != "pending":
                return stands
            tell("")
            pause = stands.interval

    async def _redirected(self, begun: SignIn, redirect: Redirect, inbox: "_Inbox") -> SignIn:
        url = begun.authorization_url or ""
        if self._person.visit(url):
            self._person.say(f"Your browser opens; if it does not, it is to go to  {url}")
        else:
            self._person.say(f"Open in a browser on this machine  {url}")
        with self._person.waiting("Waiting for your browser to come back", begun.expires_at):
            try:
                async with asyncio.timeout(max(0.0, begun.expires_at - self._clock.now())):
                    await redirect.over()
            except TimeoutError:
                raise _too_late(begun) from None
        return inbox.outcome()


class _Inbox:
    """Hands redirects on to the server, which judges them, and keeps what came of the last."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest
        self._got: SignIn | TrunklineError | None = None
        self.begun: SignIn | None = None

    async def take(self, url: str) -> Page:
        """One redirect."""
        if self.begun is None:
            return Page("Not yet", "The sign-in has not begun.", over=False, status=404)
        try:
            got = self._got = await completed(self._rest, self.begun, url)
        except BadRequest:  # of another sign-in, or of none
            return Page("That was another sign-in", "Go on in the window that this one was opened in.", over=False, status=400)
        except TrunklineError as error:
            self._got = error
            return Page("It did not work", f"{error.message}. The terminal says more; you may close this window.", over=True)
        if got.status == "complete":
            return Page("You are signed in", "You may close this window, and go on in the terminal.", over=True)
        return Page("You are not signed in", "The sign-in was refused, or it was too late. You may close this window.", over=True)

    def outcome(self) -> SignIn:
        """What came of it."""
        if isinstance(self._got, TrunklineError):
            raise self._got
        assert self._got is not None
        return _ended(self._got)


async def completed(rest: Rest, begun: SignIn, pasted: str) -> SignIn:
    """Hand in a code or an address. Raises: `BadRequest`, where it belongs to another sign-in or to none; this one goes on."""
    return decode(await rest("POST", f"{SIGN_INS}/{begun.id}/complete", {"pasted": pasted}), SignIn)


def _ended(sign_in: SignIn) -> SignIn:
    match sign_in.status:
        case "failed":
            raise SignInNeeded(
                f"the sign-in to `{sign_in.provider}` was refused", hint=f"`trunkline connect {sign_in.provider}` starts anew."
            )
        case "expired":
            raise _too_late(sign_in)
        case _:
            return sign_in


def _too_late(sign_in: SignIn) -> SignInNeeded:
    return SignInNeeded(f"the sign-in to `{sign_in.provider}` has expired", hint=f"`trunkline connect {sign_in.provider}` starts anew.")


def _redirect_of(begun: SignIn) -> str | None:
    """Where the provider will send the browser, as the address says."""
    try:
        return next(iter(parse_qs(urlsplit(begun.authorization_url or "").query).get("redirect_uri", [])), None)
    except ValueError:
        return None
