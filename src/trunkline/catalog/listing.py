"""What a provider's `GET /v1/models` says, read as far as it can be: a row that makes no sense is left out, the others stay.

| who | fields beside `id` |
| --- | --- |
| OpenAI | `shutdown_date` (https://developers.openai.com/api/docs/deprecations, 2026-11-29) |
| Anthropic | `max_input_tokens`, `max_tokens`; pages by `has_more` and `last_id` (https://platform.claude.com/docs/en/api/models-list, 2026-11-29) |
| vLLM | `max_model_len` |
| OpenRouter, Together | `context_length`, `top_provider.max_completion_tokens` |
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from trunkline.base.codec import NULL, Malformed, Raw, Wire, decode_raw
from trunkline.model.card import UNKNOWN, Card, Lifecycle

MOST = 5_000
"""Models of one provider that are remembered."""
LONGEST_ID = 256
MOST_TOKENS = 1 << 40

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class Found:
    """A model that a provider lists, with what it says of it."""

    id: str
    card: Card = UNKNOWN


class Rows(NamedTuple):
    """A whole list: its models in the provider's order, and how many rows of it could not be read."""

    found: tuple[Found, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list.

    Attributes:
        found: in the provider's order.
        left_out: rows that could not be read.
        after: the id after which the next page begins, or an empty string.
    """

    found: tuple[Found, ...]
    left_out: int = 0
    after: str = ""


class _List(Wire, frozen=True):
    data: list[Raw]
    has_more: bool = False
    last_id: str | None = None


class _Id(Wire, frozen=True):
    id: str


class _Row(Wire, frozen=True):
    shutdown_date: Raw = NULL
    max_input_tokens: Raw = NULL
    max_tokens: Raw = NULL
    max_model_len: Raw = NULL
    context_length: Raw = NULL
    top_provider: Raw = NULL


class _Top(Wire, frozen=True):
    max_completion_tokens: Raw = NULL


def read_page(body: bytes) -> Page:
    """Read an answer. Raises: `Malformed`: it is no list of models."""
    listed = decode_raw(body, _List)
    found: dict[str, Found] = {}
    for raw in listed.data[:MOST]:
        if (row := _read(raw)) is not None:
            found.setdefault(row.id, row)
    after = listed.last_id or "" if listed.has_more else ""
    return Page(tuple(found.values()), len(listed.data) - len(found), after)


def _read(raw: Raw) -> Found | None:
    try:
        name = decode_raw(raw, _Id).id
        row = decode_raw(raw, _Row)
    except Malformed:
        return None
    if not 0 < len(name) <= LONGEST_ID or not name.isprintable() or name != name.strip():
        return None
    context = _tokens(row.max_input_tokens) or _tokens(row.context_length) or _tokens(row.max_model_len)
    most = _tokens(row.max_tokens) or _tokens(_field(row.top_provider))
    day = _day(row.shutdown_date)
    if context is None and most is None and day is None:
        return Found(name)
    ends = Lifecycle(state="deprecated", retires_at=day) if day else None
    return Found(name, Card(context_window=context, max_output=most, lifecycle=ends))


def _field(raw: Raw) -> Raw:
    try:
        return decode_raw(raw, _Top).max_completion_tokens
    except Malformed:
        return NULL


def _tokens(raw: Raw) -> int | None:
    """A number of tokens, where it is one."""
    try:
        value = decode_raw(raw, int)
    except Malformed:
        return None
    return value if 0 < value <= MOST_TOKENS else None


def _day(raw: Raw) -> str | None:
    try:
        value = decode_raw(raw, str)
    except Malformed:
        return None
    return value if _DAY.fullmatch(value) else None
