import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.catalog.discovery import SCHEMA, Board, Evidence, Failure, Fence, Key, StateChanged
from trunkline.catalog.listing import Found

KEY = Key("home", "digest")
OTHER = Key("home", "another digest")
A, B = Found("a"), Found("b")
DOWN = Failure("upstream_down", 503)


@pytest.fixture
def board() -> Board:
    return Board(ttl=100.0, retry=10.0)


def seen(board: Board, *models: Found, at: float) -> None:
    fence = board.begin(KEY)
    assert fence is not None
    board.finish(fence, models, at)


def failed(board: Board, at: float, failure: Failure = DOWN) -> None:
    fence = board.begin(KEY)
    assert fence is not None
    board.fail(fence, failure, at)


def test_before_the_first_look_nothing_is_known_and_it_is_time(board: Board) -> None:
    diagnosis = board.diagnosis(KEY, 0.0)
    assert (diagnosis.status, diagnosis.stale, diagnosis.from_cache, diagnosis.observed_at) == ("not_synced", False, False, None)
    assert board.due(KEY, 0.0)
    assert board.evidence(KEY).status == "not_probed"


def test_a_list_is_fresh_for_its_time_and_then_looked_for_again(board: Board) -> None:
    seen(board, A, at=1000.0)
    assert (board.diagnosis(KEY, 1099.9).status, board.diagnosis(KEY, 1099.9).stale, board.due(KEY, 1099.9)) == ("synced", False, False)
    assert (board.diagnosis(KEY, 1100.0).status, board.diagnosis(KEY, 1100.0).stale, board.due(KEY, 1100.0)) == ("synced", True, True)
    assert board.evidence(KEY).models == (A,)


def test_an_empty_list_is_a_list(board: Board) -> None:
    seen(board, at=1000.0)
    assert (board.diagnosis(KEY, 1000.0).status, board.due(KEY, 1000.0)) == ("empty", False)


@pytest.mark.proves("catalog.discovery")
def test_a_look_that_fails_keeps_the_old_list_and_says_why_by_a_code(board: Board) -> None:
    seen(board, A, at=1000.0)
    failed(board, at=1100.0)
    diagnosis = board.diagnosis(KEY, 1100.0)
    assert (diagnosis.status, diagnosis.failure_code, diagnosis.upstream_status) == ("error", "upstream_down", 503)
    assert diagnosis.detail == "the provider cannot be reached"
    assert (diagnosis.stale, diagnosis.from_cache, diagnosis.observed_at) == (True, True, 1000.0)
    assert board.evidence(KEY).models == (A,)
    seen(board, B, at=1200.0)
    assert board.diagnosis(KEY, 1200.0).status == "synced"
    assert board.diagnosis(KEY, 1200.0).failure_code == ""


def test_a_first_look_that_fails_leaves_nothing(board: Board) -> None:
    failed(board, at=1000.0, failure=Failure("a_code_that_nobody_knows"))
    diagnosis = board.diagnosis(KEY, 1000.0)
    assert (diagnosis.status, diagnosis.detail, diagnosis.stale) == ("error", "the provider could not be asked", False)
    assert board.evidence(KEY).status == "failed"


def test_failures_are_followed_by_longer_and_longer_pauses_up_to_the_time_of_a_list(board: Board) -> None:
    now, waits = 0.0, []
    for _ in range(6):
        failed(board, at=now)
        wait = next(seconds for seconds in range(1, 1000) if board.due(KEY, now + seconds))
        waits.append(wait)
        now += wait
    assert waits == [10, 20, 40, 80, 100, 100]


def test_there_is_one_look_at_a_time(board: Board) -> None:
    first = board.begin(KEY)
    assert first is not None
    assert board.begin(KEY) is None
    assert not board.due(KEY, 1e9)
    assert board.begin(OTHER) is not None
    board.leave(first)
    board.leave(first)
    assert board.begin(KEY) is not None


def test_soft_invalidation_keeps_the_list_and_makes_it_time_to_look(board: Board) -> None:
    seen(board, A, at=1000.0)
    board.invalidate(KEY, hard=False)
    assert board.due(KEY, 1000.0)
    assert board.evidence(KEY).models == (A,)
    seen(board, B, at=1001.0)
    assert not board.due(KEY, 1001.0)


@pytest.mark.proves("catalog.fence")
def test_hard_invalidation_forgets_and_refuses_what_was_under_way(board: Board) -> None:
    seen(board, A, at=1000.0)
    board.invalidate(KEY, hard=False)
    fence = board.begin(KEY)
    assert fence is not None
    board.invalidate(KEY, hard=True)
    assert board.evidence(KEY) == Evidence()
    with pytest.raises(StateChanged):
        board.finish(fence, (A,), 1001.0)
    with pytest.raises(StateChanged):
        board.fail(fence, DOWN, 1001.0)
    seen(board, B, at=1002.0)
    with pytest.raises(StateChanged):
        board.finish(fence, (A,), 1003.0)
    assert board.evidence(KEY).models == (B,)


def test_a_look_goes_on_over_the_one_invalidation_that_it_has_caused_and_over_no_more(board: Board) -> None:
    fence = board.begin(KEY)
    assert fence is not None
    with pytest.raises(StateChanged):
        board.rebase(fence)
    board.invalidate(KEY, hard=True)
    rebased = board.rebase(fence)
    board.invalidate(KEY, hard=True)
    board.invalidate(KEY, hard=True)
    with pytest.raises(StateChanged):
        board.rebase(rebased)
    with pytest.raises(StateChanged):
        board.finish(rebased, (A,), 1.0)
    fresh = board.begin(KEY)
    assert fresh is not None
    board.invalidate(KEY, hard=True)
    assert board.finish(board.rebase(fresh), (A,), 2.0).models == (A,)


def test_what_was_kept_is_adopted_unless_something_newer_is_known(board: Board) -> None:
    old = Evidence(status="discovered", models=(A,), observed_at=1000.0)
    board.adopt(KEY, old)
    assert board.diagnosis(KEY, 1050.0).from_cache
    assert not board.due(KEY, 1050.0)
    seen(board, B, at=1060.0)
    board.adopt(KEY, old)
    assert board.evidence(KEY).models == (B,)
    assert not board.diagnosis(KEY, 1060.0).from_cache
    board.adopt(OTHER, Evidence(status="discovered", models=(A,), observed_at=1000.0, schema=SCHEMA + 1))
    assert board.due(OTHER, 1001.0)


def test_a_list_from_the_future_is_not_fresh(board: Board) -> None:
    board.adopt(KEY, Evidence(status="discovered", models=(A,), observed_at=5000.0))
    assert board.due(KEY, 1000.0)


def test_what_nobody_wants_anymore_is_forgotten_and_its_look_is_refused(board: Board) -> None:
    seen(board, A, at=1000.0)
    board.invalidate(KEY, hard=False)
    fence = board.begin(KEY)
    assert fence is not None
    board.keep(lambda key: key == OTHER)
    with pytest.raises(StateChanged):
        board.finish(fence, (B,), 1001.0)
    assert board.evidence(KEY) == Evidence()


steps = st.lists(st.sampled_from(["begin", "finish", "fail", "leave", "soft", "hard", "rebase"]), max_size=40)


@pytest.mark.proves("catalog.fence")
@given(steps)
def test_only_the_look_that_began_last_and_was_not_overtaken_is_ever_taken(order: list[str]) -> None:
    """Against a model: whoever began may finish unless somebody said in between that it is worth nothing."""
    board = Board(ttl=100.0, retry=10.0)
    open_looks: list[tuple[Fence, bool]] = []  # with whether it still counts
    known: tuple[Found, ...] = ()
    hards = 0
    for at, step in enumerate(order, start=1):
        match step:
            case "begin":
                fence = board.begin(KEY)
                assert (fence is None) == any(counts for _, counts in open_looks)
                if fence is not None:
                    open_looks.append((fence, True))
            case "finish" | "fail" if open_looks:
                fence, counts = open_looks.pop()
                found = (Found(f"m{at}"),)
                try:
                    if step == "finish":
                        board.finish(fence, found, float(at))
                        known = found
                    else:
                        board.fail(fence, DOWN, float(at))
                    assert counts
                except StateChanged:
                    assert not counts
            case "leave" if open_looks:
                board.leave(open_looks.pop()[0])
            case "soft":
                board.invalidate(KEY, hard=False)
            case "hard":
                board.invalidate(KEY, hard=True)
                open_looks = [(fence, False) for fence, _ in open_looks]
                known = ()
                hards += 1
            case "rebase" if open_looks:
                fence, counts = open_looks[-1]
                free = not any(other for _, other in open_looks)
                try:
                    open_looks[-1] = (board.rebase(fence), True)
                    assert fence.generation + 1 == hards
                    assert free
                except StateChanged:
                    assert fence.generation + 1 != hards or not free
            case _:
                pass
        assert board.evidence(KEY).models == known
