import json
from typing import Any

import pytest

from trunkline.server.daemon.written import whole, written
from trunkline_sdk.daemon.server import Call, Failure


def call(body: bytes, surface: str = "chat_completions") -> Call:
    return Call(surface=surface, model="m", body=body, content_type="application/json", credential=None, timeout=None, request_id="r")


def sent(surface: str = "chat_completions", *, stream: bool = False, **fields: Any) -> Any:
    return json.loads(written(call(json.dumps(fields).encode(), surface), stream=stream))


def test_the_model_is_the_one_that_is_asked_for_and_other_values_stay_to_the_byte() -> None:
    assert written(call(b'{"model":"a/b","seed":1.50e3,"_own":{"x":1}}'), stream=False) == b'{"model":"m","seed":1.50e3}'


def test_the_route_says_whether_the_answer_is_a_stream() -> None:
    assert sent(stream=True, stream_options={"include_usage": True}) == {
        "model": "m",
        "stream_options": {"include_usage": True},
        "stream": True,
    }
    assert sent(stream=True)["stream"] is True
    assert written(call(b'{"stream":false,"n":1}'), stream=True) == b'{"stream":true,"n":1,"model":"m"}'


def test_a_limit_that_is_carried_from_another_format_is_heeded_once() -> None:
    assert sent(_max_output_tokens=7) == {"model": "m", "max_tokens": 7}
    assert sent(_max_output_tokens=7, max_completion_tokens=9) == {"model": "m", "max_completion_tokens": 9}
    assert sent("messages", _max_output_tokens=7) == {"model": "m"}
    assert sent(_max_output_tokens="7") == {"model": "m"}


def test_a_preamble_stands_before_the_system_prompt() -> None:
    assert sent("messages", _llmgw_preamble="First.") == {"model": "m", "system": "First."}
    assert sent("messages", _llmgw_preamble="First.", system="Then.")["system"] == "First.\n\nThen."
    blocks = [{"type": "text", "text": "Then.", "cache_control": {"type": "ephemeral"}}]
    assert sent("messages", _llmgw_preamble="First.", system=blocks)["system"] == [{"type": "text", "text": "First."}, *blocks]
    assert sent("messages", _llmgw_preamble=None, system="Then.") == {"system": "Then.", "model": "m"}
    assert sent(_llmgw_preamble="First.") == {"model": "m"}


def test_text_to_be_spoken_may_come_bare() -> None:
    assert json.loads(whole(call('Grüße, "you"'.encode(), "audio_speech"))) == {"model": "m", "input": 'Grüße, "you"'}
    assert json.loads(whole(call(b' {"input":"x"}', "audio_speech"))) == {"model": "m", "input": "x"}


@pytest.mark.parametrize(
    ("body", "surface"),
    [(b"[]", "messages"), (b"", "chat_completions"), (b"\xff", "audio_speech"), (b'{"_llmgw_preamble":"\xff"}', "messages")],
)
def test_what_is_no_request_is_refused(body: bytes, surface: str) -> None:
    with pytest.raises(Failure) as caught:
        whole(call(body, surface))
    assert caught.value.status == 400
