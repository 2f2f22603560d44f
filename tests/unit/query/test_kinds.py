from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from recalljoin.errors import InvalidQuery, InvalidTarget
from recalljoin.query.explain import explain
from recalljoin.query.model import Query, Stream
from recalljoin.query.quality import Quality
from recalljoin.query.text import parse_query

SCHEMAS = {
    "a": pa.schema({"ts": pa.int64(), "id": pa.int64(), "x": pa.float64()}),
    "b": pa.schema({"ts": pa.int64(), "id": pa.int64(), "y": pa.float64()}),
    "c": pa.schema({"ts": pa.int64(), "id": pa.int64()}),
}


def query(**settings: Any) -> Query:
    streams = [Stream("a", window="5 s"), Stream("b", window="5 s")]
    return Query(**{"streams": streams, "condition": "a.id = b.id", **settings})


@pytest.mark.parametrize(
    ("words", "how"),
    [
        ("JOIN", "inner"),
        ("INNER JOIN", "inner"),
        ("LEFT JOIN", "left"),
        ("LEFT OUTER JOIN", "left"),
        ("RIGHT JOIN", "right"),
        ("RIGHT OUTER JOIN", "right"),
        ("FULL JOIN", "full"),
        ("FULL OUTER JOIN", "full"),
        ("LEFT SEMI JOIN", "semi"),
        ("left anti join", "anti"),
    ],
)
def test_the_words_before_join_name_the_kind(words: str, how: str) -> None:
    stated = parse_query(f"SELECT * FROM a [5 SEC] {words} b [5 SEC] ON a.id = b.id")
    assert (stated.how, stated.condition, stated.where) == (how, "a.id = b.id", None)
    assert stated.bind(SCHEMAS).how == how


def test_where_beside_an_outer_join_is_about_its_rows_and_on_about_its_pairs() -> None:
    text = "SELECT * FROM a [5 s] LEFT JOIN b [5 s] ON a.id = b.id AND a.x > 1 WHERE b.y IS NULL"
    bound = parse_query(text).bind(SCHEMAS)
    assert len(bound.residual) == 1
    assert len(bound.where) == 1
    inner = parse_query(text.replace("LEFT", "")).bind(SCHEMAS)
    assert (len(inner.residual), inner.where) == (2, ())


def test_where_of_an_inner_join_stands_in_the_condition() -> None:
    with pytest.raises(InvalidQuery, match="write it in the condition"):
        query(where="a.x > 1")


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"how": "letf"}, "there is no join `how='letf'`; did you mean `left`?"),
        ({"how": "both"}, "known kinds: `inner`, `left`, `right`, `full`, `semi`, `anti`"),
        ({"how": "outer"}, "did you mean `full`?"),
        ({"how": "LEFT_SEMI"}, "did you mean `semi`?"),
        ({"emit": "eagre"}, "there is no way `emit='eagre'`; did you mean `eager`?"),
        (
            {"how": "left", "streams": [Stream(name, window="5 s") for name in "abc"]},
            "a left join has two streams, this query has 3; join two streams, and the result with "
            "the next",
        ),
    ],
)
def test_unknown_and_impossible_kinds_are_refused_with_a_way_out(
    settings: dict[str, Any], fault: str
) -> None:
    with pytest.raises(InvalidQuery) as refused:
        query(**settings)
    assert fault in str(refused.value)


@pytest.mark.parametrize(("how", "named"), [("semi", "a semi"), ("anti", "an anti")])
def test_semi_and_anti_joins_show_the_first_stream_only(how: str, named: str) -> None:
    fault = f"{named} join shows the columns of `a` only; drop `b.y`"
    with pytest.raises(InvalidQuery, match=fault):
        query(how=how, select="a.x, b.y").bind(SCHEMAS)
    with pytest.raises(InvalidQuery, match=fault):
        query(how=how, where="b.y > 1").bind(SCHEMAS)
    assert query(how=how, select="a.x").bind(SCHEMAS).how == how


def test_nulls_are_as_precise_as_the_recall_unless_something_else_is_asked_for() -> None:
    def bound(how: str, **quality: Any) -> float | None:
        target = query(how=how, quality=Quality(recall=0.9, **quality)).bind(SCHEMAS).quality
        assert target is not None
        return target.null_precision

    assert bound("inner") is None
    assert bound("semi") is None
    assert [bound(how) for how in ("left", "right", "full", "anti")] == [0.9] * 4
    assert bound("left", null_precision=0.99) == 0.99
    with pytest.raises(InvalidTarget, match="of which the join `how='semi'` has none"):
        bound("semi", null_precision=0.99)
    with pytest.raises(InvalidTarget, match=r"`null_precision` must be in \(0, 1\], got 99"):
        Quality(null_precision=99)


def test_the_precision_of_nulls_can_be_asked_for_as_text() -> None:
    text = "SELECT * FROM a [5 s] LEFT JOIN b [5 s] ON a.id = b.id "
    text += "WITH RECALL 0.9 NULL PRECISION 0.99 OVER 1 MINUTE"
    quality = parse_query(text).quality
    assert quality is not None
    assert (quality.recall, quality.null_precision) == (0.9, 0.99)


def test_a_query_is_explained_with_its_rows() -> None:
    text = "SELECT * FROM a [5 s] LEFT JOIN b [5 s] ON a.id = b.id WHERE b.id IS NULL"
    told = explain(parse_query(text, emit="eager").bind(SCHEMAS))
    assert "pairs, and tuples of a without a partner" in told
    assert "results leave as soon as their last member has arrived" in told
    assert "one struct per stream: a\n" in explain(query(how="anti").bind(SCHEMAS))
