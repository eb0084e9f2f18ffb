"""What an owner pastes, or a provider's redirect brings back."""

from dataclasses import dataclass, field
from typing import Self
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A provider's answer to a sign-in. `state` is none where a bare code was pasted, which cannot hold one."""

    code: str = field(default="", repr=False)
    state: str | None = field(default=None, repr=False)
    error: str = ""

    @classmethod
    def pasted(cls, text: str) -> Self:
        """Read a bare code, `code#state`, or a whole redirect URL with its parameters in the query or the fragment."""
        text = text.strip()
        if "://" not in text and not text.startswith(("?", "#", "code=", "error=")):
            code, mark, state = text.partition("#")
            return cls(code=code.strip(), state=state.strip() if mark else None)
        if "://" not in text:
            parameters = dict(parse_qsl(text.lstrip("?#")))
        else:
            try:
                _, _, _, query, fragment = urlsplit(text)
            except ValueError:
                return cls()
            parameters = dict(parse_qsl(fragment) + parse_qsl(query))
        return cls(
            code=parameters.get("code", "").strip(), state=parameters.get("state", "").strip(), error=parameters.get("error", "").strip()
        )
