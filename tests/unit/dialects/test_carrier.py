"""Another vendor's thought in a string that a client hands back unread."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.dialects._carrier import MARK, carries, pack, unpack
from trunkline.model.event import ReasoningEnded
from trunkline.model.part import Reasoning

ORIGINS = st.sampled_from(["anthropic", "openai_chat", "openai_responses"])


@pytest.mark.proves("G11")
@given(ORIGINS, st.text(), st.text(), st.text())
def test_what_is_packed_is_unpacked_to_the_byte(origin: str, thought_id: str, signature: str, encrypted: str) -> None:
    packed = pack(ReasoningEnded(signature=signature, encrypted=encrypted, origin=origin, id=thought_id))
    carried = unpack(packed)
    assert carried is not None
    assert (carried.origin, carried.id, carried.signature, carried.encrypted) == (origin, thought_id, signature, encrypted)
    assert pack(Reasoning(text="x", **carried._asdict())) == packed


@pytest.mark.parametrize(
    "text", ["", "c2lnbmF0dXJl", "trunkline", "trunkline:a", "trunkline:a:b:c", "Trunkline:a:b:c:d", " trunkline:a:b:c:d"]
)
def test_what_we_did_not_pack_is_left_alone(text: str) -> None:
    assert unpack(text) is None


def test_a_request_that_carries_a_thought_is_known_by_its_bytes() -> None:
    packed = pack(ReasoningEnded(signature="s", origin="anthropic"))
    assert packed.startswith(MARK)
    assert carries(f'{{"signature":"{packed}"}}'.encode())
    assert not carries(b'{"content":"as trunkline: does"}')
