from __future__ import annotations

import pyarrow as pa
import pytest

from recalljoin.errors import InvalidQuery, InvalidTarget
from recalljoin.query.functions import Functions
from recalljoin.query.model import Query, Stream
from recalljoin.query.quality import Quality
from recalljoin.query.text import parse_query

SCHEMA = pa.schema({"ts": pa.int64(), "id": pa.int64(), "amount": pa.float64()})


def faults(text: str, **options: object) -> tuple[str, ...]:
    with pytest.raises(InvalidQuery) as caught:
        parse_query(text, **options)  # type: ignore[arg-type]
    return caught.value.faults


def test_text_and_python_state_the_same_query() -> None:
    text = """
        -- payments of orders
        select o.id, p.amount as paid
        from orders as o [5 sec], pay.payments p [1 minute on paid_at]
        where o.id = p.order_id
        with recall 0.9 over 2 minutes every 500 ms max wait 10 seconds;
    """
    assert parse_query(text) == Query(
        streams=(
            Stream("o", window="5 sec", table="orders"),
            Stream("p", window="1 minute", time="paid_at", table="pay.payments"),
        ),
        condition="o.id = p.order_id",
        select="o.id, p.amount as paid",
        quality=Quality(recall=0.9, period="2 minutes", interval="500 ms", max_wait="10 seconds"),
    )


def test_without_recall_there_is_no_target() -> None:
    assert parse_query("SELECT * FROM a [1 s], b [1 s]").quality is None


def test_what_the_recall_leaves_out_has_its_default() -> None:
    assert parse_query("SELECT * FROM a [1 s], b [1 s] WITH RECALL 0.9").quality == Quality(
        recall=0.9
    )


def test_without_where_everything_joins() -> None:
    assert parse_query("SELECT * FROM a [1 s], b [1 s]").condition is None


def test_join_on_means_the_same_as_comma_and_where() -> None:
    text = (
        "SELECT * FROM a [1 s] JOIN b [1 s] ON a.x = b.x OR a.y = 1 "
        "CROSS JOIN c [1 s] INNER JOIN d [1 s] ON d.x = a.x WHERE c.z = 2"
    )
    query = parse_query(text)
    assert [stream.name for stream in query.streams] == ["a", "b", "c", "d"]
    assert query.condition == "(a.x = b.x OR a.y = 1) AND (d.x = a.x) AND (c.z = 2)"


def test_one_table_may_be_read_twice() -> None:
    query = parse_query("SELECT * FROM s AS a [1 s], s AS b [1 s] WHERE a.id = b.id")
    bound = query.bind({"s": SCHEMA})
    assert [(stream.name, stream.table) for stream in bound.streams] == [("a", "s"), ("b", "s")]


def test_time_and_arrival_columns_are_given_for_all_streams_or_by_stream() -> None:
    text = "SELECT * FROM a [1 s], b [1 s ON own]"
    same = parse_query(text, time="at", arrival="seen")
    assert [(s.time, s.arrival) for s in same.streams] == [("at", "seen"), ("own", "seen")]
    each = parse_query(text, time={"A": "at"}, arrival={"b": "seen"})
    assert [(s.time, s.arrival) for s in each.streams] == [("at", None), ("own", "seen")]


def test_a_window_names_the_source_of_a_tuple() -> None:
    query = parse_query("SELECT * FROM a [1 s ON at SOURCE device], b [1 s source sensor]")
    assert [(s.time, s.source) for s in query.streams] == [("at", "device"), ("ts", "sensor")]
    assert "missing after SOURCE" in faults("SELECT * FROM a [1 s SOURCE], b [1 s]")[0]
    schemas = {"a": pa.schema({"at": pa.int64()}), "b": SCHEMA}
    with pytest.raises(InvalidQuery, match="stream `a` has no source column `device`"):
        query.bind(schemas)


def test_quoted_names_may_hold_anything() -> None:
    text = 'SELECT * FROM "my orders" [1 s], `b [1 s]` [2 s] WHERE "my orders".x = `b [1 s]`.y'
    assert [stream.name for stream in parse_query(text).streams] == ["my orders", "b [1 s]"]


def test_every_fault_of_a_text_is_reported_together() -> None:
    text = """SELECT sum(a.id) FROM a, b [5 parsecs], c [1 s] WHERE c.id = d.id AND foo(a.id) = 1
        GROUP BY a.id ORDER BY a.id LIMIT 3 WITH RECALL 95 OVER 100 MS"""
    assert faults(text) == (
        "GROUP BY is not supported; apply it to the result of the join",
        "ORDER BY is not supported; apply it to the result of the join",
        "LIMIT is not supported; apply it to the result of the join",
        "stream `b`: `window` of '5 parsecs': unknown unit `parsecs`; "
        "write one of ns, us, ms, sec, min, hour, day, week",
        "in `c.id = d.id`: no stream `d` in FROM; known streams: `a`, `b`, `c`",
        "in `sum(a.id)`: `sum` is an aggregate; the only one is SELECT count(*), on its own",
        "`recall` must be in (0, 1], got 95; write 0.95 for 95 %",
        "`period` must be at least as long as `interval`, got 100 ms and 1 s; "
        "write a longer period or a shorter interval",
    )


def test_with_schemas_the_faults_of_columns_are_reported_as_well() -> None:
    text = "SELECT * FROM a [1 s], b WHERE a.idd = b.id AND a.id = 'x' WITH RECALL 2"
    assert faults(text, schemas={"a": SCHEMA, "b": SCHEMA}) == (
        "in `a.idd = b.id`: stream `a` has no column `idd`; did you mean `id`?",
        "in `a.id = 'x'`: int64 and string do not compare; CAST one side to the type of the other",
        "stream `b` has no window; write `b [5 SEC]` or window='5 seconds'",
        "`recall` must be in (0, 1], got 2; write 0.02 for 2 %",
    )


def test_a_query_that_passes_with_schemas_is_returned() -> None:
    text = "SELECT * FROM a [1 s], b [1 s] WHERE a.id = b.id"
    assert parse_query(text, schemas={"a": SCHEMA, "b": SCHEMA}) == parse_query(text)


def test_a_wrong_target_alone_is_an_invalid_target() -> None:
    with pytest.raises(InvalidTarget):
        parse_query("SELECT * FROM a [1 s], b [1 s] WITH RECALL 95")
    with pytest.raises(InvalidTarget):
        parse_query("SELECT * FROM a [1 s], b [1 s] WITH RECALL 0 OVER 1 MINUTE")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "SELECT * FROM a [1 s]",
            "a join takes at least two streams, got 1; add another",
        ),
        (
            "SELECT * FROM a [1 s], A [2 s]",
            "two streams are called `A` (names ignore case); give one an alias, as in `A AS other`",
        ),
        (
            "SELECT DISTINCT a.x FROM a [1 s], b [1 s]",
            "DISTINCT is not supported; apply it to the result of the join",
        ),
        (
            "SELECT * FROM a [1 s], b [1 s] HAVING TRUE",
            "HAVING is not supported; apply it to the result of the join",
        ),
        (
            "SELECT * FROM a [1 s], b [1 s] OFFSET 5",
            "OFFSET is not supported; apply it to the result of the join",
        ),
        (
            "SELECT * FROM a [1 s] RIGHT SEMI JOIN b [1 s] ON a.x = b.x",
            "RIGHT SEMI JOIN is not supported; write JOIN, LEFT JOIN, RIGHT JOIN, FULL JOIN, "
            "LEFT SEMI JOIN or LEFT ANTI JOIN",
        ),
        (
            "SELECT * FROM a [1 s] NATURAL JOIN b [1 s]",
            "NATURAL JOIN is not supported; write JOIN, LEFT JOIN, RIGHT JOIN, FULL JOIN, "
            "LEFT SEMI JOIN or LEFT ANTI JOIN",
        ),
        (
            "SELECT * FROM a [1 s] JOIN b [1 s] USING (x)",
            "USING is not supported; write ON s1.a1 = s2.a1",
        ),
        (
            "SELECT * FROM (x) AS q, a [1 s], b [1 s]",
            "`(x) AS q` in FROM is not supported; write `stream [5 SEC] AS alias`",
        ),
        (
            "SELECT * FROM a [1 s] JOIN b [1 s] JOIN c [1 s] ON TRUE ON a.x = d.x, d [1 s]",
            "`b JOIN c ON TRUE` in FROM is not supported; write `stream [5 SEC] AS alias`",
        ),
        (
            "SELECT * FROM range(5) [1 s], a [1 s], b [1 s]",
            "`range(5)` in FROM is not supported; write `stream [5 SEC] AS alias`",
        ),
        (
            "SELECT * FROM a [1 s] AS x(c), b [1 s]",
            "`a AS x(c)` in FROM: columns cannot be renamed there",
        ),
        (
            "SELECT FROM a [1 s], b [1 s]",
            "SELECT asks for nothing; write `*`, `count(*)` or a list of columns",
        ),
    ],
)
def test_what_a_join_has_no_use_for_is_refused(text: str, fault: str) -> None:
    assert faults(text) == (fault,)


def test_a_query_without_streams_says_where_they_belong() -> None:
    assert faults("SELECT 1") == (
        "a query reads streams; write FROM s1 [5 SEC], s2 [5 SEC]",
        "a join takes at least two streams, got 0; add another",
    )


def test_a_union_is_no_query() -> None:
    assert faults("SELECT 1 UNION FROM x") == (
        "a query is one SELECT, got UNION; run its parts one by one",
    )


def test_registered_functions_are_known() -> None:
    functions = Functions()
    functions.register(lambda a, b: a - b, name="gap")
    query = parse_query(
        "SELECT * FROM a [1 s], b [1 s] WHERE gap(a.x, b.x) < 1", functions=functions
    )
    functions.register(lambda a: a, name="later")
    assert list(query.functions) == ["gap"]
