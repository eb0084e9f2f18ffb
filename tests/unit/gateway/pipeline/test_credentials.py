import asyncio

import pytest

from tests.fakes.scripted import Answer, Gateway
from tests.fakes.wallet import credential
from tests.unit.gateway.pipeline.formats import FORMATS, MESSAGES, Words, asks, attempts, error_of
from trunkline.errors import UpstreamBusy, UpstreamDenied, UpstreamDown
from trunkline.gateway.attempts import MOST_ATTEMPTS
from trunkline.gateway.pipeline import BACK_OFF
from trunkline.model.caller import Caller
from trunkline.model.credential import Owner
from trunkline.providers.anthropic import PROVIDER as ANTHROPIC_KIND

ONE, OTHER, THIRD = credential("one"), credential("other"), credential("third")
REFUSED = UpstreamDenied("no", upstream_status=401)


def credentials_of(gateway: Gateway) -> list[str]:
    """Which credential each attempt of the last call went out with."""
    return [attempt.credential for attempt in gateway.told[-1].attempts]


@pytest.mark.proves("credentials.rest")
async def test_another_credential_of_the_provider_is_tried_before_the_next_target(gateway: Gateway, words: Words) -> None:
    gateway.wallet.put("a", ONE, OTHER)
    gateway.upstream.script("a/m", REFUSED, Answer(words.whole), Answer(words.whole))
    assert (await gateway.carry(asks())).status == 200
    assert attempts(gateway) == ["a/m upstream_denied", "a/m ok"]
    assert credentials_of(gateway) == ["cred_one", "cred_other"]
    assert gateway.upstream.sent == [["cred_one"], ["cred_one", "cred_other"]], "what was sent before may be repeated, too"
    assert (await gateway.carry(asks())).status == 200
    assert credentials_of(gateway) == ["cred_other"], "the refused one rests"


@pytest.mark.proves("credentials.rest")
async def test_when_all_credentials_are_refused_the_next_target_is_tried(gateway: Gateway, words: Words) -> None:
    gateway.wallet.put("a", ONE, OTHER)
    gateway.upstream.script("a/m", REFUSED)
    gateway.upstream.script("b/m", Answer(words.whole), Answer(words.whole))
    assert (await gateway.carry(asks())).status == 200
    assert attempts(gateway) == ["a/m upstream_denied", "a/m upstream_denied", "b/m ok"]
    assert gateway.upstream.sent[-1] == []
    await gateway.carry(asks())
    assert credentials_of(gateway) == [""], "the first target is passed over while its credentials rest"


@pytest.mark.proves("credentials.rest", "G14")
async def test_a_busy_credential_is_left_alone_for_as_long_as_it_was_told_and_the_caller_hears_it_when_all_are(
    gateway: Gateway, words: Words
) -> None:
    gateway.wallet.put("a", ONE, OTHER)
    gateway.upstream.script("a/m", UpstreamBusy("x", retry_after=30.0), UpstreamBusy("x", retry_after=9.0))
    outlet = await gateway.carry(asks("one"))
    assert (outlet.status, outlet.headers[b"retry-after"]) == (429, b"9")
    gateway.clock.advance(2)
    outlet = await gateway.carry(asks("one"))
    assert (outlet.status, outlet.headers[b"retry-after"], credentials_of(gateway)) == (429, b"7", [])
    gateway.clock.advance(7)
    gateway.upstream.script("a/m", Answer(words.whole))
    assert (await gateway.carry(asks("one"))).status == 200
    assert credentials_of(gateway) == ["cred_other"]


@pytest.mark.proves("credentials.rest")
async def test_one_callers_own_busy_credential_keeps_nobody_else_away(gateway: Gateway, words: Words) -> None:
    gateway.wallet.put("a", ONE)
    gateway.wallet.put("a", OTHER, owner=Owner("acc_other"))
    gateway.upstream.script("a/m", UpstreamBusy("x", retry_after=30.0), Answer(words.whole))
    assert (await gateway.carry(asks("one"))).status == 429
    gateway.door.caller = Caller(id="key_b", kind="service", name="bob", scopes=frozenset({"inference"}), account="acc_other")
    assert (await gateway.carry(asks("one"))).status == 200
    assert credentials_of(gateway) == ["cred_other"]


@pytest.mark.proves("credentials.rest")
async def test_the_only_credential_that_was_refused_is_tried_all_the_same(gateway: Gateway, words: Words) -> None:
    gateway.wallet.put("a", ONE)
    gateway.upstream.script("a/m", REFUSED, Answer(words.whole))
    assert (await gateway.carry(asks("one"))).status == 502
    assert (await gateway.carry(asks("one"))).status == 200, "somebody has to find out whether it is well again"


async def test_a_call_that_could_not_be_sent_is_sent_again_with_the_same_credential(gateway: Gateway, words: Words) -> None:
    gateway.wallet.put("a", ONE, OTHER)
    gateway.upstream.script("a/m", UpstreamDown("x"), Answer(words.whole))
    call = asyncio.get_running_loop().create_task(gateway.carry(asks("one")))
    await gateway.clock.asleep()
    gateway.clock.advance(BACK_OFF)
    assert (await call).status == 200
    assert gateway.upstream.sent == [["cred_one"], ["cred_one"]]


async def test_no_more_credentials_are_tried_than_there_are_attempts(gateway: Gateway) -> None:
    gateway.wallet.put("a", *(credential(f"c{number}") for number in range(9)))
    gateway.upstream.script("a/m", REFUSED)
    await gateway.carry(asks())
    assert len(gateway.upstream.calls) == MOST_ATTEMPTS


@pytest.mark.proves("credentials.rest")
async def test_a_stream_that_is_refused_after_its_head_goes_on_with_another_credential(gateway: Gateway, words: Words) -> None:
    gateway.wallet.put("a", ONE, OTHER)
    gateway.upstream.script("a/m", Answer(words.busy), Answer(words.prelude, words.hello, words.rest))
    assert (await gateway.carry(asks(stream=True))).status == 200
    assert credentials_of(gateway) == ["cred_one", "cred_other"]


async def test_a_provider_without_the_credential_that_it_needs_is_passed_over() -> None:
    gateway, words = Gateway(ANTHROPIC_KIND, FORMATS["anthropic"][1]), MESSAGES
    gateway.upstream.wants_credentials = True
    gateway.wallet.put("b", ONE)
    gateway.upstream.script("b/m", Answer(words.whole))
    assert (await gateway.carry(asks())).status == 200
    assert attempts(gateway) == ["a/m no_credential", "b/m ok"]
    outlet = await gateway.carry(asks("one"))
    assert outlet.status == 503
    assert "trunkline credentials add a" in str(error_of(outlet))
