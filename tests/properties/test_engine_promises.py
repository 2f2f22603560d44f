"""What the engine promises whatever the input (the end of ``docs/semantics.md``)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from recalljoin.engine.arrivals import arrivals_of
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.slack_bins import ENOUGH
from recalljoin.engine.step import drain
from recalljoin.engine.times import NULL_TIME, TIME_OUT_OF_RANGE
from recalljoin.query.durations import MAX_TIME
from tests.effort import FEW, HALF
from tests.properties.engine_runs import Script, bound_query, tables_of, through_engine
from tests.properties.engine_scripts import scripts, within_range
from tests.reference.truth import true_results
from tests.strategies import Case, cases

ARRIVALS = ("tuple", "tick")


def truth(script: Script) -> list[tuple[int, tuple[int, ...]]]:
    found = true_results(script.case.query, script.case.arrivals)
    return [(result.ts, result.arrivals) for result in found]


@pytest.mark.parametrize("arrival", ARRIVALS)
@HALF
@given(data=st.data())
def test_a_snapshot_between_any_two_pushes_changes_nothing(
    arrival: str, data: st.DataObject
) -> None:
    script = data.draw(scripts(arrival, rewrites=True))
    assert through_engine(script) == through_engine(replace(script, rewritten=frozenset()))


@pytest.mark.parametrize("arrival", ARRIVALS)
@HALF
@given(data=st.data())
def test_cutting_the_input_elsewhere_changes_nothing(arrival: str, data: st.DataObject) -> None:
    script = data.draw(scripts(arrival))
    every = replace(script, cuts=tuple(range(script.length)))
    cut, whole = through_engine(every), through_engine(replace(script, cuts=()))
    assert cut.events == whole.events
    assert (cut.lost, cut.slack) == (whole.lost, whole.slack)
    assert cut.clocks[-1] == whole.clocks[-1]


@pytest.mark.parametrize("arrival", ARRIVALS)
@HALF
@given(data=st.data())
def test_produced_and_lost_are_the_true_results_within_the_horizon(
    arrival: str, data: st.DataObject
) -> None:
    script = data.draw(scripts(arrival))
    script = replace(script, settings=replace(script.settings, retention=MAX_TIME))
    account = through_engine(script)
    assume(not any(event.beyond for event in account.events))
    assert account.n_produced + account.n_lost == len(truth(script))


@pytest.mark.parametrize("arrival", ARRIVALS)
@HALF
@given(data=st.data())
def test_whatever_k_results_are_true_and_none_comes_twice(
    arrival: str, data: st.DataObject
) -> None:
    script = data.draw(scripts(arrival, rows=True))
    results = through_engine(script).results
    assert len(set(results)) == len(results)
    assert set(results) <= set(truth(script))


@pytest.mark.parametrize("arrival", ARRIVALS)
@HALF
@given(data=st.data())
def test_a_slack_above_every_required_one_gives_the_true_results_in_order(
    arrival: str, data: st.DataObject
) -> None:
    script = data.draw(scripts(arrival, rows=True, idles=False))
    # No stream is ahead of the slowest by more than this, so base times are no further on.
    times = [e.ts for e in script.case.arrivals]
    enough = max(times, default=0) - min(times, default=0) + 1
    assume(enough <= MAX_TIME)
    account = through_engine(replace(script, k=(enough,) * script.length))
    assert not any(event.late for event in account.events)
    assert sorted(account.results) == sorted(truth(script))
    assert [ts for ts, _ in account.results] == sorted(ts for ts, _ in truth(script))


@FEW
@given(script=scripts("tick", rows=True, idles=False))
def test_the_slack_histogram_foretells_what_any_constant_k_produces_in_ticks(
    script: Script,
) -> None:
    settings = replace(script.settings, slack=True, retention=MAX_TIME)
    script = replace(script, settings=settings, k=script.k[:1] * script.length)
    account = through_engine(script)
    assume(not any(event.beyond for event in account.events))
    for n in (0, 1, 2, 3, 10, 50):
        other = through_engine(replace(script, k=(int(ENOUGH[n]),) * script.length))
        foretold = sum(count for (_, at), count in account.slack.items() if at <= n)
        assert other.n_produced == foretold


@HALF
@given(script=scripts("tuple"))
def test_without_lost_counts_the_same_results_are_produced(script: Script) -> None:
    with_lost = through_engine(script)
    without = through_engine(replace(script, settings=replace(script.settings, lost=False)))
    assert without.n_lost == 0
    assert not without.lost
    assert [e.arrival for e in without.events] == [e.arrival for e in with_lost.events]
    for one, other in zip(without.events, with_lost.events, strict=True):
        assert one == other or (one.late and other.late)
    assert {at: n for at, n in with_lost.slack.items() if at[0] == "produced"} == without.slack


@st.composite
def _with_faulty_times(draw: st.DrawFn) -> tuple[Script, list[int | None]]:
    """A script, and for each arrival the faulty time that stands in for it, 0 for none."""
    script = draw(scripts("tuple", source=cases(max_m=3)))
    faults = st.sampled_from((0, 0, 0, None, MAX_TIME + 1, -MAX_TIME - 1, 2**63 - 1, -(2**63)))
    n = len(script.case.arrivals)
    return script, draw(st.lists(faults, min_size=n, max_size=n))


@HALF
@given(drawn=_with_faulty_times())
def test_rows_without_a_usable_time_are_set_aside_and_the_others_join_as_if_alone(
    drawn: tuple[Script, list[int | None]],
) -> None:
    script, faults = drawn
    case = script.case
    tables = tables_of(case)
    for i, (name, table) in enumerate(tables.items()):
        mine = [(e.ts, faults[e.arrival]) for e in case.arrivals if e.stream == i]
        times = [ts if fault == 0 else fault for ts, fault in mine]
        tables[name] = table.set_column(0, "ts", pa.array(times, pa.int64()))
    arrivals = arrivals_of(script.bound, tables)

    usable = [e for e in case.arrivals if faults[e.arrival] == 0]
    assert arrivals.ts.tolist() == [e.ts for e in usable]
    assert arrivals.stream.tolist() == [e.stream for e in usable]
    for (name, reason), rows in arrivals.refused.items():
        wanted = [
            e.arrival
            for e in case.arrivals
            if case.names()[e.stream] == name
            and (faults[e.arrival] is None if reason == NULL_TIME else faults[e.arrival])
        ]
        assert rows.column("arrived").to_pylist() == wanted
    assert {reason for _, reason in arrivals.refused} <= {NULL_TIME, TIME_OUT_OF_RANGE}
    n_refused = sum(rows.num_rows for rows in arrivals.refused.values())
    assert n_refused + len(arrivals) == len(case.arrivals)

    pipeline = Pipeline(script.bound, script.settings)
    _, step = drain(pipeline.push(arrivals, k=5))
    _, rest = drain(pipeline.flush())
    renumbered = replace(case, arrivals=tuple(replace(e, arrival=i) for i, e in enumerate(usable)))
    alone = replace(script, case=renumbered, k=(5,) * len(usable), cuts=(), rewritten=frozenset())
    account = through_engine(alone)
    assert step.n_produced + rest.n_produced == account.n_produced
    assert step.n_lost + rest.n_lost == account.n_lost


@HALF
@given(case=cases(max_m=3).map(within_range), k=st.sampled_from((0, 3, 20)))
def test_an_idle_stream_does_not_hold_the_others_back_and_a_quiet_one_does(
    case: Case, k: int
) -> None:
    # All of the input in one tick; then a tick without tuples, all but the last stream idle.
    assume({e.stream for e in case.arrivals} == set(range(case.m)))
    latest = max(e.ts for e in case.arrivals)
    assume(latest <= MAX_TIME)
    query = bound_query(case, counts=True)
    arrivals = arrivals_of(query, tables_of(case))
    watermarks = []
    for idle in (False, True):
        pipeline = Pipeline(query, EngineSettings(arrival="tick", rows=False))
        tick = np.zeros(len(arrivals), dtype=np.int64)
        flags = np.zeros((2, case.m), dtype=np.bool_)
        flags[1, :-1] = idle
        drain(pipeline.push_ticks(arrivals, tick, n_ticks=2, k=k, idle=flags))
        watermarks.append(pipeline.join_time)
    slowest = min(max(e.ts for e in case.arrivals if e.stream == i) for i in range(case.m))
    last = max(e.ts for e in case.arrivals if e.stream == case.m - 1)
    assert watermarks == [slowest - k, max(slowest, last) - k]
