import pytest

from tests.fakes.scripted import REQUEST_ID, Answer, Gateway, Pause
from tests.unit.gateway.pipeline.formats import Words, asks, error_of, last_event
from trunkline.errors import BadRequest, TooLarge, Unauthenticated
from trunkline.model.caller import Caller


async def test_who_has_no_key_is_refused_before_the_body_is_read(gateway: Gateway) -> None:
    gateway.door.refuses = Unauthenticated("no key")
    unread = Pause()
    outlet = await gateway.carry(unread)
    assert outlet.status == 401
    assert error_of(outlet)["code"] == "unauthenticated"
    assert not unread.reached.is_set()


async def test_a_key_without_the_scope_is_refused_before_the_body_is_read(gateway: Gateway) -> None:
    gateway.door.caller = Caller(id="key_a", kind="service", name="monitor", scopes=frozenset({"metrics"}))
    unread = Pause()
    outlet = await gateway.carry(unread)
    assert outlet.status == 403
    assert "`inference`" in str(error_of(outlet)["message"])
    assert not unread.reached.is_set()


@pytest.mark.proves("errors.native")
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [(b"nope", 400, "bad_request"), (asks("nobody"), 404, "not_found"), (asks("nobody", stream=True), 404, "not_found")],
    ids=["no json", "unknown model", "unknown model, stream"],
)
async def test_a_call_that_cannot_be_made_is_refused_as_json(gateway: Gateway, body: bytes, status: int, code: str) -> None:
    outlet = await gateway.carry(body)
    assert (outlet.status, error_of(outlet)["code"]) == (status, code)
    assert outlet.headers[b"content-type"] == b"application/json"
    assert outlet.headers[b"x-request-id"] == REQUEST_ID.encode()
    assert gateway.upstream.calls == []


async def test_a_body_that_is_too_large_is_refused_with_the_number(gateway: Gateway) -> None:
    class Large(Pause):
        async def __call__(self) -> None:
            raise TooLarge("the body is larger than 1024 bytes")

    outlet = await gateway.carry(Large())
    assert outlet.status == 413
    assert "1024" in str(error_of(outlet)["message"])


async def test_an_error_of_the_caller_inside_an_attempt_is_tried_nowhere_else(gateway: Gateway) -> None:
    gateway.upstream.script("a/m", BadRequest("`messages` is empty"))
    outlet = await gateway.carry(asks())
    assert outlet.status == 400
    assert gateway.upstream.calls == ["a/m"]


# ------------------------------------------------------------------------------------------------------------- crashes
class Crash(Exception):
    pass


@pytest.mark.parametrize("crash", [Crash("canary"), TimeoutError("canary"), KeyError("canary")], ids=lambda error: type(error).__name__)
async def test_a_fault_of_ours_is_in_the_log_and_its_id_alone_in_the_answer(gateway: Gateway, crash: Exception) -> None:
    gateway.upstream.script("a/m", crash)
    outlet = await gateway.carry(asks())
    assert (outlet.status, outlet.ended, error_of(outlet)["code"]) == (500, True, "internal")
    assert REQUEST_ID in str(error_of(outlet)["message"])
    assert b"canary" not in outlet.body
    assert gateway.crashes == [(REQUEST_ID, crash)]
    assert gateway.told[0].outcome == "internal"
    assert len(gateway.exchanges) == 0


async def test_a_fault_of_ours_in_a_stream_that_was_shown_is_an_error_event(gateway: Gateway, words: Words) -> None:
    answer = Answer(words.prelude, words.hello, Crash("canary"))
    gateway.upstream.script("a/m", answer)
    outlet = await gateway.carry(asks(stream=True))
    assert outlet.ended
    assert last_event(outlet)["error"]["code"] == "internal"
    assert b"canary" not in outlet.body
    assert answer.closed


async def test_a_fault_of_ours_while_an_answer_is_read_closes_it(gateway: Gateway, words: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Answer(words.whole)
    gateway.upstream.script("a/m", answer)
    monkeypatch.setattr(type(gateway.endpoint.dialect), "read_reply", lambda *_: 1 / 0)
    assert (await gateway.carry(asks())).status == 500
    assert answer.closed
