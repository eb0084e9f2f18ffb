"""No secret is in a line of the log or in an error, however it is spelled.

That nothing of any kind holds one is checked after every test of this folder (`Gateway.check`); here are the ways in which they get close.
"""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from tests.fakes.upstream import Upstream
from tests.wire.gateway import Gateway, forms, question
from tests.wire.sides import Side


def lower(text: str) -> str:
    """Percent signs as some servers write them."""
    head, *rest = quote(text, safe="").split("%")
    return "%".join([head, *(part[:2].lower() + part[2:] for part in rest)])


SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "percent": lambda key: quote(key, safe=""),
    "percent, slashes kept": quote,
    "percent, lower case": lower,
    "form": quote_plus,
    "every character": lambda key: "".join(f"%{ord(character):02X}" for character in key),
    "in a URL": lambda key: f"https://api.example/v1/chat?key={quote(key, safe='')}&x=1",
    "in a header": lambda key: f"Authorization: Bearer {key}",
    "JSON within JSON": lambda key: json.dumps({"key": key}).replace("/", "\\/"),
}


def quoting(side: Side, spelled: str) -> dict[str, Any]:
    """A provider's error that quotes something."""
    error = {"type": "invalid_request_error", "message": f"no route to {spelled}, see there", "code": "invalid"}
    if side.dialect == "openai_responses":
        return {"type": "error", "sequence_number": 98, "code": "invalid", "message": error["message"], "error": error}
    return {"type": "error", "error": error} if side.dialect == "anthropic" else {"error": error}


def bare(key: str) -> list[str]:
    """The parts of a key that no spelling changes."""
    return [part for part in key.replace("/", " ").replace("+", " ").replace("=", " ").split() if len(part) > 2]


def hidden(gateway: Gateway, side: Side, text: str) -> bool:
    """Whether nothing of the provider's key can be read."""
    return not any(part in form for form in forms(text) for part in [gateway.secrets[side.first], *bare(gateway.secrets[side.first])[-1:]])


@pytest.mark.parametrize("status", [400, 401, 429, 503])
@pytest.mark.proves("G19")
async def test_a_key_that_a_providers_error_quotes_is_taken_out(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, status: int
) -> None:
    for spelling, spell in SPELLINGS.items():
        upstreams[side.first].answers(status, quoting(side, spell(gateway.secrets[side.first])))
        got = await gateway.ask(side)
        gateway.clock.advance(60)  # it may be asked again
        assert got.status == (502 if status == 401 else status)
        assert hidden(gateway, side, got.body.decode()), spelling
        if status != 401:
            assert "no route to" in got.body.decode(), "the rest is told"
            assert "see there" in got.body.decode()


@pytest.mark.proves("G19")
async def test_a_key_with_its_letters_escaped_in_json_is_taken_out(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    for escaped in ("\\/", "\\u002f", "\\u002F"):
        body = json.dumps(quoting(side, "KEY")).replace("KEY", gateway.secrets[side.first].replace("/", escaped))
        upstreams[side.first].answers(400, body.encode(), headers=[("content-type", "application/json")])
        got = await gateway.ask(side)
        assert hidden(gateway, side, got.body.decode()), escaped


@pytest.mark.parametrize("shown", [False, True], ids=["first event", "later event"])
@pytest.mark.proves("G19", "stream.never-clean")
async def test_a_key_that_an_error_within_a_stream_quotes_is_taken_out(
    gateway: Gateway, upstreams: dict[str, Upstream], side: Side, shown: bool
) -> None:
    before = side.stream()[: side.shown] if shown else []
    for spelling, spell in SPELLINGS.items():
        upstreams[side.first].streams([*before, quoting(side, spell(gateway.secrets[side.first]))])
        got = await gateway.ask(side, stream=True)
        assert got.status == (200 if shown else 400)
        assert hidden(gateway, side, got.body.decode()), spelling
        assert "no route to" in got.body.decode()


@pytest.mark.proves("G19")
async def test_a_callers_key_in_a_url_is_no_key_and_is_not_told_on(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    body = json.dumps(question(side)).encode()
    upstreams[side.first].says("hello", times=None)
    for way in ("key", "api_key", "access_token", "token", "x"):
        for path in (side.path, "/v1/models", "/nothing"):
            got = await gateway.post(f"{path}?{way}={gateway.key}", body, [("authorization", "")])
            assert got.status == 401
        assert (await gateway.post(f"{side.path}?{way}={gateway.key}", body)).status == 200
        assert upstreams[side.first].calls[-1].path == side.path, "the query goes nowhere"


@pytest.mark.proves("G19", "headers")
async def test_a_provider_gets_its_own_key_and_never_the_callers(gateway: Gateway, upstreams: dict[str, Upstream], side: Side) -> None:
    both = [
        ("authorization", f"Bearer {gateway.key}"),
        ("x-api-key", gateway.key),
        ("cookie", f"key={gateway.key}"),
        ("api-key", gateway.key),
    ]
    upstreams[side.first].says("hello")
    assert (await gateway.ask(side, headers=both)).status == 200
    call, own = upstreams[side.first].calls[0], gateway.secrets[side.first]
    given = {name: value for name in ("authorization", "x-api-key") if (value := call.header(name)) is not None}
    assert given == side.credential(own)
