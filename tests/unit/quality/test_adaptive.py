"""The adaptive run against the reference, measurement by measurement."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from recalljoin.datasets import make_syn_x3
from recalljoin.engine.arrivals import Arrivals, arrivals_of
from recalljoin.engine.times import NEVER
from recalljoin.errors import InvalidSetting
from recalljoin.quality.adaptive import run_adaptive, true_results
from recalljoin.quality.policies import make_policy
from recalljoin.quality.settings import PolicySettings
from recalljoin.query.durations import MAX_TIME
from tests.properties.engine_runs import ARRIVAL, bound_query, tables_of
from tests.properties.engine_scripts import within_range
from tests.reference.per_tuple import max_k_slack, run_per_tuple
from tests.reference.recall import AdaptationClock, Measurement, measure_recall
from tests.reference.tick import TickJoin
from tests.reference.truth import true_results as reference_truth
from tests.strategies import Case, cases
from tests.unit.quality.profiles import bound_and_arrivals

if TYPE_CHECKING:
    from recalljoin.quality.policy import Forecast
    from recalljoin.quality.profile import Profile
    from recalljoin.query.bound_query import BoundQuery


class Scripted:
    """K of each interval from a list, over and over; keeps the profiles it was shown."""

    name = "scripted"
    uses_slack = False
    estimated_recall = None

    def __init__(self, schedule: list[int]) -> None:
        self.schedule = schedule
        self.profiles: list[Profile] = []

    @property
    def k(self) -> int:
        return self.schedule[len(self.profiles) % len(self.schedule)]

    def observe(self, profile: Profile) -> None:
        self.profiles.append(profile)

    def adapt(self) -> int:
        return self.k

    def forecast(self) -> Forecast | None:
        return None

    def snapshot(self) -> dict[str, object]:
        return {}

    def restore(self, state: dict[str, object]) -> None:
        pass


def prepared(case: Case) -> tuple[BoundQuery, Arrivals]:
    bound = bound_query(case, counts=True)
    return bound, arrivals_of(bound, tables_of(case))


def settings_of(case: Case, *, period: int, interval: int) -> PolicySettings:
    return PolicySettings(
        windows=case.windows, period=period, interval=interval, granularity=1, basic_window=1
    )


lengths = st.sampled_from(((5, 5), (12, 4), (30, 7)))
some_cases = cases(max_m=3).map(within_range).filter(lambda case: case.arrivals)
schedules = st.lists(st.sampled_from((0, 1, 3, 8, 20, 100)), min_size=1, max_size=5)


@given(some_cases, lengths, schedules)
def test_measures_what_the_reference_measures(
    case: Case, length: tuple[int, int], schedule: list[int]
) -> None:
    period, interval = length
    bound, arrivals = prepared(case)
    policy = Scripted(schedule)
    record = run_adaptive(
        bound,
        arrivals,
        policy,
        settings_of(case, period=period, interval=interval),
        truth=true_results(bound, arrivals),
    )
    adapted = iter(range(1, 10_000))
    measured = measure_recall(
        case.query,
        case.arrivals,
        period=period,
        interval=interval,
        k=schedule[0],
        adapt=lambda _: schedule[next(adapted) % len(schedule)],
    )
    assert record.clock.tolist() == [m.clock for m in measured]
    assert record.k.tolist() == [m.k for m in measured]
    assert record.join_time.tolist() == [
        NEVER if m.join_time == -math.inf else m.join_time for m in measured
    ]
    assert record.counts.tolist() == [m.counts for m in measured]
    assert record.measurements.tolist() == [m.recall for m in measured if m.counts]
    assert record.n_true == len(reference_truth(case.query, case.arrivals))
    # The policy has seen every interval once, with what happened in it.
    assert len(policy.profiles) == len(measured)


@given(some_cases, lengths)
def test_max_slack_is_raised_by_the_tuple_itself(case: Case, length: tuple[int, int]) -> None:
    bound, arrivals = prepared(case)
    settings = settings_of(case, period=length[0], interval=length[1])
    record = run_adaptive(bound, arrivals, make_policy("max", settings), settings)
    # Between the ends of time lies more than the largest slack.
    k = [min(delay, MAX_TIME) for delay in max_k_slack(case.arrivals, case.m)]
    reference = run_per_tuple(case.query, case.arrivals, k=lambda n: k[n])
    assert record.n_produced == len(reference.produced)
    assert record.n_late == sum(r.late for r in reference.received)
    clock = AdaptationClock(interval=length[1])
    latest = np.maximum.accumulate([e.ts for e in case.arrivals]).tolist()
    assert record.k.tolist() == [k[n] for n, now in enumerate(latest) if clock.observe(now)]


def in_ticks(case: Case) -> tuple[BoundQuery, Arrivals]:
    """The same input, its ticks as arrival times."""
    bound = bound_query(case, counts=True)
    tables = {
        name: table.set_column(
            table.schema.get_field_index(ARRIVAL),
            ARRIVAL,
            pa.array([e.tick for e in case.arrivals if e.stream == i], pa.int64()),
        )
        for i, (name, table) in enumerate(tables_of(case).items())
    }
    return bound, arrivals_of(bound, tables)


def measure_in_ticks(
    case: Case, *, period: int, interval: int, schedule: list[int]
) -> list[Measurement]:
    """As the reference measures, with adaptation between ticks."""
    true = reference_truth(case.query, case.arrivals)
    join = TickJoin(case.query)
    clock = AdaptationClock(interval=interval)
    clock.observe(min(e.ts for e in case.arrivals if e.tick == 0))
    produced: list[int] = []
    measured: list[Measurement] = []
    for n in range(case.arrivals[-1].tick + 1):
        k = schedule[len(measured) % len(schedule)]
        received = join.step([e for e in case.arrivals if e.tick == n], k=k)
        produced += [o.result.ts for r in received for o in r.produced]
        now = int(max(join.disorder.local_times))
        if clock.observe(now):
            end = join.disorder.watermark
            assert clock.start is not None
            measured.append(
                Measurement(
                    clock=now,
                    join_time=end,
                    k=k,
                    produced=sum(end - period < ts <= end for ts in produced),
                    true=sum(end - period < r.ts <= end for r in true),
                    counts=end >= clock.start + period,
                )
            )
    return measured


@given(some_cases, lengths, schedules)
def test_in_ticks_it_measures_between_ticks(
    case: Case, length: tuple[int, int], schedule: list[int]
) -> None:
    period, interval = length
    # Ticks count from the first arrival, whichever stream it is of.
    bound, arrivals = in_ticks(case)
    assume((arrivals.stream[0], arrivals.ts[0]) == (case.arrivals[0].stream, case.arrivals[0].ts))
    record = run_adaptive(
        bound,
        arrivals,
        Scripted(schedule),
        settings_of(case, period=period, interval=interval),
        arrival="tick",
        tick=1,
        truth=true_results(bound, arrivals),
    )
    measured = measure_in_ticks(case, period=period, interval=interval, schedule=schedule)
    assert record.clock.tolist() == [m.clock for m in measured]
    assert record.k.tolist() == [m.k for m in measured]
    assert record.join_time.tolist() == [
        NEVER if m.join_time == -math.inf else m.join_time for m in measured
    ]
    assert record.measurements.tolist() == [m.recall for m in measured if m.counts]


@given(some_cases, st.sampled_from((0, 3, 20)))
def test_without_known_truth_recall_is_that_of_what_was_counted(case: Case, k: int) -> None:
    bound, arrivals = prepared(case)
    settings = settings_of(case, period=12, interval=4)

    def run(*, known: bool) -> list[float]:
        record = run_adaptive(
            bound,
            arrivals,
            make_policy("fixed", settings, k=k),
            settings,
            truth=true_results(bound, arrivals) if known else None,
            retention=MAX_TIME,
        )
        # Only from one end of time to the other is a tuple beyond this horizon.
        assume(record.n_beyond == 0)
        assert record.n_produced + record.n_lost == record.n_true
        return [float(recall) for recall in record.measurements]

    assert run(known=False) == run(known=True)


@pytest.mark.parametrize("arrival", ["tuple", "tick"])
def test_profiles_add_up_to_the_run(arrival: str) -> None:
    bound, arrivals = bound_and_arrivals(make_syn_x3(seed=9, duration=12_000))
    policy = Scripted([0, 300, 50])
    settings = PolicySettings(windows=(5000,) * 3, period=5000)
    record = run_adaptive(
        bound, arrivals, policy, settings, arrival="tick" if arrival == "tick" else "tuple", tick=20
    )
    total = policy.profiles[0]
    for profile in policy.profiles[1:]:
        total = total + profile
    # What came after the last adaptation point is in no profile.
    assert record.n_late > total.n_late * 0.9 > 0
    assert 0 < total.n_produced <= record.n_produced
    assert total.n_arrived <= record.n_tuples
    assert total.n_arrived >= total.n_late + int(total.in_order.sum())
    # A tuple of the first tick was late by more than what the last interval lacks.
    n = 12 if arrival == "tick" else 11
    assert len(policy.profiles) == len(record.k) == n
    assert record.k.tolist() == [[0, 300, 50][i % 3] for i in range(n)]


def test_what_the_policy_expected_stands_beside_what_came_of_it() -> None:
    bound, arrivals = bound_and_arrivals(make_syn_x3(seed=9, duration=12_000))
    settings = PolicySettings(windows=(5000,) * 3, period=2000)
    record = run_adaptive(bound, arrivals, make_policy("slack", settings), settings)
    # Before the first adaptation nothing is expected, afterwards something is.
    assert record.estimated_recall[0] is None
    assert None not in record.estimated_recall[1:]
    assert len(record.to_json()["estimated_recall"]) == int(record.counts.sum()) > 5


def test_ticks_need_a_length() -> None:
    bound, arrivals = bound_and_arrivals(make_syn_x3(seed=9, duration=1000))
    settings = PolicySettings(windows=(5000,) * 3)
    with pytest.raises(InvalidSetting, match="`tick` must be given when tuples arrive in ticks"):
        run_adaptive(bound, arrivals, make_policy("none", settings), settings, arrival="tick")


def test_refused_rows_are_counted_by_reason() -> None:
    bound, _ = bound_and_arrivals(make_syn_x3(seed=9, duration=1000))
    rows = {"arrival": [1, 2, 3], "ts": [10, None, 2**62], "a1": [1, 1, 1]}
    table = pa.table(rows, schema=bound.streams[0].schema)
    arrivals = arrivals_of(bound, {stream.name: table for stream in bound.streams})
    settings = PolicySettings(windows=(5000,) * 3)
    record = run_adaptive(bound, arrivals, make_policy("none", settings), settings)
    assert record.refused == {"null time": 3, "time out of range": 3}
    assert record.to_json()["refused"] == 6
    assert (record.n_tuples, record.n_produced) == (3, 1)


def test_an_empty_recording_has_an_empty_record() -> None:
    bound, _ = bound_and_arrivals(make_syn_x3(seed=9, duration=1000))
    empty = {stream.name: stream.schema.empty_table() for stream in bound.streams}
    arrivals = arrivals_of(bound, empty)
    settings = PolicySettings(windows=(5000,) * 3)
    for arrival, tick in (("tuple", None), ("tick", 10)):
        record = run_adaptive(
            bound,
            arrivals,
            make_policy("slack", settings),
            settings,
            arrival="tick" if arrival == "tick" else "tuple",
            tick=tick,
        )
        assert (record.n_tuples, record.n_true, len(record.k)) == (0, 0, 0)


def test_a_stray_arrival_takes_no_memory_for_all_the_ticks_up_to_it() -> None:
    bound, _ = bound_and_arrivals(make_syn_x3(seed=9, duration=1000))
    rows = {"arrival": [1, 2, 2**55], "ts": [1, 2, 3], "a1": [1, 1, 1]}
    table = pa.table(rows, schema=bound.streams[0].schema)
    arrivals = arrivals_of(bound, {stream.name: table for stream in bound.streams})
    settings = PolicySettings(windows=(5000,) * 3)
    policy = make_policy("none", settings)
    with pytest.raises(InvalidSetting, match=r"there are \d+ ticks between the first and the last"):
        run_adaptive(bound, arrivals, policy, settings, arrival="tick", tick=10)
