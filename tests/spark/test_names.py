"""Names and types that are unusual: joined like any others, or refused in our words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.test_streaming_query import run

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def source(spark: SparkSession, folder: Path, *columns: str) -> DataFrame:
    """A stream of five rows with ``id`` from 0 to 4, seen through these columns."""
    spark.range(5).write.parquet(str(folder / "in"))
    frame = spark.readStream.schema("id bigint").parquet(str(folder / "in"))
    return frame.selectExpr(*columns)


def joined(frame: DataFrame, folder: Path, names: tuple[str, str], **more: Any) -> DataFrame:
    import recalljoin as rj

    time = more.pop("time", "ts")
    streams = [rj.Stream(name, frame, window=2, time=time) for name in names]
    return rj.join(*streams, k=0, control_log=str(folder / "log"), flush=True, cells=2, **more)


@pytest.mark.parametrize(
    ("columns", "more"),
    [
        (
            ["id AS `a.b`", "id AS `c``d`", "id AS `t.s`", "id AS `result_time`"],
            {
                "on": "x.`a.b` = y.`a.b` AND x.`c``d` + 1 = y.`c``d` + 1",
                "select": "x.`a.b` AS v, x.`c``d` + y.`c``d` AS w, x.result_time AS t",
                "time": "t.s",
            },
        ),
        (
            ["id AS `a.b`", "id AS `t``s`", "id AS `_0`", "id AS `__place`", "null AS nothing"],
            {"on": "x.`a.b` = y.`a.b`", "time": "t`s", "late_rows": True},
        ),
        (
            ["named_struct('p.q', id, 'r`s', id) AS st", "id AS ts", "parse_json('[1]') AS json"],
            {"on": "x.st.`p.q` = y.st.`p.q` AND x.st.`r``s` - 1 = y.st.`r``s` - 1"},
        ),
    ],
)
def test_columns_with_unusual_names_join_like_others(
    spark: SparkSession, tmp_path: Path, columns: list[str], more: dict[str, Any]
) -> None:
    result = joined(source(spark, tmp_path, *columns), tmp_path, ("x", "y"), **more)
    times = result.select("result_time")
    run(times, tmp_path)
    found = Counter(row[0] for row in spark.read.parquet(str(tmp_path / "out")).collect())
    assert found == Counter(range(5))


def test_rows_of_a_stream_with_any_name_are_kept_inside_the_log(
    spark: SparkSession, tmp_path: Path
) -> None:
    import recalljoin as rj

    name = "../../x*{y}"
    frame = source(spark, tmp_path, "id AS a", "CASE WHEN id = 4 THEN null ELSE id END AS ts")
    run(joined(frame, tmp_path, (name, "y"), on=f"`{name}`.a = y.a"), tmp_path)
    log = rj.open(str(tmp_path / "log"))
    (row,) = log.refused(name).collect()
    assert (row[name]["a"], row["reason"]) == (4, "null time")
    parents = {file.parents[1] for file in tmp_path.rglob("*-00000.parquet")}
    assert parents == {tmp_path / "log" / "refused"}


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        (["id AS b", "id AS b"], "stream `x` has the columns `b` and `b`, which Spark does not"),
        (["id AS b", "id AS B"], "stream `x` has the columns `b` and `B`, which Spark does not"),
        (
            ["make_ym_interval(1, 2) AS i"],
            "column `x.i` is interval year to month, which the join cannot take in; cast it, or "
            "drop it: frame.drop('i')",
        ),
        (
            ["string(id) COLLATE UTF8_LCASE AS s"],
            "column `x.s` is string collate UTF8_LCASE, and the join compares text by its bytes; "
            "write COLLATE UTF8_BINARY behind it, or compare lower(s)",
        ),
        (
            ["array(string(id) COLLATE UNICODE_CI) AS v"],
            "column `x.v` is array<string collate UNICODE_CI>, and the join compares text",
        ),
        (["array() AS v"], "column `x.v` is array<void>, which the join cannot take in"),
        (["map() AS v"], "column `x.v` is map<void,void>, which the join cannot take in"),
        (["make_interval(1) AS v"], "column `x.v` is interval, which the join cannot take in"),
    ],
)
def test_columns_that_cannot_be_joined_are_refused_when_the_join_is_planned(
    spark: SparkSession, tmp_path: Path, columns: list[str], fault: str
) -> None:
    import recalljoin as rj

    frame = source(spark, tmp_path, "id AS a", "id AS ts", *columns)
    with pytest.raises(rj.InvalidQuery) as caught:
        joined(frame, tmp_path, ("x", "y"), on="x.a = y.a")
    assert caught.value.faults[0].startswith(fault)


def test_result_time_names_no_stream_and_no_output(spark: SparkSession, tmp_path: Path) -> None:
    import recalljoin as rj

    frame = source(spark, tmp_path, "id AS a", "id AS ts")
    with pytest.raises(rj.InvalidQuery) as caught:
        joined(frame, tmp_path, ("Result_Time", "y"), on="Result_Time.a = y.a")
    assert str(caught.value) == (
        "a stream is called `Result_Time`, as the column with the time of a result is; give it an "
        "alias, as in `Result_Time AS other`"
    )
    with pytest.raises(rj.InvalidQuery, match=r"an output is called `result_time`, as the column"):
        joined(frame, tmp_path, ("x", "y"), on="x.a = y.a", select="x.ts AS result_time")
