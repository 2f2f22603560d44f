"""Real streaming queries of every kind give what the reference gives."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from recalljoin.errors import InvalidQuery, InvalidSetting
from tests.reference.kinds import run_kinds
from tests.spark.recorded import Recording, record
from tests.spark.test_streaming_query import run, slacks_used

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from recalljoin.query.kinds import Emit, How

pytestmark = pytest.mark.spark

WINDOWS = (30, 20)


def streams(frames: list[DataFrame], **more: Any) -> list[Any]:
    import recalljoin as rj

    return [rj.Stream(f"s{s + 1}", f, window=WINDOWS[s], **more) for s, f in enumerate(frames)]


def reference(recording: Recording) -> Any:
    return recording.query(
        WINDOWS,
        lambda rows: (
            rows[0]["a"] is not None
            and rows[0]["a"] == rows[1]["a"]
            and rows[0]["b"] == rows[1]["b"]
        ),
    )


def rows_in(folder: Path, spark: SparkSession) -> Counter[tuple[Any, ...]]:
    frame = spark.read.parquet(str(folder / "out"))
    return Counter(
        (*(v and v["place"] for v in row[:-1]), row["result_time"]) for row in frame.collect()
    )


@pytest.mark.parametrize(
    ("how", "emit", "n_cells"),
    [
        ("inner", "eager", 2),
        ("left", "eager", 3),
        ("full", "ordered", 2),
        ("semi", "eager", 2),
        ("anti", "ordered", 1),
    ],
)
def test_recorded_arrivals_give_what_the_reference_gives(
    spark: SparkSession, tmp_path: Path, how: How, emit: Emit, n_cells: int
) -> None:
    import recalljoin as rj

    recording = record(2, 6, seed=0)
    recording.write(tmp_path / "in")
    joined = rj.join(
        *streams(recording.frames(spark, tmp_path / "in")),
        on="s1.a = s2.a AND s1.b = s2.b",
        how=how,
        emit=emit,
        recall=0.5,
        period=400,
        interval=50,
        initial_wait=20,
        max_wait=20,
        retention=1000,
        cells=n_cells,
        late_rows=True,
        control_log=str(tmp_path / "log"),
        flush=True,
    )
    query = run(joined, tmp_path)
    slacks = slacks_used(tmp_path)
    expected = run_kinds(
        reference(recording), recording.tuples, how=how, emit=emit, k=slacks.__getitem__,
        horizon=1000,
    )  # fmt: skip
    found = rows_in(tmp_path, spark)
    assert found == Counter((*row.arrivals, row.ts) for row in expected.rows)
    metrics = [p["observedMetrics"]["recalljoin"] for p in query.recentProgress]
    n_false = 0 if how == "semi" else len(expected.false_nulls)
    assert sum(m["produced"] for m in metrics) == len(expected.rows) - n_false
    if how in ("left", "full", "anti"):
        assert sum(m["nulls"] for m in metrics) == len(expected.nulls) > 0
        assert sum(m["false_nulls"] for m in metrics) == n_false
        last = rj.open(str(tmp_path / "log")).progress().orderBy("batch").collect()[-1]
        assert (last["total_nulls"], last["total_false_nulls"]) == (len(expected.nulls), n_false)
    if how == "left":
        assert n_false > 0
        kept = rj.open(str(tmp_path / "log")).false_nulls("s1").collect()
        assert {row["s1"]["place"] for row in kept} == expected.false_nulls


def test_where_beside_an_outer_join_applies_to_its_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    import recalljoin as rj

    recording = record(2, 4, seed=6)
    recording.write(tmp_path / "in")
    one, other = recording.frames(spark, tmp_path / "in")
    joined = rj.sql(
        "SELECT s1.place, coalesce(s2.place, -1) AS other FROM s1 [30 MS] LEFT JOIN s2 [20 MS] "
        "ON s1.a = s2.a AND s1.b <> 'y' WHERE s2.b IS NULL OR s2.b = 'x'",
        {"s1": one, "s2": other},
        emit="eager",
        k=500,
        control_log=str(tmp_path / "log"),
        flush=True,
    )
    run(joined, tmp_path)
    query = recording.query(
        WINDOWS,
        lambda rows: (
            rows[0]["a"] is not None and rows[0]["a"] == rows[1]["a"] and rows[0]["b"] != "y"
        ),
    )
    expected = run_kinds(query, recording.tuples, how="left", k=500)
    chosen = [
        (row.arrivals[0], -1 if row.arrivals[1] is None else row.arrivals[1], row.ts)
        for row in expected.rows
        if row.arrivals[1] is None or recording.tuples[row.arrivals[1]].values["b"] == "x"
    ]
    found = spark.read.parquet(str(tmp_path / "out")).collect()
    assert Counter(map(tuple, found)) == Counter(chosen)
    assert any(other == -1 for _, other, _ in chosen)


def test_recorded_frames_are_joined_outer_as_well(spark: SparkSession) -> None:
    import recalljoin as rj

    orders = spark.createDataFrame(
        [(1000, 1000, 1), (2000, 2000, 2), (9000, 9000, 4)], "ts bigint, at bigint, id bigint"
    )
    payments = spark.createDataFrame(
        [(1500, 1500, 1), (9500, 9500, 7), (2500, 12_000, 2)], "ts bigint, at bigint, id bigint"
    )
    pair = [
        rj.Stream(name, frame, window="2 s", arrival="at")
        for name, frame in (("o", orders), ("p", payments))
    ]
    joined = rj.join(*pair, on="o.id = p.id", how="left", select="o.id, p.id AS paid", k="1 s")
    assert sorted(map(tuple, joined.collect()), key=repr) == sorted(
        [(1, 1, 1500), (2, None, 4000), (4, None, 11_000)], key=repr
    )
    anti = rj.join(*pair, on="o.id = p.id", how="anti", k="1 min")
    assert [row["o"]["id"] for row in anti.collect()] == [4]
    assert anti.columns == ["o", "result_time"]


def test_what_cannot_be_is_refused_with_the_reason(spark: SparkSession) -> None:
    import recalljoin as rj

    frame = spark.readStream.format("rate").load().selectExpr("timestamp AS ts", "value AS a")
    pair = streams([frame, frame])
    with pytest.raises(InvalidSetting, match=r"`how='left'` needs arrival in ticks"):
        rj.join(*pair, on="s1.a = s2.a", how="left", arrival="tuple", k=0, control_log="unused")
    third = rj.Stream("s3", frame, window=5)
    with pytest.raises(InvalidQuery, match="a left join has two streams, this query has 3"):
        rj.join(*pair, third, how="left", k=0, control_log="unused")
    with pytest.raises(InvalidSetting, match="goes with a `recall`"):
        rj.join(*pair, how="left", k=0, null_precision=0.9, control_log="unused")
