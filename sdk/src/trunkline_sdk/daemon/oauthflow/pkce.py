"""Proof Key for Code Exchange (RFC 7636, S256), and the forms that a daemon sends to a provider's token endpoint."""

import base64
import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

ClientMode = Literal["public_pkce", "client_secret_post"]
"""How a client shows who it is: by the verifier alone, or by its secret in the form as well."""


def random_text() -> str:
    """32 random bytes as unpadded base64url: 43 characters."""
    return _base64url(secrets.token_bytes(32))


def challenge(verifier: str) -> str:
    """The S256 challenge of a verifier."""
    return _base64url(hashlib.sha256(verifier.encode("ascii")).digest())


@dataclass(frozen=True, slots=True)
class Pkce:
    """What one sign-in keeps secret: the verifier proves that the exchange is ours, the state that the answer is."""

    verifier: str = field(default_factory=random_text, repr=False)
    state: str = field(default_factory=random_text, repr=False)

    @property
    def challenge(self) -> str:
        """What goes into the authorization URL instead of the verifier."""
        return challenge(self.verifier)


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthClient:
    """An OAuth client at a provider (RFC 6749). The forms are for `application/x-www-form-urlencoded` bodies."""

    client_id: str
    authorize_url: str = ""
    scopes: tuple[str, ...] = ()
    mode: ClientMode = "public_pkce"
    client_secret: str = field(default="", repr=False)

    def authorization_url(self, pkce: Pkce, redirect_uri: str, extra: Mapping[str, str] | None = None) -> str:
        """Where the owner signs in; a query of `authorize_url` is kept."""
        scheme, host, path, query, _ = urlsplit(self.authorize_url)
        ours = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": redirect_uri,
            **({"scope": " ".join(self.scopes)} if self.scopes else {}),
            "state": pkce.state,
            "code_challenge": pkce.challenge,
            "code_challenge_method": "S256",
            **(extra or {}),
        }
        return urlunsplit((scheme, host, path, urlencode([*parse_qsl(query, keep_blank_values=True), *ours.items()]), ""))

    def exchange_form(self, code: str, verifier: str, redirect_uri: str) -> dict[str, str]:
        """The form that exchanges a code for tokens."""
        return self._form({"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri, "code_verifier": verifier})

    def refresh_form(self, refresh_token: str) -> dict[str, str]:
        """The form that renews tokens."""
        return self._form({"grant_type": "refresh_token", "refresh_token": refresh_token})

    def _form(self, fields: dict[str, str]) -> dict[str, str]:
        secret: Iterable[tuple[str, str]] = [("client_secret", self.client_secret)] if self.mode == "client_secret_post" else []
        return {**fields, "client_id": self.client_id, **dict(secret)}


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
