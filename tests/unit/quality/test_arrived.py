"""What is read off arriving tuples."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from recalljoin.engine.progress import marks_of
from recalljoin.engine.times import NEVER
from recalljoin.quality.profiling import UNKNOWN, follow_ticks, follow_tuples, no_clocks
from tests.reference.tick import TickDisorderHandling
from tests.strategies import Case, cases


def columns(case: Case) -> tuple[np.ndarray[tuple[int], np.dtype[np.int8]], list[int]]:
    return np.array([e.stream for e in case.arrivals], dtype=np.int8), [e.ts for e in case.arrivals]


@given(cases())
def test_delay_and_k_sync_follow_the_local_times(case: Case) -> None:
    stream, ts = columns(case)
    arrived, clocks = follow_tuples(stream, np.array(ts, dtype=np.int64), before=no_clocks(case.m))
    local: dict[int, int] = {}
    for i, e in enumerate(case.arrivals):
        local[e.stream] = max(local.get(e.stream, e.ts), e.ts)
        begun = len(local) == case.m
        assert arrived.delay[i] == local[e.stream] - e.ts
        assert arrived.local[i] == local[e.stream]
        assert arrived.k_sync[i] == (local[e.stream] - min(local.values()) if begun else UNKNOWN)
        assert clocks.base[i] == (min(local.values()) if begun else NEVER)
        assert clocks.latest[i] == max(local.values())


@given(cases())
def test_a_recording_can_be_followed_in_pieces(case: Case) -> None:
    stream, times = columns(case)
    ts = np.array(times, dtype=np.int64)
    whole, clocks = follow_tuples(stream, ts, before=no_clocks(case.m))
    cut = len(ts) // 2
    before = clocks.local[:, cut - 1] if cut else no_clocks(case.m)
    second, _ = follow_tuples(stream[cut:], ts[cut:], before=before)
    rest = whole.take(slice(cut, None))
    assert second.delay.tolist() == rest.delay.tolist()
    assert second.k_sync.tolist() == rest.k_sync.tolist()
    assert second.local.tolist() == rest.local.tolist()


@given(cases())
def test_in_ticks_delays_refer_to_the_tick_before(case: Case) -> None:
    stream, times = columns(case)
    ts = np.array(times, dtype=np.int64)
    tick = np.array([e.tick for e in case.arrivals], dtype=np.int64)
    n_ticks = int(tick.max(initial=-1)) + 1
    marks = marks_of(tick, stream, ts, n_ticks=n_ticks, m=case.m)
    arrived, clocks = follow_ticks(stream, ts, tick, marks=marks, before=no_clocks(case.m))
    reference = TickDisorderHandling(case.m)
    for n in range(n_ticks):
        tuples = [e for e in case.arrivals if e.tick == n]
        expected = [reference.annotate(e).delay for e in tuples]
        assert arrived.delay[tick == n].tolist() == expected
        reference.advance(tuples, k=0, idle=())
        base = reference.base_time
        known = base != float("-inf")
        assert clocks.base[n] == (base if known else NEVER)
        for i in np.flatnonzero(tick == n):
            local = reference.local_times[stream[i]]
            assert arrived.k_sync[i] == (local - base if known else UNKNOWN)
