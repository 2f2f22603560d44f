from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from recalljoin.query.explain import explain
from recalljoin.query.functions import Functions
from recalljoin.query.model import Query, Stream
from recalljoin.query.quality import Quality
from recalljoin.query.render import render
from recalljoin.query.text import parse_query

SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("us"),
        "i": pa.int32(),
        "j": pa.int64(),
        "f": pa.float64(),
        "s": pa.string(),
        "b": pa.bool_(),
        "odd name": pa.int64(),
        "place": pa.struct({"city": pa.string()}),
        "day": pa.date32(),
        "z": pa.timestamp("ms", "UTC"),
    }
)


def test_steps_of_the_buffer_size_are_told_where_they_are_set() -> None:
    query = replace(
        parse_query("SELECT * FROM a [1 SEC], b [1 SEC] WHERE a.i = b.i"),
        quality=Quality(granularity="20 ms"),
    )
    told = explain(query.bind({"a": SCHEMA, "b": SCHEMA}))
    assert "the wait is chosen anew every 1 s, in steps of 20 ms" in told


def test_an_explanation_tells_all_there_is_to_know() -> None:
    functions = Functions()
    functions.register(lambda x, y: x - y, name="Gap")
    text = """
        SELECT o.i AS id, greatest(p.s, 'x')
        FROM orders o [5 SEC], payments p [1500 MS ON ts], q [0 s]
        WHERE o.i = p.j AND p.j = q.j AND o.s = p.s AND gap(o.f, p.f) < 1
          AND q.i BETWEEN 1 AND o.i
        WITH RECALL 0.99 OVER 2 MINUTES EVERY 500 MS MAX WAIT 10 SECONDS
    """
    query = parse_query(text, functions=functions, arrival={"o": "j"})
    bound = query.bind({"orders": SCHEMA, "payments": SCHEMA, "q": SCHEMA})
    assert explain(bound) == (
        "streams\n"
        "  o  window 5 s      time ts  arrival j  from orders\n"
        "  p  window 1500 ms  time ts             from payments\n"
        "  q  window 0 s      time ts\n"
        "equal\n"
        "  o.i = p.j = q.j  (int64)\n"
        "  o.s = p.s  (string)\n"
        "further conditions\n"
        "  Gap(o.f, p.f) < 1.0\n"
        "  q.i >= 1\n"
        "  q.i <= o.i\n"
        "output\n"
        "  id = o.i  (int32)\n"
        "  greatest(p.s, 'x') = greatest(p.s, 'x')  (string)\n"
        "quality\n"
        "  recall of at least 0.99 over 2 min\n"
        "  the wait is chosen anew every 500 ms\n"
        "  longest wait: 10 s\n"
        "times are counted in us"
    )


def test_a_bare_query_is_explained_as_well() -> None:
    query = Query(
        streams=[Stream("a", window="5 s"), Stream("b", window="5 s")], select="count(*) AS n"
    )
    assert explain(query.bind({"a": SCHEMA, "b": SCHEMA})) == (
        "streams\n"
        "  a  window 5 s  time ts\n"
        "  b  window 5 s  time ts\n"
        "equal\n"
        "  none\n"
        "further conditions\n"
        "  none\n"
        "output\n"
        "  the number of results, as n\n"
        "quality\n"
        "  no target\n"
        "times are counted in us"
    )


def test_without_a_limit_the_longest_wait_is_told_so() -> None:
    query = parse_query("SELECT * FROM a [1 s], b [1 s] WITH RECALL 1")
    lines = explain(query.bind({"a": SCHEMA, "b": SCHEMA})).split("\n")
    assert "  recall of at least 1 over 1 min" in lines
    assert "  longest wait: no limit" in lines
    assert "  one struct per stream: a, b" in lines


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ("a.i < b.j", "a.i < b.j"),
        ("a.i < b.f", "CAST(a.i AS double) < b.f"),
        ("a.i - (a.j - b.j) - 1 = 0", "a.i - (a.j - b.j) - 1 = 0"),
        ("(a.i + 1) * 2 = 0", "(a.i + 1) * 2 = 0"),
        ("a.i + 1 * b.i = 0", "a.i + 1 * b.i = 0"),
        ("-a.i % 2 = 0", "-a.i % 2 = 0"),
        ("-(a.i + 1) = 0", "-(a.i + 1) = 0"),
        ("NOT (a.b AND b.b)", "NOT (a.b AND b.b)"),
        ("NOT a.b OR b.b", "NOT a.b OR b.b"),
        ("(a.b = b.b) = a.b", "(a.b = b.b) = a.b"),
        ("a.b AND (b.b OR a.b) OR FALSE", "a.b AND (b.b OR a.b) OR FALSE"),
        ("a.i + 1 IN (1, NULL) OR b.b", "a.i + 1 IN (1, NULL) OR b.b"),
        ("(a.i + 1 IS NULL) OR b.b", "a.i + 1 IS NULL OR b.b"),
        ("(a.b OR b.b) IS NULL", "(a.b OR b.b) IS NULL"),
        ("a.s = 'it''s' OR (b.b) IS TRUE", "a.s = 'it''s' OR b.b IS TRUE"),
        ('a."odd name" = 1', 'a."odd name" = 1'),
        ("a.place.city = 'x'", "a.place.city = 'x'"),
        ("a.ts - b.ts < INTERVAL '-90' SECOND", "a.ts - b.ts < INTERVAL '-90 s'"),
    ],
)
def test_expressions_are_shown_as_one_would_write_them(sql: str, shown: str) -> None:
    query = Query(
        streams=[Stream("a", window="5 s"), Stream("b", window="5 s")], select=f"{sql} AS it"
    )
    select = query.bind({"a": SCHEMA, "b": SCHEMA}).select
    assert select is not None
    assert render(select[0].expression, ["a", "b"]) == shown
