"""The K each stretch of time would have needed."""

from __future__ import annotations

import numpy as np

from recalljoin.engine.slack_bins import slack_bin
from recalljoin.quality.period_needs import OPEN, Needs, enough_for
from recalljoin.quality.slack_by_time import SlackByTime
from tests.unit.quality.intervals import interval


class Run:
    """Slots of 100 one after another, and the needs of stretches of two of them."""

    def __init__(self, memory: int = 1000) -> None:
        self.slack = SlackByTime(width=100, n_slots=OPEN + 10, n_open=OPEN)
        self.needs = Needs(recall=0.9, length=2, memory=memory)
        self.end = 0

    def slot(self, step: int, lost: list[int] | None = None, n: int = 100) -> None:
        """A slot with results that need ``step``, or with none."""
        self.end += 100
        self.slack.observe(interval([0] * step + [n], lost, join_time=self.end - 1))
        self.needs.update(self.slack)


def test_there_is_a_need_for_every_stretch_that_has_ended() -> None:
    run = Run()
    for step in (3, 5, 4):
        run.slot(step)
    assert run.needs.known.tolist() == [5, 5]


def test_a_stretch_without_results_has_no_need() -> None:
    run = Run()
    for n in (1, 0, 0, 1):
        run.slot(4, n=n)
    assert run.needs.open.tolist() == [4, -1, 4]
    assert run.needs.known.tolist() == [4, 4]
    assert run.needs.latest(2).tolist() == [4]


def test_losses_that_come_to_light_raise_needs_of_the_past() -> None:
    run = Run()
    for _ in range(5):
        run.slot(1)
    assert run.needs.known.tolist() == [1, 1, 1, 1]
    # The base time goes from 499 to 599 meanwhile: 50 results of the third slot, which would have
    # needed K = 340.
    needed = slack_bin(339, 0)
    run.slot(1, [0] * needed + [50])
    assert run.needs.known.tolist() == [1, 340, 340, 1, 1]


def test_old_needs_stay_until_the_memory_is_full() -> None:
    run = Run(memory=3)
    for step in range(OPEN + 10):
        run.slot(step % 7)
    assert len(run.needs.settled) == 3
    assert len(run.needs.open) == OPEN


def test_what_began_too_early_can_be_forgotten() -> None:
    run = Run()
    for step in (9, 9, 2, 2, 2):
        run.slot(step)
    run.needs.forget_before(2)
    run.needs.update(run.slack)
    assert run.needs.known.tolist() == [2, 2]


def test_stretches_one_after_another_do_not_overlap() -> None:
    run = Run()
    for step in (1, 2, 3, 4, 5, 6):
        run.slot(step)
    newest_first = run.needs.one_after_another(3)
    assert newest_first is not None
    assert newest_first.tolist() == [6, 4, 2]
    assert run.needs.one_after_another(4) is None


def test_enough_for_a_share_is_a_quantile() -> None:
    needs = np.arange(100, 0, -1)
    assert enough_for(needs, 0.5) == 50
    assert enough_for(needs, 0.97) == 97
    assert enough_for(needs, 1.0) == 100
    assert enough_for(np.array([7]), 0.1) == 7


def test_a_snapshot_goes_on_as_the_original() -> None:
    run = Run()
    for step in range(OPEN + 20):
        run.slot(step % 11)
    other = Needs(recall=0.9, length=2, memory=1000)
    other.restore(run.needs.snapshot())
    run.slot(40)
    other.update(run.slack)
    assert other.known.tolist() == run.needs.known.tolist()


def test_what_was_forgotten_is_no_longer_known_and_still_remembered() -> None:
    run = Run()
    for step in (9, 9, 2, 2, 2):
        run.slot(step)
    run.needs.forget_before(2)
    run.slot(3)
    assert run.needs.known.tolist() == [2, 2, 3]
    assert run.needs.n_known == 3
    assert run.needs.remembered.tolist() == [9, 9, 2, 2, 3]
    other = Needs(recall=0.9, length=2, memory=1000)
    other.restore(run.needs.snapshot())
    assert other.known.tolist() == [2, 2, 3]
    assert other.remembered.tolist() == [9, 9, 2, 2, 3]


def test_what_was_forgotten_leaves_the_memory_first() -> None:
    run = Run(memory=4)
    for step in range(OPEN):
        run.slot(step % 7)
    run.needs.forget_before(OPEN)
    for n in range(OPEN + 9):
        run.slot(1)
        assert run.needs.known.tolist() == [1] * min(n, OPEN + 4)
        assert len(run.needs.settled) <= 4


def test_what_another_run_has_learnt_is_taken_over_as_far_as_the_memory_reaches() -> None:
    run = Run(memory=20)
    for step in (9,) * 30 + (2,) * 5:
        run.slot(step)
    run.needs.forget_before(30)
    before = run.needs.remembered.tolist()
    for memory in (1000, 10, 3):
        other = Needs(recall=0.9, length=2, memory=memory)
        other.learn(run.needs.snapshot())
        assert other.remembered.tolist() == before[-memory:]
        assert other.known.tolist() == [2] * min(memory, 4)
