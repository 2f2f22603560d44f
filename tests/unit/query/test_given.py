"""Values of another kind than a parameter takes are refused by the parameter's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import recalljoin as rj
from recalljoin.query.given import COUNT, FOLDER, INPUTS, NAME, POLICY, SWITCH

if TYPE_CHECKING:
    from recalljoin.query.given import Kind

TEXT = "SELECT * FROM a [5 SEC], b [5 SEC] WHERE a.k = b.k"
TABLE = pa.table({"ts": [1, 2], "k": [1, 1]})
STREAMS = [rj.Stream("a", window=5), rj.Stream("b", window=5)]
NO_QUERY = r"^`query` must be text such as .*, or a recalljoin.Query, got "
NO_INPUTS = "^`inputs` must be a dictionary with the data of each stream by its name, got "


@pytest.mark.parametrize("wrong", [None, 5, [], {}, b"SELECT"])
@pytest.mark.parametrize("call", [rj.replay, rj.advise, rj.explain])
def test_a_query_is_text_or_a_query(call: Any, wrong: object) -> None:
    with pytest.raises(rj.InvalidSetting, match=NO_QUERY):
        call(wrong, {"a": TABLE, "b": TABLE})


@pytest.mark.parametrize("wrong", [5, "a.parquet", [TABLE, TABLE], {1: TABLE, "b": TABLE}])
@pytest.mark.parametrize("call", [rj.replay, rj.advise, rj.explain])
def test_inputs_have_names(call: Any, wrong: object) -> None:
    with pytest.raises(rj.InvalidSetting, match=NO_INPUTS):
        call(TEXT, wrong)


@pytest.mark.parametrize("wrong", [None, 5, []])
def test_a_text_is_text(wrong: Any) -> None:
    with pytest.raises(rj.InvalidSetting, match=r"^`query` must be SQL as text, got "):
        rj.parse_query(wrong)


def test_all_parts_of_a_query_of_another_kind_are_told_together() -> None:
    parts: dict[str, Any] = {"condition": 5, "select": ["a.k"], "functions": {}, "quality": 0.9}
    with pytest.raises(rj.InvalidQuery) as caught:
        rj.Query(streams=STREAMS, **parts)
    assert [fault.split(", got ")[0] for fault in caught.value.faults] == [
        "`condition` must be SQL as text",
        "`select` must be SQL as text",
        "`functions` must be functions of your own",
        "`quality` must be a target",
    ]
    assert caught.value.faults[1].endswith("; write for example 'o.id, p.ts AS paid'")
    streams: Any = ["a", "b"]
    with pytest.raises(rj.InvalidQuery, match=r"^`streams` must be a list of streams, got \['a'"):
        rj.Query(streams=streams)


@pytest.mark.parametrize("unit", ["min", "MS", None, 5, []])
def test_a_unit_of_time_is_one_of_four(unit: Any) -> None:
    with pytest.raises(rj.InvalidQuery, match=r"^`time_unit` must be one of s, ms, us, ns, got "):
        rj.replay(TEXT, {"a": TABLE, "b": TABLE}, k=0, time_unit=unit)


@pytest.mark.parametrize("name", ["k", "retention", "tick"])
def test_a_duration_that_cannot_be_counted_is_refused(name: str) -> None:
    table = TABLE.append_column("arrival", TABLE["ts"])
    options: dict[str, Any] = {"k": 0} | {name: "999999999999999999999 days"}
    with pytest.raises(rj.InvalidSetting, match=f"`{name}` is too long to count in ms, got '999"):
        rj.replay(TEXT, {"a": table, "b": table}, **options)


def test_a_tick_as_long_as_may_be_has_every_arrival() -> None:
    table = TABLE.append_column("arrival", pa.array([-(2**61), 2**61]))
    ns = pa.timestamp("ns")
    one = table.set_column(2, "arrival", table["arrival"].cast(ns))
    found = rj.replay(TEXT, {"a": one, "b": one}, k=0, tick=2**61)
    assert found.table().num_rows == 4


@pytest.mark.parametrize(
    ("role", "given"), [("time", {"a": "ts", "c": "ts"}), ("arrival", {"c": "at"})]
)
def test_a_column_of_a_stream_that_is_not_there_is_refused(role: str, given: Any) -> None:
    with pytest.raises(rj.InvalidQuery) as caught:
        rj.parse_query(TEXT, **{role: given})
    assert str(caught.value) == (
        f"`{role}` names the stream `c`, which is not in FROM; known streams: `a`, `b`"
    )


def test_a_column_of_a_table_counts_for_the_streams_that_read_it() -> None:
    text = "SELECT * FROM a [5 SEC] AS x, a [5 SEC] AS y, b [5 SEC] WHERE x.k = y.k"
    query = rj.parse_query(text, time={"a": "at", "Y": "other", "b": "when"})
    assert [stream.time for stream in query.streams] == ["at", "other", "when"]


@pytest.mark.parametrize(
    ("kind", "values", "others"),
    [
        (SWITCH, [True, False], [1, "yes", None]),
        (COUNT, [1, 10**30, -1], [True, 1.0, "2", None]),
        (NAME, ["a", " "], ["", b"a", 5]),
        (FOLDER, ["a"], ["", 5, ["a"]]),
        (INPUTS, [{}, {"a": 5}], [{5: 5}, [], None]),
        (POLICY, ["slack", print], [5, [], None]),
    ],
)
def test_a_kind_has_its_values_and_no_others(
    kind: Kind, values: list[Any], others: list[Any]
) -> None:
    for value in values:
        kind.check("x", value)
    for other in others:
        with pytest.raises(rj.InvalidSetting, match=f"^`x` must be {kind.words}, got "):
            kind.check("x", other)


@pytest.mark.parametrize(
    ("column", "fault"),
    [
        (("k", pa.array([3, 4])), "stream `a` has several columns `k`; rename all but one of them"),
        (("ts", pa.array([3, 4])), "stream `a` has several columns `ts`; rename all but one"),
        (
            ("p", pa.RunEndEncodedArray.from_arrays([2], [1])),
            "column `a.p` is run-end encoded, which the join cannot take in; decode it",
        ),
    ],
)
def test_columns_that_cannot_be_taken_in_are_named(column: Any, fault: str) -> None:
    with pytest.raises(rj.InvalidQuery) as caught:
        rj.replay(TEXT, {"a": TABLE.append_column(*column), "b": TABLE}, k=0)
    assert str(caught.value).startswith(fault)
