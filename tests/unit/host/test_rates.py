import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.host.rates import Bucket, Queue, Rate


def test_a_burst_passes_and_then_as_many_as_time_brings() -> None:
    bucket = Bucket(Rate(per_second=2, burst=3), 100.0)
    assert [bucket.take(100.0) for _ in range(4)] == [0, 0, 0, 0.5]
    assert [bucket.take(100.5), bucket.take(100.5)] == [0, 0.5]
    assert [bucket.take(1000.0) for _ in range(4)] == [0, 0, 0, 0.5]


@given(st.lists(st.floats(0, 3), max_size=60))
def test_never_more_than_the_burst_and_what_time_brought(waits: list[float]) -> None:
    bucket, now, passed = Bucket(Rate(per_second=4, burst=5), 0.0), 0.0, 0
    for wait in waits:
        now += wait
        passed += bucket.take(now) == 0
    assert passed <= 5 + 4 * now + 1e-6


@pytest.mark.proves("supervisor.apart")
def test_whoever_had_less_of_late_comes_first_however_many_others_wait() -> None:
    queue = Queue(Rate(per_second=1, burst=2), 0.0)
    assert [queue.take(f"flaps-{each}", 3, 0.0) for each in range(5)] == [0, 0, 1, 2, 3]
    assert queue.take("once", 1, 0.5) == 0.5
    assert [queue.take("flaps-2", 3, 1.0), queue.take("once", 1, 1.0)] == [1, 0]
    assert [queue.take("flaps-2", 3, 2.0), queue.take("flaps-4", 3, 2.0), queue.take("flaps-3", 3, 3.0)] == [0, 2, 0]


@pytest.mark.proves("supervisor.apart")
def test_whoever_comes_no_more_keeps_nobody_waiting() -> None:
    queue = Queue(Rate(per_second=1, burst=1), 0.0)
    assert [queue.take(who, 1, 0.0) for who in ("first", "second", "third")] == [0, 1, 2]
    queue.leave("second")
    queue.leave("nobody")
    assert queue.take("third", 1, 1.0) == 0


@given(st.lists(st.integers(0, 9), min_size=1, max_size=200))
def test_everybody_has_a_turn_as_soon_as_the_rate_allows_it(having: list[int]) -> None:
    queue = Queue(Rate(per_second=1, burst=1), 0.0)
    due = [(0.0, number) for number in range(len(having))]
    order: list[int] = []
    while due:
        now, who = min(due)
        due.remove((now, who))
        seconds = queue.take(str(who), having[who], now)
        if seconds:
            due.append((now + seconds, who))
        else:
            order.append(who)
            assert now <= len(order) - 1 + 1e-6
    assert sorted(order) == list(range(len(having)))
    assert [having[who] for who in order[1:]] == sorted(having[who] for who in order[1:])
