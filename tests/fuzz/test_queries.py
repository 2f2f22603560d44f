"""Whatever is written as a query or condition: it runs, or an error of ours says why not."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

import recalljoin as rj
from recalljoin.errors import RecallJoinError
from recalljoin.jobs.ddl import schema_of_ddl
from tests.effort import HALF
from tests.fuzz.mutations import ODD, mutated, soup

QUERIES = (
    "SELECT * FROM s1 [5 SEC], s2 [5 SEC] WHERE s1.a1 = s2.a1 WITH RECALL 0.95 OVER 1 MINUTE",
    "SELECT s1.a1, s2.ts AS t FROM s1 [5 SEC] LEFT JOIN s2 [1 MINUTE ON paid] ON s1.a1 = s2.a1 "
    "WITH RECALL 0.9 NULL PRECISION 0.99 OVER 1 MINUTE",
    "SELECT count(*) FROM a.b [500 MS] AS x, s2 [1 H] WHERE abs(x.p - s2.p) < 0.5 OR x.q IS NULL",
    "SELECT c.x FROM c, i WHERE c.ts BETWEEN i.ts AND i.ts + INTERVAL 10 MINUTES AND c.k = i.k",
)
WORDS = (
    "SELECT", "FROM", "WHERE", "*", "s1", "s2", "[5 SEC]", "[", "]", "5", "SEC", ",", ".", "a1",
    "s1.a1", "=", "<", "AND", "OR", "NOT", "WITH", "RECALL", "0.95", "OVER", "1", "MINUTE", "JOIN",
    "LEFT", "ON", "AS", "t", "(", ")", "count(*)", "NULL", "PRECISION", "INTERVAL", "BETWEEN", ";",
    "GROUP", "BY", "UNION", "WINDOW", "CASE", "WHEN", "THEN", "END", "-", "'x'", "`q`", "IN",
)  # fmt: skip
CONDITIONS = (
    "x.a = y.a AND abs(x.b - y.b) < 1.5 AND x.s <> y.s",
    "x.a + y.a * 2 - 1 > 9223372036854775807 OR x.b / y.b >= 0.1 AND NOT (x.t = y.t)",
    "coalesce(x.a, y.a) = 3 AND x.s LIKE 'a%' AND y.s IN ('p', 'q') AND x.d BETWEEN y.d AND 2",
    "x.a % y.a = 0 AND pow(x.b, y.b) > log(2, y.b) AND x.s = upper(y.s) AND x.t IS NOT NULL",
)
TERMS = (
    "x.a", "y.a", "x.b", "y.b", "x.s", "y.s", "x.t", "y.t", "x.d", "y.d", "x.ts", "y.ts", "x",
    "z.a", "1", "0", "-1", "1.5", "9223372036854775807", "'p'", "NULL", "=", "<", ">=", "<>",
    "+", "-", "*", "/", "%", "AND", "OR", "NOT", "IS NULL", "BETWEEN", "IN", "LIKE", "(", ")", ",",
    "abs(", "coalesce(", "pow(", "log(", "greatest(", "CAST(", "AS INT", "INTERVAL 1 DAY",
    "CASE WHEN", "THEN", "ELSE", "END", "||", "<=>", "::", "DIV",
)  # fmt: skip
TYPES = (
    "id LONG, amount DOUBLE NOT NULL, ts TIMESTAMP",
    "a ARRAY<STRUCT<x: INT, y: STRING>>, m MAP<STRING, DECIMAL(10,2)>, `we ird` BINARY COMMENT 'c'",
)
ROWS = {
    "a": [1, 0, None, 9223372036854775807],
    "b": [1.5, 0.0, float("nan"), None],
    "s": ["p", "", None, "a%"],
    "t": [True, False, None, True],
    "d": [0, 1, 2, None],
    "ts": [1, 2, 3, 4],
}
KINDS = {"a": pa.int64(), "b": pa.float64(), "s": pa.string(), "t": pa.bool_(), "d": pa.int32(),
         "ts": pa.int64()}  # fmt: skip
TABLE = pa.table({name: pa.array(ROWS[name], KINDS[name]) for name in ROWS})


@given(st.one_of(st.text(), soup(WORDS), mutated(QUERIES)))
def test_a_query_is_read_or_refused(text: str) -> None:
    with suppress(RecallJoinError):
        rj.parse_query(text)


@HALF
@given(st.one_of(soup(TERMS, most=12), mutated(CONDITIONS), ODD))
@example("ELSE")
def test_a_condition_is_computed_or_refused(condition: str) -> None:
    streams = [rj.Stream(name, window=3) for name in ("x", "y")]
    with suppress(RecallJoinError):
        query = rj.Query(streams=streams, condition=condition, select="x.a, y.b, x.s")
        rj.replay(query, {"x": TABLE, "y": TABLE}, k=0).table()


@given(st.one_of(st.text(), mutated(TYPES), soup(("id", "LONG", "ARRAY<", ">", ",", "(", "NOT"))))
def test_a_schema_is_read_or_refused(text: str) -> None:
    with suppress(RecallJoinError):
        schema_of_ddl(text)
