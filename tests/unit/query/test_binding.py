from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from recalljoin.errors import InvalidQuery, InvalidTarget
from recalljoin.query.model import Query, Stream
from recalljoin.query.quality import Quality

INT = pa.int64()


def schema(time: pa.DataType, **columns: pa.DataType) -> pa.Schema:
    return pa.schema({"ts": time, **columns})


def refused(query: Query, schemas: dict[str, pa.Schema], **options: Any) -> tuple[str, ...]:
    with pytest.raises(InvalidQuery) as caught:
        query.bind(schemas, **options)
    return caught.value.faults


TWO = Query(streams=[Stream("a", window="1500 ms"), Stream("b", window="2 s")])


@pytest.mark.parametrize(
    ("one", "other", "time_unit", "unit"),
    [
        (pa.int64(), pa.int64(), "ms", "ms"),
        (pa.int32(), pa.uint8(), "s", "s"),
        (pa.timestamp("us"), pa.timestamp("us"), "ms", "us"),
        (pa.timestamp("s"), pa.timestamp("us"), "ns", "us"),
        (pa.timestamp("s"), pa.int64(), "ms", "ms"),
        (pa.timestamp("ns"), pa.int64(), "ms", "ns"),
        (pa.timestamp("us", "UTC"), pa.timestamp("ms", "Europe/Berlin"), "ms", "us"),
    ],
)
def test_a_query_counts_in_the_finest_unit_of_its_time_columns(
    one: pa.DataType, other: pa.DataType, time_unit: Any, unit: str
) -> None:
    bound = TWO.bind({"a": schema(one), "b": schema(other)}, time_unit=time_unit)
    assert bound.unit == unit
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    assert [s.window for s in bound.streams] == [int(1.5 * per_second), 2 * per_second]


@pytest.mark.parametrize(
    ("type_", "hint"),
    [
        (pa.date32(), "cast it to a timestamp"),
        (pa.float64(), "name another column"),
        (pa.string(), "cast it to a timestamp"),
        (pa.time64("us"), "name another column"),
    ],
)
def test_a_time_column_is_an_integer_or_a_timestamp(type_: pa.DataType, hint: str) -> None:
    assert refused(TWO, {"a": schema(type_), "b": schema(INT)}) == (
        f"time column `a.ts` must be an integer or a timestamp, got {type_}; {hint}",
    )


@pytest.mark.parametrize(
    "condition",
    [
        "b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 MINUTES",
        "b.ts - a.ts < INTERVAL 5 MINUTES AND b.ts >= a.ts",
    ],
)
@pytest.mark.parametrize("other", [pa.string(), pa.timestamp("ms")])
def test_a_time_column_that_is_text_is_told_of_once(condition: str, other: pa.DataType) -> None:
    query = Query(streams=[Stream("a"), Stream("b")], condition=condition)
    told = [
        f"time column `{name}.ts` must be an integer or a timestamp, got string; "
        "cast it to a timestamp"
        for name, kind in (("a", pa.string()), ("b", other))
        if kind == pa.string()
    ]
    assert refused(query, {"a": schema(pa.string()), "b": schema(other)}) == tuple(told)


def test_the_arrival_column_is_checked_as_well() -> None:
    query = Query(
        streams=[
            Stream("a", arrival="seen", window="5 s"),
            Stream("b", arrival="sen", window="5 s"),
        ]
    )
    good = schema(INT, seen=pa.timestamp("us"))
    assert query.bind({"a": good, "b": schema(INT, sen=INT)}).streams[0].arrival == "seen"
    assert refused(query, {"a": schema(INT, seen=pa.string()), "b": good}) == (
        "arrival column `a.seen` must be an integer or a timestamp, got string; "
        "cast it to a timestamp",
        "stream `b` has no arrival column `sen`; name it with arrival='column'; "
        "did you mean `seen`?",
    )


def test_time_zones_are_given_for_all_time_columns_or_none() -> None:
    zoned, naive = schema(pa.timestamp("us", "UTC")), schema(pa.timestamp("us"))
    assert refused(TWO, {"a": zoned, "b": naive}) == (
        "time columns must all have a time zone or none, got `a.ts` with and `b.ts` without; "
        "convert one of them",
    )


def test_a_missing_time_column_is_named_with_both_ways_out() -> None:
    assert refused(TWO, {"a": pa.schema({"t": INT}), "b": pa.schema({"arrived_at": INT})}) == (
        "stream `a` has no time column `ts`; name it with `[5 SEC ON column]` or time='column'; "
        "did you mean `t`?",
        "stream `b` has no time column `ts`; name it with `[5 SEC ON column]` or time='column'; "
        "known columns: `arrived_at`",
    )


def test_a_field_of_a_struct_must_first_become_a_column() -> None:
    nested = pa.schema({"event": pa.struct({"at": pa.timestamp("us")})})
    streams = [
        Stream("a", time="event.at", window="5 s"),
        Stream("b", source="event.at", window="5 s"),
    ]
    way = (
        "`event` is a struct, and a field of it must first be a column of its own, as in "
        "frame.withColumn('at', col('event.at'))"
    )
    b = nested.append(pa.field("ts", pa.timestamp("us")))
    assert refused(Query(streams=streams), {"a": nested, "b": b}) == (
        f"stream `a` has no time column `event.at`; {way}",
        f"stream `b` has no source column `event.at`; {way}",
    )


def test_a_missing_schema_is_named() -> None:
    assert refused(TWO, {"a": schema(INT), "bb": schema(INT)}) == (
        "no input is given for stream `b`; did you mean `bb`?",
    )
    assert refused(TWO, {}) == (
        "no input is given for stream `a`; there are no inputs",
        "no input is given for stream `b`; there are no inputs",
    )


def test_names_are_found_whatever_their_case() -> None:
    query = Query(
        streams=[Stream("A", time="TS", window="5 s"), Stream("b", window="5 s")],
        condition="a.Key = B.key",
    )
    bound = query.bind({"a": schema(INT, key=INT), "B": schema(INT, KEY=INT)})
    assert [stream.time for stream in bound.streams] == ["ts", "ts"]
    assert len(bound.classes) == 1


def test_schemas_are_found_by_alias_before_source() -> None:
    query = Query(
        streams=[Stream("a", table="t", window="5 s"), Stream("b", table="t", window="5 s")]
    )
    first, second = schema(INT, x=INT), schema(INT, y=INT)
    bound = query.bind({"a": first, "t": second})
    assert [stream.schema for stream in bound.streams] == [first, second]


def test_an_unknown_unit_of_time_is_refused() -> None:
    assert refused(TWO, {"a": schema(INT), "b": schema(INT)}, time_unit="hours") == (
        "`time_unit` must be one of s, ms, us, ns, got 'hours'",
    )


def test_a_window_too_long_to_count_is_refused() -> None:
    query = Query(streams=[Stream("a", window="100000 days"), Stream("b", window="5 s")])
    times = {name: schema(pa.timestamp("ns")) for name in "ab"}
    assert refused(query, times) == (
        "`window` of stream `a` is too long to count in ns, got '100000 days'; write a shorter one",
    )


def test_all_faults_come_together_and_none_twice() -> None:
    query = Query(
        streams=[Stream("a", window="5 s"), Stream("b", window="5 s"), Stream("c", window="5 s")],
        condition="a.x = b.x AND a.x = b.x AND c.q = 1 AND a.k",
        select="a.k, b.k",
        quality=Quality(basic_window="1 minute"),
    )
    good = schema(INT, k=INT)
    assert refused(query, {"a": good, "b": good}) == (
        "no input is given for stream `c`; known inputs: `a`, `b`",
        "in `a.x = b.x`: stream `a` has no column `x`; known columns: `ts`, `k`",
        "in `a.x = b.x`: stream `b` has no column `x`; known columns: `ts`, `k`",
        "in `a.k`: it is of type int64, not boolean; compare it with something",
        "two outputs are called `k` (names ignore case); give one another name with AS, "
        "or select `*` for one struct per stream",
        "`basic_window` must not be longer than the smallest window, got 1 min and 5 s; "
        "write a shorter one or leave it out",
    )


def test_a_wrong_target_alone_is_an_invalid_target() -> None:
    query = Query(streams=TWO.streams, quality=Quality(basic_window="1 minute"))
    with pytest.raises(InvalidTarget):
        query.bind({"a": schema(INT), "b": schema(INT)})


def test_a_bound_query_carries_everything_the_engine_needs() -> None:
    query = Query(
        streams=[Stream("a", arrival="seen", window="5 s"), Stream("b", window="5 s")],
        condition="a.k = b.k AND a.v < b.v",
        select="a.k AS key",
        quality=Quality(recall=0.9),
    )
    wide = schema(INT, k=pa.int32(), v=pa.float64(), seen=INT)
    bound = query.bind({"a": wide, "b": wide})
    assert [(s.name, s.time, s.arrival, s.schema) for s in bound.streams] == [
        ("a", "ts", "seen", wide),
        ("b", "ts", None, wide),
    ]
    assert [found.type for found in bound.classes] == [INT]
    assert [part.streams for part in bound.residual] == [{0, 1}]
    assert [column.name for column in bound.select or ()] == ["key"]
    assert not bound.counts_only
    assert bound.quality is not None
    assert bound.quality.recall == 0.9
