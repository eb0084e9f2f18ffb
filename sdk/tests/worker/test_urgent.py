"""Urgent calls are taken out of bytes that are cut anywhere, and nothing else is touched."""

from hypothesis import given
from hypothesis import strategies as st

from trunkline_sdk.rpc import frames, messages
from trunkline_sdk.worker.urgent import MOST_BYTES, Sieve, Urgent


def call(number: int, method: str, params: bytes = b"null") -> bytes:
    return messages.call(number, method, params, deadline_ms=10_000, during=None, context=b"")


other = st.one_of(
    st.builds(
        lambda n, body: call(n, "call", b'"%b"' % body), st.integers(1, 2**53 - 1), st.sampled_from([b"", b"p" * MOST_BYTES, b"ping"])
    ),
    st.builds(frames.piece, st.integers(1, 9), st.integers(0, 9), st.binary(max_size=2 * MOST_BYTES)),
    st.builds(lambda name: messages.notification(name, b"{}"), st.sampled_from(["ping", "dump", "welcome"])),
    st.builds(lambda n: messages.result(n, b'{"method":"ping"}'), st.integers(1, 99)),
    st.just(frames.piece(1, 0, call(1, "ping"))),
    st.just(frames.frame(7, b'{"id":1,"method":"ping"}')),
)
urgent = st.builds(Urgent, st.integers(1, 2**53 - 1), st.sampled_from(["ping", "dump"]))


@given(st.lists(st.one_of(other, urgent), max_size=12), st.data())
def test_what_is_urgent_is_taken_out_and_the_rest_goes_through_as_it_was(parts: list[bytes | Urgent], data: st.DataObject) -> None:
    sent = b"".join(part if isinstance(part, bytes) else call(part.id, part.method) for part in parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=8)))
    sieve = Sieve()
    passed, taken = b"", list[Urgent]()
    for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        through, found = sieve.feed(sent[start:end])
        passed += through
        taken += found
    assert taken == [part for part in parts if isinstance(part, Urgent)]
    assert passed == b"".join(part for part in parts if isinstance(part, bytes))


def test_large_frames_go_through_before_they_are_whole() -> None:
    large = frames.piece(1, 0, b"x" * 100_000)
    sieve = Sieve()
    assert sieve.feed(large[:50_000]) == (large[:50_000], [])
    assert sieve.feed(large[50_000:] + call(1, "ping")) == (large[50_000:], [Urgent(1, "ping")])
