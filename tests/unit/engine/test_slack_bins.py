"""Bins of required slack: monotone, without gaps, narrow, and right at their edges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recalljoin.engine.slack_bins import ENOUGH, EXACT, N_BINS, slack_bin
from recalljoin.engine.times import NEVER
from recalljoin.query.durations import MAX_TIME

LARGEST = 2**63 - 1
# Every number of bits is drawn as often, and the neighbours of powers of two often.
SLACKS = st.one_of(
    st.integers(0, 62).flatmap(lambda bits: st.integers(0, 2 ** (bits + 1) - 1)),
    st.builds(
        lambda bits, by: min(max(0, 2**bits + by), LARGEST), st.integers(0, 63), st.integers(-9, 9)
    ),
)


@pytest.mark.parametrize(
    ("base", "ts", "expected"),
    [
        (9, 10, 0),  # negative slack
        (10, 10, 1),  # slack 0 is already too late for K = 0
        (265, 10, 256),
        (266, 10, 257),
        (267, 10, 257),
        (268, 10, 258),
        (NEVER, -MAX_TIME, 0),  # a base time that is not known yet
        (MAX_TIME, -MAX_TIME, 1 + 55 * 128 + 128),
    ],
)
def test_bins_by_hand(base: int, ts: int, expected: int) -> None:
    assert slack_bin(base, ts) == expected


@given(st.integers(-MAX_TIME, MAX_TIME), st.integers(1, 2**61))
def test_negative_slacks_are_all_in_the_first_bin(ts: int, less: int) -> None:
    assert slack_bin(ts - less, ts) == 0
    assert ENOUGH[0] == 0


@given(SLACKS)
@example(2**53 + 1)
@example(2**61 - 1)
@example(2**61)
@example(2**62 - 1)
@example(2**62)
@example(LARGEST)
def test_enough_is_the_smallest_k_that_is_larger_than_every_slack_of_a_bin(slack: int) -> None:
    at = slack_bin(slack, 0)
    largest = int(ENOUGH[at]) - (at < N_BINS - 1)
    assert ENOUGH[at - 1] <= slack <= largest
    assert slack_bin(largest, 0) == at
    if largest < LARGEST:
        assert slack_bin(largest + 1, 0) == at + 1


@given(SLACKS, SLACKS)
def test_a_larger_slack_lies_in_no_smaller_bin(one: int, other: int) -> None:
    one, other = sorted((one, other))
    assert slack_bin(one, 0) <= slack_bin(other, 0)


@given(SLACKS, st.integers(-MAX_TIME, MAX_TIME))
def test_only_the_difference_of_the_times_counts(slack: int, ts: int) -> None:
    base = min(ts + slack, MAX_TIME)
    assert slack_bin(base, ts) == slack_bin(base - ts, 0)


def test_short_slacks_have_bins_of_their_own() -> None:
    assert ENOUGH[: EXACT + 1].tolist() == list(range(EXACT + 1))


def test_long_slacks_are_known_to_within_less_than_one_per_cent() -> None:
    smallest, enough = ENOUGH[EXACT:-2], ENOUGH[EXACT + 1 : -1]
    assert (enough > smallest).all()
    # The K of a bin is that much larger than the smallest slack in it.
    assert np.max((enough - smallest) / smallest) < 0.008


def test_no_slack_needs_more_bins_than_there_are() -> None:
    assert slack_bin(LARGEST, 0) == N_BINS - 1
    assert N_BINS < 7300
