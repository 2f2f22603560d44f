"""K corrected by the recall that came of it."""

from __future__ import annotations

import json

import pytest

from recalljoin.quality.feedback import MARGIN, PUSH_AFTER, Feedback
from tests.unit.quality.intervals import arrived, interval


class Run:
    """Seconds of 100 results each, of which so many are lost; a period is a minute."""

    def __init__(self, recall: float = 0.9) -> None:
        self.feedback = Feedback(recall, 60_000)
        self.second = 0
        self.feedback.observe(arrived(n=1000, largest_delay=20_000, clock=0), tells_delays=True)

    def go(self, *lost: int) -> Feedback:
        for n in lost:
            self.second += 1
            now = 1000 * self.second - 1
            self.feedback.observe(interval([100 - n], [0, n], join_time=now), tells_delays=False)
        return self.feedback


def test_while_the_target_is_reached_k_is_as_the_policy_says() -> None:
    feedback = Run().go(*[9] * 600)
    assert feedback.measured(60) == pytest.approx(0.91)
    assert [feedback.corrected(k) for k in (0, 1, 700)] == [0, 1, 700]


def test_with_every_miss_the_margin_grows_and_never_beyond_its_limit() -> None:
    run = Run()
    feedback = run.go(*[0] * 50, *[90] * 10)
    first = feedback.margin
    assert first > 1
    assert 1000 < feedback.corrected(1000) < 1000 * MARGIN
    run.go(*[0] * 300)
    assert feedback.margin < first
    for _ in range(50):
        run.go(*[0] * 50, *[90] * 10)
    assert feedback.margin == MARGIN


def test_the_margin_settles_where_as_many_periods_miss_as_may() -> None:
    # One in twenty seconds of measurements below the target leaves it about where it is.
    run = Run()
    run.go(*[0] * 60, *[90] * 10, *[0] * 60)
    before = run.feedback.margin
    for _ in range(3):
        run.go(*[0] * 1141, 95 * 10 // 10, *[0] * 58)
    assert run.feedback.margin <= before


def test_recall_that_stays_below_the_target_pushes_k_until_it_is_back() -> None:
    run = Run()
    run.go(*[20] * (60 + PUSH_AFTER - 1))
    assert run.feedback.push == 1
    ks = []
    for _ in range(8):
        ks.append(run.go(*[20] * 5).corrected(100))
    assert ks == sorted(ks)
    assert ks[-1] > 15 * 100
    run.go(*[0] * 80)
    assert run.feedback.push == 1


def test_k_is_pushed_even_where_the_policy_says_0() -> None:
    run = Run()
    assert run.go(*[20] * 100).corrected(0) > 0
    assert run.go(*[20] * 300).corrected(0) == 20_001


def test_k_is_not_pushed_for_results_that_were_lost_long_ago() -> None:
    # The newest results are all there: K is large enough by now.
    run = Run()
    run.go(*[0] * 60, *[60] * 20, *[0] * 39)
    assert (run.feedback.measured(60) or 1) < 0.9
    assert run.feedback.push == 1


def test_k_never_exceeds_the_largest_delay_of_late() -> None:
    feedback = Run().feedback
    assert feedback.corrected(50_000) == 20_001
    assert Feedback(0.9, 60_000).corrected(50_000) == 50_000


def test_delays_of_a_backlog_do_not_count() -> None:
    feedback = Feedback(0.9, 60_000)
    feedback.observe(arrived(n=1000, largest_delay=500, clock=1000), tells_delays=True)
    feedback.observe(arrived(n=100_000, largest_delay=0, clock=601_000), tells_delays=False)
    assert feedback.latest_delays.largest == 500


@pytest.mark.parametrize("lost", [0, 50])
@pytest.mark.parametrize("silence", [8 * 3600, 10**12])
def test_after_any_silence_the_newest_period_is_judged(lost: int, silence: int) -> None:
    run = Run()
    run.go(*[20] * 200)
    before = run.feedback.push
    run.second += silence
    run.go(lost)
    assert run.feedback.push == (1 if not lost else before * 1.5)
    assert run.feedback.margin == pytest.approx(1 if not lost else MARGIN)


def test_a_push_that_does_not_help_for_a_day_is_taken_back_in_a_few_minutes() -> None:
    run = Run()
    run.go(*[20] * 24 * 3600)
    assert run.go(*[0] * 900).push == 1


def test_without_results_nothing_is_measured() -> None:
    feedback = Feedback(0.9, 60_000)
    assert feedback.measured(60) is None
    feedback.observe(interval([0], join_time=100_000), tells_delays=True)
    assert feedback.measured(60) is None
    assert feedback.corrected(7) == 7


def test_a_snapshot_goes_on_as_the_original() -> None:
    run, other = Run(), Run()
    run.go(*[20] * 93)
    other.feedback.restore(json.loads(json.dumps(run.feedback.snapshot())))
    other.second = run.second
    for lost in (20, 20, 0, 40):
        assert run.go(*[lost] * 7).corrected(100) == other.go(*[lost] * 7).corrected(100)
    assert run.feedback.snapshot() == other.feedback.snapshot()
