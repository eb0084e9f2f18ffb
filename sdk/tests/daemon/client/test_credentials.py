"""Refresh and sign-in: who is refused, and whose login is over."""

import pytest

from sdk.tests.daemon.client.answers import AGAIN, NEUTRAL, answer, cuts, failure, keeps, seen
from sdk.tests.http1.peer import Peer
from trunkline_sdk.daemon.client import Client
from trunkline_sdk.daemon.errors import CallFailed, RefreshRefused, StepRefused
from trunkline_sdk.daemon.messages import Flow, OAuthStartRequest, Record

RECORD = Record(access_token="access-1", refresh_token="refresh-1")

REFUSED = {
    # status, body: message, terminal
    (400, b'{"terminal":true,"error":"invalid_grant"}'): ("invalid_grant", True),
    (400, b'{"error":"no refresh here"}'): ("no refresh here", False),
    (503, b'{"error":"try later"}'): ("try later", False),
    (500, b'{"error":{"message":"object"}}'): ("object", False),
    (200, b'{"error":"x","terminal":true}'): ("x", True),
    (200, b'{"error":"x"}'): ("x", False),
    (401, b'{"error":{"message":"m"},"terminal":true}'): ("m", True),
    (400, b'{"terminal":true,"error":{"message":"m"}}'): ("m", True),
    (200, b"not json"): ("", False),
    (502, b"<html>"): ("", False),
    (400, b""): ("", False),
    (400, b'{"record":{"Expiry":"soon"},"terminal":true}'): ("", False),
    (400, b'{"terminal":true,"record":{"Expiry":"soon"}}'): ("", True),
    (400, b'{"TERMINAL":true}'): ("", True),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_refusal_ends_a_login_only_where_it_says_so(peer: Peer, client: Client, strict: Client, case: tuple[int, bytes]) -> None:
    """I.12"""
    status, body = case
    message, terminal = REFUSED[case]
    keeps(peer, answer(body, status))
    for one in (client, strict):
        with pytest.raises(RefreshRefused) as caught:
            await one.refresh("p", RECORD)
        error = caught.value
        assert (error.provider, error.status, error.reason, error.terminal) == ("p", status, message, terminal)
        assert str(error) == f"extension p refresh failed{f': {message}' if message else f' (HTTP {status})'}"


async def test_terminal_without_an_error_is_no_success_and_ends_no_login(peer: Peer, client: Client, strict: Client) -> None:
    """I.12, K8"""
    keeps(peer, answer(b'{"terminal":true,"record":{"AccessToken":"new"}}'))
    assert await strict.refresh("p", RECORD) == Record(access_token="new")
    with pytest.raises(RefreshRefused) as caught:
        await client.refresh("p", RECORD)
    assert not caught.value.terminal


@pytest.mark.parametrize("body", [b"{}", b"null", b'{"record":null}'])
async def test_an_empty_success_is_an_empty_record(peer: Peer, client: Client, body: bytes) -> None:
    """I.12"""
    keeps(peer, answer(body))
    assert await client.refresher("p")(RECORD) == Record()


async def test_no_answer_to_a_refresh_keeps_the_record(peer: Peer, client: Client) -> None:
    cuts(peer)
    assert seen(await failure(client.refresh("p", RECORD))) == ("transport", AGAIN)


STEPS = {
    (400, b'{"error":"method is not supported"}'): "extension p {step} failed: method is not supported",
    (500, b'{"error":{"message":"broken","code":500}}'): "extension p {step} failed: broken",
    (200, b'{"error":"too early"}'): "extension p {step} failed: too early",
    (502, b"<html>"): "extension p {step} failed (HTTP 502)",
    (200, b"not json"): "extension p {step} got an answer that cannot be used",
    (200, b'{"authorization":7,"result":7,"record":7}'): "extension p {step} got an answer that cannot be used",
}


@pytest.mark.parametrize("case", STEPS)
@pytest.mark.parametrize("step", ["start", "poll", "exchange"])
async def test_a_step_that_is_refused_says_why(peer: Peer, client: Client, step: str, case: tuple[int, bytes]) -> None:
    """I.14"""
    status, body = case
    keeps(peer, answer(body, status))
    call = {
        "start": lambda: client.oauth_start("p", OAuthStartRequest(method="browser")),
        "poll": lambda: client.oauth_poll("p", Flow()),
        "exchange": lambda: client.oauth_exchange("p", Flow(), "code"),
    }[step]
    with pytest.raises(StepRefused) as caught:
        await call()
    assert str(caught.value) == STEPS[case].format(step=f"oauth/{step}")
    assert (caught.value.step, caught.value.status) == (step, status)
    assert seen(caught.value)[1] == NEUTRAL


async def test_a_step_without_an_answer_is_a_transport_failure(peer: Peer, client: Client) -> None:
    cuts(peer)
    with pytest.raises(CallFailed) as caught:
        await client.oauth_poll("p", Flow())
    assert seen(caught.value) == ("transport", AGAIN)
