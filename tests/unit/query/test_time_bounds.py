"""Windows from the condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import recalljoin as rj
from recalljoin.errors import InvalidQuery
from recalljoin.query.model import Query, Stream
from recalljoin.query.text import parse_query

if TYPE_CHECKING:
    from recalljoin.query.bound_query import BoundQuery
    from recalljoin.query.durations import TimeUnit

STAMPED = pa.schema({"ts": pa.timestamp("us"), "id": pa.int64()})
COUNTED = pa.schema({"ts": pa.int64(), "id": pa.int64()})
MINUTE = 60_000_000


def bind(
    condition: str, names: str = "ci", schema: pa.Schema = STAMPED, unit: TimeUnit = "ms"
) -> BoundQuery:
    query = Query(streams=[Stream(name) for name in names], condition=condition)
    return query.bind(dict.fromkeys(names, schema), time_unit=unit)


def windows(condition: str, names: str = "ci", **more: Any) -> list[int]:
    return [stream.window for stream in bind(condition, names, **more).streams]


@pytest.mark.parametrize(
    ("condition", "c", "i"),
    [
        ("c.ts BETWEEN i.ts AND i.ts + INTERVAL 10 MINUTES", 0, 10 * MINUTE),
        ("i.ts <= c.ts AND c.ts <= i.ts + INTERVAL '10' MINUTE", 0, 10 * MINUTE),
        ("c.ts - INTERVAL 10 MINUTES <= i.ts AND NOT c.id = 3 AND i.ts <= c.ts", 0, 10 * MINUTE),
        ("c.ts - i.ts <= INTERVAL 10 MINUTES AND i.ts - c.ts < INTERVAL 1 MINUTE", MINUTE - 1,
         10 * MINUTE),
        ("abs(c.ts - i.ts) <= INTERVAL '1 minute 30 seconds'", 90_000_000, 90_000_000),
        ("INTERVAL 5 SECONDS > abs(i.ts - c.ts)", 4_999_999, 4_999_999),
        ("c.ts = i.ts", 0, 0),
        ("c.ts = i.ts + INTERVAL 1 MINUTE", 0, MINUTE),
        # Only later than a minute, so that the window of c may be empty.
        ("c.ts BETWEEN i.ts + INTERVAL 1 MINUTE AND i.ts + INTERVAL 2 MINUTES", 0, 2 * MINUTE),
    ],
)  # fmt: skip
def test_windows_are_the_smallest_that_lose_nothing(condition: str, c: int, i: int) -> None:
    assert windows(f"c.id = i.id AND {condition}") == [c, i]


def test_integer_times_count_in_their_unit() -> None:
    condition = "c.ts >= i.ts AND c.ts < i.ts + 10 * 60"
    assert windows(condition, schema=COUNTED, unit="s") == [0, 599]
    mixed = {"c": COUNTED, "i": COUNTED}
    bound = Query(streams=[Stream("c"), Stream("i")], condition=condition).bind(mixed)
    assert bound.unit == "ms"
    assert [stream.window for stream in bound.streams] == [0, 599]


def test_bounds_add_up_over_several_streams() -> None:
    condition = """b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 MINUTE
        AND c.ts BETWEEN b.ts - INTERVAL 5 SECONDS AND b.ts + INTERVAL 2 MINUTES"""
    assert windows(condition, "abc") == [3 * MINUTE, 2 * MINUTE, 5_000_000]


def test_what_the_windows_say_already_is_not_checked_again() -> None:
    between = "c.ts BETWEEN i.ts AND i.ts + INTERVAL 10 MINUTES"
    assert bind(f"c.id = i.id AND {between}").residual == ()
    assert (
        len(bind("c.ts BETWEEN i.ts + INTERVAL 1 MINUTE AND i.ts + INTERVAL 2 MINUTES").residual)
        == 1
    )
    condition = """b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 MINUTE
        AND c.ts BETWEEN b.ts AND b.ts + INTERVAL 2 MINUTES"""
    assert len(bind(condition, "abc").residual) == 2


def test_a_given_window_is_a_further_restriction() -> None:
    query = Query(
        streams=[Stream("c"), Stream("i", window="1 minute")],
        condition="c.ts BETWEEN i.ts AND i.ts + INTERVAL 10 MINUTES",
    )
    bound = query.bind({"c": STAMPED, "i": STAMPED})
    assert [stream.window for stream in bound.streams] == [0, MINUTE]
    assert len(bound.residual) == 1


def test_in_sql_a_window_may_be_left_out_as_well() -> None:
    text = "SELECT * FROM c JOIN i [1 MIN] ON c.id = i.id WHERE i.ts <= c.ts"
    bound = parse_query(text).bind({"c": STAMPED, "i": STAMPED})
    assert [stream.window for stream in bound.streams] == [0, MINUTE]


@pytest.mark.parametrize(
    ("condition", "names", "faults"),
    [
        (
            "c.id = i.id AND c.ts >= i.ts",
            "ci",
            (
                "stream `i` has no window; write `i [5 SEC]` or window='5 seconds', or say in the "
                "condition how long after `i.ts` the time `c.ts` may be, as in "
                "`c.ts <= i.ts + ...`",
            ),
        ),
        (
            "a.ts = b.ts AND (b.ts <= c.ts OR a.id = 1)",
            "abc",
            (
                "stream `a` has no window; write `a [5 SEC]` or window='5 seconds', or say in the "
                "condition how long after `a.ts` the time `c.ts` may be, as in "
                "`c.ts <= a.ts + ...`",
                "stream `b` has no window; write `b [5 SEC]` or window='5 seconds', or say in the "
                "condition how long after `b.ts` the time `c.ts` may be, as in "
                "`c.ts <= b.ts + ...`",
                "stream `c` has no window; write `c [5 SEC]` or window='5 seconds', or say in the "
                "condition how long after `c.ts` the time `a.ts` and `b.ts` may be, as in "
                "`a.ts <= c.ts + ...`",
            ),
        ),
    ],
)
def test_a_missing_bound_is_named(condition: str, names: str, faults: tuple[str, ...]) -> None:
    with pytest.raises(InvalidQuery) as caught:
        bind(condition, names)
    assert caught.value.faults == faults


def test_a_window_too_long_to_count_is_refused() -> None:
    with pytest.raises(InvalidQuery, match="the one that follows from the condition is too long"):
        bind("abs(c.ts - i.ts) < 4611686018427387905", schema=COUNTED)


limits = st.integers(-6, 6)
times = st.lists(st.integers(0, 15), min_size=1, max_size=6)


@given(
    st.lists(st.tuples(limits, limits, st.sampled_from(["<", "<="])), min_size=2, max_size=2),
    st.tuples(times, times, times),
)
def test_the_results_are_those_of_windows_that_are_large_enough(
    chain: list[tuple[int, int, str]], streams: tuple[list[int], ...]
) -> None:
    parts = []
    for (low, high, sign), (one, other) in zip(chain, (("a", "b"), ("b", "c")), strict=True):
        parts.append(f"{one}.ts + {low} {sign} {other}.ts AND {other}.ts {sign} {one}.ts + {high}")
    condition = " AND ".join(parts)
    inputs = {
        name: pa.table({"ts": sorted(ts), "n": range(len(ts))})
        for name, ts in zip("abc", streams, strict=True)
    }

    def found(window: int | None) -> list[Any]:
        query = Query(
            streams=[Stream(name, window=window) for name in "abc"],
            condition=condition,
            select="a.n AS a, b.n AS b, c.n AS c",
        )
        return sorted(map(str, rj.replay(query, inputs, k=100).table().to_pylist()))

    assert found(None) == found(1000)
