import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.gateway.stored import Stored, find, tell

NAMES = st.from_regex(r"[a-z0-9_.-]{1,12}", fullmatch=True)  # of providers, as the configuration allows them
IDS = st.text(min_size=1).filter(lambda text: text.strip("."))


CREDENTIALS = st.just("") | st.from_regex(r"cred_[a-z]{24}", fullmatch=True)


@given(NAMES, CREDENTIALS, IDS.filter(lambda text: not text.startswith("cred_")))
def test_an_id_that_is_told_leads_home(provider: str, credential: str, object_id: str) -> None:
    assert find(tell(provider, credential, object_id)) == Stored(provider, object_id, credential)


def test_a_told_id_begins_as_responses_do_and_is_one_step_of_a_url() -> None:
    told = tell("openai", "", "resp_68af09")
    assert told == "resp_openai~resp_68af09"
    assert tell("openai", "cred_ab", "resp_68af09") == "resp_openai~cred_ab~resp_68af09"
    assert re.fullmatch(r"resp_[A-Za-z0-9._~-]+", told)


@pytest.mark.parametrize("told", ["", "resp_", "resp_68af09", "resp_~1", "resp_openai~", "openai~1", "resp_openai~.", "resp_openai~.."])
def test_what_we_did_not_tell_is_nobodys(told: str) -> None:
    assert find(told) is None
