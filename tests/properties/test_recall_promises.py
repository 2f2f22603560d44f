"""What is reported of recall holds, on random streams, slacks, horizons, windows and periods."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from recalljoin.engine.step import drain
from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.quality.profiling import Arrived, profile_of
from recalljoin.quality.recall import RecallMeter
from recalljoin.quality.settled_recall import SettledRecall
from tests.properties.engine_runs import Arrival, EngineRun, Script, taken_as
from tests.properties.engine_scripts import scripts

if TYPE_CHECKING:
    from recalljoin.engine.step import Step
    from recalljoin.quality.profile import Profile
    from tests.strategies import Case

EPSILON = 1e-9


class Told(EngineRun):
    """A run of which profiles are taken, push by push."""

    def __init__(self, script: Script, bucket: int) -> None:
        super().__init__(script)
        self.bucket = bucket
        self.received: set[int] = set()
        self.profiles: list[Profile] = []

    def piece(self, number: int) -> Profile:
        """Push a piece, or flush after the last one."""
        self.remember(number)
        before = self.pipeline.local_times
        if number == len(self.script.pieces):
            _, step = drain(self.pipeline.flush())
        elif self.script.in_ticks:
            _, step = drain(self.push_ticks(*self.script.pieces[number]))
        else:
            begin, end = self.script.pieces[number]
            k = np.array(self.script.k[begin:end], dtype=np.int64)
            _, step = drain(self.pipeline.push(self.arrivals.slice(begin, end), k=k))
        self.received |= {
            self.numbers[s][row] for s, row in zip(step.stream, step.row, strict=True)
        }
        profile = self._profile(step, before)
        self.profiles.append(profile)
        return profile

    def _profile(self, step: Step, before: Any) -> Profile:
        none = np.empty(0, dtype=np.int64)
        arrived = Arrived(none.astype(np.int8), none, none, none)
        return profile_of(
            step,
            arrived,
            granularity=10,
            before=before,
            windows=self.script.case.windows,
            bucket=self.bucket,
        )

    def true_results(self) -> list[tuple[int, tuple[int, ...]]]:
        """Time and members of every true result of the whole input."""
        return _true_results(self.script.case)


def _true_results(case: Case) -> list[tuple[int, tuple[int, ...]]]:
    pools = [[e for e in case.arrivals if e.stream == s] for s in range(case.m)]
    return [
        (max(e.ts for e in members), tuple(e.arrival for e in members))
        for members in itertools.product(*pools)
        if case.query.is_true(members)
    ]


def _counts(profile: Profile) -> dict[int, int]:
    """Results produced, by bucket."""
    keys, counts = profile.produced.to_json()
    return dict(zip(keys, counts, strict=True))


PERIODS = st.sampled_from((1, 5, 12, 40, 200))
BUCKETS = st.sampled_from((1, 1, 3, 7))


def _lies_between(low: float | None, true: float | None, high: float | None) -> None:
    if true is None:
        return
    assert low is not None
    assert low <= true + EPSILON
    # Where nothing was counted there is no upper bound.
    assert high is None or true <= high + EPSILON


@pytest.mark.parametrize("arrival", ["tuple", "tick"])
@given(data=st.data(), period=PERIODS, bucket=BUCKETS)
def test_the_recall_of_the_last_period_lies_between_its_bounds_at_every_step(
    arrival: Arrival, data: st.DataObject, period: int, bucket: int
) -> None:
    script = data.draw(scripts(arrival, remembers=True))
    assume(all(abs(e.ts) < 2**60 for e in script.case.arrivals))
    with taken_as(script):
        run = Told(script, bucket)
        meter = RecallMeter(period=period, windows=script.case.windows, bucket=bucket)
        produced: Counter[int] = Counter()
        for number in range(len(script.pieces)):
            profile = run.piece(number)
            meter.observe(profile)
            produced.update(_counts(profile))
            measured = meter.measure()
            if run.pipeline.join_time in (NEVER, FOREVER):
                continue
            until = run.pipeline.join_time
            buckets = range((until - period) // bucket + 1, until // bucket + 1)
            true = sum(
                ts // bucket in buckets and run.received.issuperset(members)
                for ts, members in run.true_results()
            )
            found = sum(produced[each] for each in buckets)
            assert measured.produced == found
            _lies_between(measured.at_least, found / true if true else None, measured.at_most)
            if not any(each.n_beyond for each in run.profiles):
                assert measured.produced + measured.lost == true
                assert measured.unknown == 0


@pytest.mark.parametrize("arrival", ["tuple", "tick"])
@given(data=st.data(), period=PERIODS, bucket=BUCKETS)
def test_in_the_end_the_recall_of_every_period_lies_between_its_bounds(
    arrival: Arrival, data: st.DataObject, period: int, bucket: int
) -> None:
    script = data.draw(scripts(arrival, remembers=True))
    assume(all(abs(e.ts) < 2**60 for e in script.case.arrivals))
    with taken_as(script):
        run = Told(script, bucket)
        for number in range(len(script.pieces) + 1):
            run.piece(number)
    settled = SettledRecall(run.profiles, period=period, windows=script.case.windows)
    true: Counter[int] = Counter(ts // bucket for ts, _ in run.true_results())
    produced: Counter[int] = Counter()
    for profile in run.profiles:
        produced.update(_counts(profile))
    n = max(1, period // bucket)
    for end in {key + late for key in true for late in (0, n // 2, n - 1)}:
        buckets = range(end - n + 1, end + 1)
        all_of_them = sum(true[each] for each in buckets)
        found = sum(produced[each] for each in buckets) / all_of_them
        recall, low, high = (float(each[0]) for each in settled.at(np.array([end])))
        assert low <= found + EPSILON
        assert np.isnan(high) or found <= high + EPSILON
        assert np.isnan(high) or low - EPSILON <= recall <= high + EPSILON
        if not any(each.n_beyond for each in run.profiles):
            assert recall == pytest.approx(found)
