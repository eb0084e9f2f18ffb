"""Which web pages may call us from a browser: none, unless the operator lists them. Pure."""

from collections.abc import Sequence

Headers = list[tuple[bytes, bytes]]

METHODS = b"GET, POST, PATCH, PUT, DELETE, OPTIONS"
# The vendors' SDKs send a dozen headers of their own in a browser (`x-stainless-…`). The asterisk stands for all but `authorization`, and
# only for requests without cookies (https://fetch.spec.whatwg.org/#http-access-control-allow-headers); we know no cookies.
HEADERS = b"authorization, *"
EXPOSED = b"*"
MAX_AGE = b"600"


class Cors:
    """The allow-list of origins, each as a browser sends it (`https://chat.example`)."""

    def __init__(self, origins: Sequence[str]) -> None:
        self._origins = frozenset(origin.encode() for origin in origins)

    def headers(self, origin: bytes | None) -> Headers:
        """What is added to an answer for a page of this origin; nothing for one that is not allowed."""
        if origin is None or origin not in self._origins:
            return []
        return [(b"access-control-allow-origin", origin), (b"vary", b"origin"), (b"access-control-expose-headers", EXPOSED)]

    def preflight(self, origin: bytes | None) -> Headers:
        """The answer to a browser's question whether it may call."""
        allowed = self.headers(origin)
        if not allowed:
            return []
        return [
            *allowed,
            (b"access-control-allow-methods", METHODS),
            (b"access-control-allow-headers", HEADERS),
            (b"access-control-max-age", MAX_AGE),
        ]
