"""Figure 3: K-slack with K = 1.

The figure itself is not in our copy. The text gives: the seventh tuple has a delay of 2; with
K = 1 it is still out of order in the output; its delay there is 1.
"""

from __future__ import annotations

from tests.reference.model import MINUS_INFINITY, Annotated, Instant
from tests.reference.notation import timeline
from tests.reference.per_tuple import KSlack

#                  e1   e2   e3   e4   e5   e6   e7   e8   e9
ARRIVALS = timeline("s1:1 s1:2 s1:3 s1:5 s1:4 s1:6 s1:4 s1:7 s1:8")
SEVENTH = ARRIVALS[6]


def leaving(k: int) -> list[list[Annotated]]:
    slack = KSlack(k)
    return [slack.push(e) for e in ARRIVALS]


def delay_in(stream: list[Annotated], arrival: int) -> Instant:
    """Delay of a tuple as its stream's next reader sees it."""
    local_time: Instant = MINUS_INFINITY
    for e in stream:
        local_time = max(local_time, e.ts)
        if e.arrival == arrival:
            return local_time - e.ts
    raise AssertionError


def test_tuples_leave_in_order_of_ts_each_time_the_local_time_has_grown() -> None:
    # arrivals:       1   2   3   5   4   6    4   7    8
    # leaving (K=1):  .   1   2   3   .   4 5  .   4 6  7
    assert [[e.ts for e in released] for released in leaving(1)] == [
        [],
        [1],
        [2],
        [3],
        [],
        [4, 5],
        [],
        [4, 6],
        [7],
    ]


def test_the_seventh_tuple_is_annotated_with_a_delay_of_2() -> None:
    released = [e for step in leaving(1) for e in step]
    assert [e.delay for e in released if e.origin is SEVENTH] == [2]


def test_k_slack_of_1_shortens_a_delay_of_2_to_1() -> None:
    output = [e for step in leaving(1) for e in step]
    assert delay_in(output, SEVENTH.arrival) == 1


def test_a_delay_of_k_needs_a_buffer_of_at_least_k() -> None:
    output = [e for step in leaving(2) for e in step]
    assert delay_in(output, SEVENTH.arrival) == 0
    assert [e.ts for e in output] == sorted(e.ts for e in output)
