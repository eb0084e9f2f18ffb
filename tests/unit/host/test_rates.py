from hypothesis import given
from hypothesis import strategies as st

from trunkline.host.rates import Bucket, Rate


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
