"""What the API says of itself: `/openapi.json`, and the same for people, `/docs/api`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256

from trunkline.base.codec import encode
from trunkline.server.admin import Declared
from trunkline.server.rest.openapi import document
from trunkline.server.rest.page import policy, render


@dataclass(frozen=True, slots=True)
class Made:
    """A document's bytes, and their tag."""

    body: bytes
    etag: str


@dataclass(frozen=True, slots=True)
class Document:
    """A document of the API: made when it is first asked for, and then kept."""

    content_type: str
    headers: Mapping[str, str]
    made: Callable[[], Made]


def documents(routes: Sequence[Declared]) -> dict[str, Document]:
    """The documents by their paths."""
    return {
        "/openapi.json": Document("application/json", {}, _once(lambda: encode(document(routes)))),
        "/docs/api": Document(
            "text/html; charset=utf-8",
            {"content-security-policy": policy(), "referrer-policy": "no-referrer"},
            _once(lambda: render(document(routes)).encode()),
        ),
    }


def _once(make: Callable[[], bytes]) -> Callable[[], Made]:
    @cache
    def made() -> Made:
        body = make()
        return Made(body, f'"{sha256(body).hexdigest()[:32]}"')

    return made
