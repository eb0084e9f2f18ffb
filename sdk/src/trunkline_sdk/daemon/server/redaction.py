"""Takes secrets out of what is logged or told.

A daemon sees every credential that its products send; an upstream's error text may quote one. So each text passes here, once.
"""

import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

from msgspec import json

MASK = "***"
_SHORTEST = 6  # a shorter "secret" would be found in half of all texts
_SECRET_HEADERS = frozenset({b"authorization", b"proxy-authorization", b"cookie"})
_SECRET_PREFIX = b"x-credential-"


class Redaction:
    """The secrets of one request, and the daemon's own."""

    __slots__ = ("_pattern",)

    def __init__(self, secrets: Iterable[str]) -> None:
        spellings = {spelling for secret in secrets if len(secret) >= _SHORTEST for spelling in _spellings(secret)}
        ordered = sorted(spellings, key=len, reverse=True)  # one may be the beginning of another
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def text(self, text: str) -> str:
        """The text without the secrets, as they are or as URLs, forms and JSON spell them."""
        return text if self._pattern is None else self._pattern.sub(MASK, text)

    def __repr__(self) -> str:
        return "Redaction()"


def headers(pairs: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """Headers as a log may show them: what carries a credential is masked, whatever its value (daemon contract, K13)."""
    return [
        (
            name.decode("latin-1"),
            MASK if name.lower() in _SECRET_HEADERS or name.lower().startswith(_SECRET_PREFIX) else value.decode("utf-8", "replace"),
        )
        for name, value in pairs
    ]


def _spellings(secret: str) -> set[str]:
    escaped = json.encode(secret).decode()[1:-1]
    return {secret, escaped, escaped.replace("/", "\\/"), quote(secret, safe=""), quote(secret), quote_plus(secret)}
