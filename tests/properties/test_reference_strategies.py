"""The drawn cases are well formed, and rich enough for the properties to mean something."""

from __future__ import annotations

import collections

from hypothesis import given, settings

from tests.reference.per_tuple import run_per_tuple
from tests.reference.tick import run_ticks
from tests.reference.truth import true_results
from tests.strategies import MOST_TUPLES, Case, cases, scheduled


@given(cases())
def test_arrivals_are_numbered_and_ticks_start_at_0_and_never_fall(case: Case) -> None:
    assert [e.arrival for e in case.arrivals] == list(range(len(case.arrivals)))
    ticks = [e.tick for e in case.arrivals]
    assert ticks == sorted(ticks)
    assert ticks[:1] in ([], [0])
    assert len(case.arrivals) <= MOST_TUPLES[case.m]
    assert len(case.windows) == case.m


@given(cases())
def test_tables_hold_the_tuples_of_their_stream_in_order(case: Case) -> None:
    assert case.names() == [f"s{i + 1}" for i in range(case.m)]
    for stream in range(case.m):
        tuples = [e for e in case.arrivals if e.stream == stream]
        table = case.table(stream)
        assert table.schema == case.schema(stream)
        assert table.column_names == ["ts", *case.condition.columns[stream]]
        assert table["ts"].to_pylist() == [e.ts for e in tuples]
        # By their text, so that NaN equals NaN.
        assert [str(row) for row in table.to_pylist()] == [str(e.row) for e in tuples]


@given(scheduled())
def test_a_schedule_has_a_k_for_every_arrival_and_every_tick(
    drawn: tuple[Case, list[int]],
) -> None:
    case, schedule = drawn
    assert len(schedule) >= len(case.arrivals)
    assert len(schedule) > max((e.tick for e in case.arrivals), default=0)


def test_what_the_properties_are_about_does_happen() -> None:
    seen: collections.Counter[str] = collections.Counter()

    # A fixed number on purpose: what is judged are the strategies, not the code.
    @settings(max_examples=100, derandomize=True, database=None)
    @given(cases())
    def look(case: Case) -> None:
        per_tuple = run_per_tuple(case.query, case.arrivals)
        ticks = run_ticks(case.query, case.arrivals)
        true = true_results(case.query, case.arrivals)
        happened = {
            "lost per tuple": bool(per_tuple.lost),
            "lost per tick": bool(ticks.lost),
            "beyond the horizon": bool(per_tuple.beyond_horizon or ticks.beyond_horizon),
            "a late tuple still of use": any(
                e in per_tuple.late for r in per_tuple.produced for e in r.members
            ),
            "all produced despite disorder": len(per_tuple.produced) == len(true) > 0
            and case.largest_delay > 0,
            "three streams or more": case.m > 2 and bool(true),
        }
        seen.update(name for name, did in happened.items() if did)

    look()
    # How often hangs on the version of Hypothesis; each of them should be far from rare.
    assert len(seen) == 6
    assert min(seen.values()) >= 3, seen
