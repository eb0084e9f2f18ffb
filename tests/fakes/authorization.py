"""An OAuth server on loopback that lets nothing pass: RFC 6749 with PKCE (RFC 7636), device codes (RFC 8628), revocation (RFC 7009).

    async with AuthorizationServer() as auth:
        ...                                    # `auth.authorize_url`, `auth.device_url`, `auth.token_url`; `auth.client_id`
        auth.approve(user_code)                # what a person does at `auth.base_url + "/device"`
        auth.expire_tokens()                   # every access token of now is refused from here on
        assert auth.refreshes == 1
    assert auth.violations == []

A browser gets pages with two buttons, `allow` and `deny`. A refresh token is used once: a second time ends the whole sign-in (RFC 9700,
section 4.14.2). Redirects are exact, but for the port of a loopback address (RFC 8252, section 7.3). `hold` keeps answers of the token
endpoint back after their tokens were rotated. All methods may be called from another thread than the one that serves.
"""

import asyncio
import base64
import hashlib
import html
import json
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from trunkline_sdk.listen import Listener

LOOPBACK = "http://127.0.0.1/callback"
"""The redirect that programs on the same machine use, with a port of theirs."""

_TEXT = re.compile(r"[A-Za-z0-9_.~-]{43,128}")


@dataclass
class SignIn:
    """What one approval came to: the tokens of one account."""

    account: str
    access: set[str] = field(default_factory=set)
    refresh: str = ""
    used: set[str] = field(default_factory=set)
    refreshes: int = 0
    revoked: bool = False


@dataclass
class _Code:
    challenge: str
    redirect_uri: str
    account: str
    expires: float


@dataclass
class _Device:
    user_code: str
    expires: float
    interval: float
    polled: float | None = None
    outcome: str = ""
    account: str = ""


class Refused(Exception):
    """An error of the token endpoint (RFC 6749, section 5.2; RFC 8628, section 3.5)."""

    def __init__(self, code: str, status: int = 400) -> None:
        super().__init__(code)
        self.code = code
        self.status = status


@dataclass(kw_only=True)
class AuthorizationServer:
    """Clients are `client_id`, with `client_secret` in the form where there is one; who signs in is `account`.

    Attributes:
        lifetime: of access tokens, in seconds; none of them says when it expires where this is 0.
        interval: seconds between two polls of a device code.
        device_lifetime: of a device code, in seconds.
        counts: requests of the token endpoint by grant, such as `refresh_token`, and of the pages by path.
        refreshes: refresh tokens that were exchanged.
        violations: what a strict server would hold against its client, without the values.
        sign_ins: all that were approved and exchanged, in order.
    """

    client_id: str = "client-1"
    client_secret: str = ""
    account: str = "account-1"
    scopes: str = ""
    lifetime: float = 3600.0
    interval: float = 1.0
    device_lifetime: float = 600.0
    redirects: list[str] = field(default_factory=list)
    now: Callable[[], float] = time.time
    counts: Counter[str] = field(default_factory=Counter)
    refreshes: int = 0
    violations: list[str] = field(default_factory=list)
    sign_ins: list[SignIn] = field(default_factory=list)
    base_url: str = ""

    def __post_init__(self) -> None:
        self._asked: dict[str, dict[str, str]] = {}
        self._codes: dict[str, _Code] = {}
        self._devices: dict[str, _Device] = {}
        self._expiries: dict[str, float] = {}
        self._outage: tuple[int, str] | None = None
        self._held = False
        self._waiting = 0
        self._gate = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        listener = await self._stack.enter_async_context(Listener(self._serve))
        [self.base_url] = listener.urls
        self.redirects = [LOOPBACK, f"{self.base_url}/code", *self.redirects]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()
        await self._stack.aclose()

    @property
    def authorize_url(self) -> str:
        return f"{self.base_url}/authorize"

    @property
    def device_url(self) -> str:
        return f"{self.base_url}/device/authorization"

    @property
    def token_url(self) -> str:
        return f"{self.base_url}/token"

    @property
    def code_url(self) -> str:
        """A redirect for people: its page shows the code, with the state behind a `#`."""
        return f"{self.base_url}/code"

    # ------------------------------------------------------------------------------------------- what people and tests do

    def approve(self, user_code: str) -> None:
        """Say yes to a device code, as its page does."""
        device = self._device(user_code)
        device.outcome, device.account = "approved", self.account

    def deny(self, user_code: str) -> None:
        """Say no to a device code."""
        self._device(user_code).outcome = "denied"

    def expire(self, user_code: str) -> None:
        """Let the time of a device code be over."""
        self._device(user_code).expires = self.now()

    def expire_tokens(self) -> None:
        """Refuse every access token of now, whatever its expiry says."""
        for each in self.sign_ins:
            each.access.clear()

    def revoke(self) -> None:
        """End every sign-in: access tokens are refused, refresh tokens are `invalid_grant`."""
        for each in self.sign_ins:
            each.revoked = True

    def allow(self, authorization_url: str) -> str:
        """Say yes at an address of `authorize_url` without a browser: the redirect."""
        return self._redirect(self._check(dict(parse_qsl(urlsplit(authorization_url).query))), allowed=True)

    def refuse(self, authorization_url: str) -> str:
        """Say no there: the redirect."""
        return self._redirect(self._check(dict(parse_qsl(urlsplit(authorization_url).query))), allowed=False)

    def account_of(self, access_token: str) -> str | None:
        """Whose access token this is, while it is good."""
        found = next((each for each in self.sign_ins if access_token in each.access and not each.revoked), None)
        expiry = self._expiries.get(access_token)
        return None if found is None or (expiry is not None and self.now() >= expiry) else found.account

    def fails(self, status: int | None, code: str = "server_error") -> None:
        """Have the token endpoint answer this to everything, before anything is used up; none ends it."""
        self._outage = None if status is None else (status, code)

    def hold(self) -> None:
        """Keep the token endpoint's answers back from now on, after what they rotate was rotated."""
        self._gate.clear()
        self._held = True

    def release(self) -> None:
        """Give the answers that were held back."""
        self._held = False
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._gate.set)

    @property
    def held(self) -> int:
        """How many answers are being held back."""
        return self._waiting

    # ------------------------------------------------------------------------------------------------------------ grants

    def _check(self, asked: Mapping[str, str]) -> Mapping[str, str]:
        """What a request for authorization has to be, told on a page of the server's own where it is not."""
        wrong = [
            name
            for name, is_good in {
                "client_id": asked.get("client_id") == self.client_id,
                "redirect_uri": self._is_registered(asked.get("redirect_uri", "")),
                "response_type": asked.get("response_type") == "code",
                "code_challenge_method": asked.get("code_challenge_method") == "S256",
                "code_challenge": bool(_TEXT.fullmatch(asked.get("code_challenge", ""))),
                "state": len(asked.get("state", "")) >= 16,
                "scope": asked.get("scope", "") == self.scopes,
            }.items()
            if not is_good
        ]
        if wrong:
            self.violations += [f"authorize: `{name}`" for name in wrong]
            raise Refused("invalid_request")
        return asked

    def _is_registered(self, uri: str) -> bool:
        parts = urlsplit(uri)
        bare = f"{parts.scheme}://{parts.hostname}{parts.path}" if parts.hostname == "127.0.0.1" and not parts.query else uri
        return uri in self.redirects or (bare == LOOPBACK and LOOPBACK in self.redirects)

    def _redirect(self, asked: Mapping[str, str], *, allowed: bool) -> str:
        if allowed:
            code = "code_" + secrets.token_urlsafe(24)
            self._codes[code] = _Code(asked["code_challenge"], asked["redirect_uri"], self.account, self.now() + 60)
            answer = {"code": code, "state": asked["state"]}
        else:
            answer = {"error": "access_denied", "state": asked["state"]}
        return f"{asked['redirect_uri']}?{urlencode(answer)}"

    def _begin_device(self, form: Mapping[str, str]) -> dict[str, Any]:
        self._check_client(form)
        code, user_code = "device_" + secrets.token_urlsafe(24), "-".join(secrets.token_hex(2).upper() for _ in range(2))
        self._devices[code] = _Device(user_code, self.now() + self.device_lifetime, self.interval)
        page = f"{self.base_url}/device"
        return {
            "device_code": code,
            "user_code": user_code,
            "verification_uri": page,
            "verification_uri_complete": f"{page}?user_code={quote(user_code)}",
            "expires_in": self.device_lifetime,
            "interval": self.interval,
        }

    def _token(self, form: Mapping[str, str]) -> dict[str, Any]:
        grant = form.get("grant_type", "")
        self.counts[grant.rpartition(":")[2]] += 1
        if self._outage is not None:
            status, code = self._outage
            raise Refused(code, status)
        self._check_client(form)
        match grant:
            case "authorization_code":
                return self._exchange(form)
            case "urn:ietf:params:oauth:grant-type:device_code":
                return self._poll(form)
            case "refresh_token":
                return self._refresh(form.get("refresh_token", ""))
            case _:
                raise Refused("unsupported_grant_type")

    def _check_client(self, form: Mapping[str, str]) -> None:
        if form.get("client_id") != self.client_id or form.get("client_secret", "") != self.client_secret:
            self.violations.append("the client does not show who it is")
            raise Refused("invalid_client", 401)

    def _exchange(self, form: Mapping[str, str]) -> dict[str, Any]:
        code = self._codes.pop(form.get("code", ""), None)
        if code is None or self.now() >= code.expires:
            raise Refused("invalid_grant")
        verifier = form.get("code_verifier", "")
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        if not _TEXT.fullmatch(verifier) or challenge != code.challenge:
            self.violations.append("token: `code_verifier`")
            raise Refused("invalid_grant")
        if form.get("redirect_uri") != code.redirect_uri:
            self.violations.append("token: `redirect_uri`")
            raise Refused("invalid_grant")
        return self._give(self._signed_in(code.account))

    def _poll(self, form: Mapping[str, str]) -> dict[str, Any]:
        code = form.get("device_code", "")
        device, now = self._devices.get(code), self.now()
        if device is None:
            raise Refused("invalid_grant")
        early = device.polled is not None and now - device.polled < device.interval * 0.9  # clocks of two processes differ a little
        device.polled = now
        if now >= device.expires:
            raise Refused("expired_token")
        if early:
            device.interval += 5
            raise Refused("slow_down")
        if device.outcome == "":
            raise Refused("authorization_pending")
        del self._devices[code]
        if device.outcome == "denied":
            raise Refused("access_denied")
        return self._give(self._signed_in(device.account))

    def _refresh(self, token: str) -> dict[str, Any]:
        found = next((each for each in self.sign_ins if token and token in {each.refresh, *each.used}), None)
        if found is None or found.revoked:
            raise Refused("invalid_grant")
        if token in found.used:
            self.violations.append("a refresh token was used twice")
            found.revoked = True
            raise Refused("invalid_grant")
        found.used.add(token)
        found.refreshes += 1
        self.refreshes += 1
        return self._give(found)

    def _signed_in(self, account: str) -> SignIn:
        self.sign_ins.append(SignIn(account))
        return self.sign_ins[-1]

    def _give(self, to: SignIn) -> dict[str, Any]:
        access, to.refresh = "access_" + secrets.token_urlsafe(24), "refresh_" + secrets.token_urlsafe(24)
        to.access.add(access)
        told: dict[str, Any] = {"access_token": access, "refresh_token": to.refresh, "token_type": "Bearer", "account_id": to.account}
        if self.lifetime:
            self._expiries[access] = self.now() + self.lifetime
            told["expires_in"] = self.lifetime
        return told

    def _device(self, user_code: str) -> _Device:
        found = next((each for each in self._devices.values() if each.user_code == user_code.strip().upper()), None)
        if found is None:
            raise Refused("invalid_request")
        return found

    # ------------------------------------------------------------------------------------------------------------- pages

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        method, path = scope["method"], unquote(scope["path"])
        query = dict(parse_qsl(scope["query_string"].decode()))
        form = dict(parse_qsl((await _body(receive)).decode()))
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        self.counts[path] += 1
        status, kind, content, more = 200, "application/json", "", []
        try:
            match method, path:
                case "GET", "/authorize":
                    asked = "ask_" + secrets.token_urlsafe(12)
                    self._asked[asked] = dict(self._check(query))
                    kind, content = "text/html", _page("A program wants to use your account.", "/authorize", {"asked": asked})
                case "POST", "/authorize":
                    asked_for = self._asked.pop(form.get("asked", ""), None)
                    if asked_for is None:
                        raise Refused("invalid_request")  # noqa: TRY301
                    status, more = 303, [("location", self._redirect(asked_for, allowed=form.get("answer") == "allow"))]
                case "GET", "/device":
                    kind, content = "text/html", _page("Type the code of your device.", "/device", {}, query.get("user_code", ""))
                case "POST", "/device":
                    (self.approve if form.get("answer") == "allow" else self.deny)(form.get("user_code", ""))
                    kind, content = "text/html", "<!doctype html><title>Done</title><p id=done>You may close this page.</p>"
                case "GET", "/code":
                    shown = html.escape(f"{query.get('code', '')}#{query.get('state', '')}")
                    kind, content = "text/html", f"<!doctype html><title>Code</title><code id=code>{shown}</code>"
                case "POST", "/device/authorization":
                    content = json.dumps(self._begin_device(form))
                case "POST", "/token":
                    content = json.dumps(self._token(form))
                    await self._held_back()
                case "POST", "/revoke":
                    self._check_client(form)
                    for each in self.sign_ins:
                        each.revoked |= form.get("token") in {each.refresh, *each.access}
                case "GET", "/userinfo":
                    account = self.account_of(headers.get("authorization", "").removeprefix("Bearer "))
                    if account is None:
                        raise Refused("invalid_token", 401)  # noqa: TRY301
                    content = json.dumps({"sub": account})
                case _:
                    raise Refused("not_found", 404)  # noqa: TRY301
        except Refused as refused:
            status, kind, content = refused.status, "application/json", json.dumps({"error": refused.code})
        fields = [("content-type", kind), ("cache-control", "no-store"), ("content-length", str(len(content.encode()))), *more]
        await send({"type": "http.response.start", "status": status, "headers": [(n.encode(), v.encode()) for n, v in fields]})
        await send({"type": "http.response.body", "body": content.encode()})

    async def _held_back(self) -> None:
        with self._counted():
            while self._held:
                await self._gate.wait()

    @contextmanager
    def _counted(self) -> Generator[None]:
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1


async def _body(receive: Any) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    return body


def _page(words: str, action: str, hidden: Mapping[str, str], user_code: str | None = None) -> str:
    fields = "".join(f'<input type=hidden name="{name}" value="{html.escape(value)}">' for name, value in hidden.items())
    if user_code is not None:
        fields += f'<input id=user_code name=user_code value="{html.escape(user_code)}">'
    buttons = "".join(f"<button id={answer} name=answer value={answer}>{answer}</button>" for answer in ("allow", "deny"))
    return f'<!doctype html><title>Sign in</title><p>{words}<form method=post action="{action}">{fields}{buttons}</form>'
