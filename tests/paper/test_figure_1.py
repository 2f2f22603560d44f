"""Figure 1: what stream disorder does to join results, and footnote 1.

The figure itself is not in our copy; the text around it gives these tuples, in the paper's
notation (capital letters: S1), and this much of their order of arrival:

    C4 is out of order in S1: B6 came before it. c3 has expired from S2 by then.
    S2 is in order, but e7 comes after D8 of S1. E5 was there before D8.
"""

from __future__ import annotations

from tests.reference.model import Query, StreamTuple
from tests.reference.notation import in_letters, letters
from tests.reference.per_tuple import run_join_alone, run_per_tuple
from tests.reference.truth import true_results

QUERY = Query((2, 2), lambda rows: rows[0]["x"] == rows[1]["x"])
ARRIVALS = letters("c3 E5 B6 C4 D8 e7")


def named(*members: StreamTuple) -> str:
    return " ".join(in_letters(e) for e in members)


def join_without_disorder_handling(*, invalidate_all_windows: bool) -> list[str]:
    """The operator of the introduction: every tuple, in order or not, invalidates and probes."""
    windows: list[list[StreamTuple]] = [[], []]
    results = []
    for e in ARRIVALS:
        other = 1 - e.stream
        for j in (0, 1) if invalidate_all_windows else (other,):
            windows[j] = [old for old in windows[j] if old.ts >= e.ts - QUERY.windows[j]]
        for partner in windows[other]:
            members = (e, partner) if e.stream == 0 else (partner, e)
            if QUERY.holds(members):
                results.append(named(*members))
        windows[e.stream].append(e)
    return results


def test_the_true_results_are_those_the_text_names() -> None:
    true = [(named(*r.members), r.ts) for r in true_results(QUERY, ARRIVALS)]
    assert true == [("C4 c3", 4), ("E5 e7", 7)]


def test_without_disorder_handling_c4_is_missed_and_e7_still_joins() -> None:
    assert join_without_disorder_handling(invalidate_all_windows=False) == ["E5 e7"]


def test_footnote_1_invalidating_all_windows_misses_e7_as_well() -> None:
    assert join_without_disorder_handling(invalidate_all_windows=True) == []


def test_algorithm_2_alone_gives_up_both_to_keep_its_output_in_order() -> None:
    run = run_join_alone(QUERY, ARRIVALS)
    assert run.produced == []
    lost = {
        in_letters(r.e.origin): [named(*o.result.members) for o in r.lost]
        for r in run.received
        if r.late
    }
    assert lost == {"C4": ["C4 c3"], "e7": ["E5 e7"]}


def test_the_synchronizer_alone_already_saves_both() -> None:
    # S2 is the slowest stream throughout, so all of S1 waits in the Synchronizer until e7 comes.
    run = run_per_tuple(QUERY, ARRIVALS, k=0)
    assert [named(*r.members) for r in run.produced] == ["C4 c3", "E5 e7"]
    assert run.late == []
