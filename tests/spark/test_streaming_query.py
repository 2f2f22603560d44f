"""A real streaming query gives what the reference gives."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.endurance import sample
from tests.reference.tick import run_ticks
from tests.spark.recorded import record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark

SLACKS = (0, 100, 20, 60, 0, 40, 10, 30)


def schedule(slacks: Sequence[int]) -> Any:
    """A policy that takes its slacks from a list, one an interval."""

    class Schedule:
        name = "schedule"
        uses_slack = True

        def __init__(self, _settings: object) -> None:
            self.n_seen = 0
            self.k = slacks[0]

        def observe(self, _profile: object) -> None:
            self.n_seen += 1

        def adapt(self) -> int:
            self.k = slacks[min(self.n_seen, len(slacks) - 1)]
            return self.k

    return Schedule


def run(frame: DataFrame, folder: Path) -> StreamingQuery:
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def places(frame: DataFrame, m: int) -> Counter[tuple[int, ...]]:
    return Counter(tuple(row[f"s{s + 1}"]["place"] for s in range(m)) for row in frame.collect())


def slacks_used(folder: Path) -> list[int]:
    """K of every batch, from Spark's own log of offsets."""
    logs = sorted((folder / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda p: int(p.name))
    return [json.loads(log.read_text().splitlines()[2])["k"] for log in logs]


@pytest.mark.parametrize(
    ("n_cells", "n_groups", "n_files"), [(1, 1, 1), (2, 1, 3), (3, 2, 1), (8, 1, 2)]
)
def test_recorded_arrivals_give_what_the_reference_gives(
    spark: SparkSession, tmp_path: Path, n_cells: int, n_groups: int, n_files: int
) -> None:
    import recalljoin as rj

    # Tick 3 brings empty files: nothing is flushed in the middle.
    recording = record(3, 7, seed=5, empty=[3])
    windows = (100, 60, 150)
    recording.write(tmp_path / "in", n_files=n_files)
    frames = recording.frames(spark, tmp_path / "in", n_files=n_files)
    joined = rj.join(
        *(rj.Stream(f"s{s + 1}", frame, window=windows[s]) for s, frame in enumerate(frames)),
        on="s1.a = s2.a AND s2.b = s3.b AND s1.ts <= s3.ts + 80",
        recall=0.9,
        interval=1,
        policy=schedule(SLACKS),
        cells=n_cells,
        groups=n_groups,
        control_log=str(tmp_path / "log"),
        flush=True,
    )
    query = run(joined, tmp_path)
    reference = recording.query(
        windows,
        lambda rows: (
            rows[0]["a"] is not None
            and rows[0]["a"] == rows[1]["a"]
            and rows[1]["b"] == rows[2]["b"]
            and rows[0]["ts"] <= rows[2]["ts"] + 80
        ),
    )
    slacks = slacks_used(tmp_path)
    assert len(set(slacks[:7])) > 3
    expected = run_ticks(reference, recording.tuples, k=lambda n: slacks[n])
    found = places(spark.read.parquet(str(tmp_path / "out")), 3)
    assert found == Counter(result.arrivals for result in expected.produced)
    metrics = [p["observedMetrics"]["recalljoin"] for p in query.recentProgress]
    assert sum(m["produced"] for m in metrics) == len(expected.produced)
    assert sum(m["lost"] for m in metrics) == len(expected.lost)
    assert sum(m["late"] for m in metrics) == len(expected.late)
    assert sum(m["arrived"] for m in metrics) == len(recording.tuples)
    assert [m["watermark"] for m in metrics][:7] == list(expected.watermarks)
    progress = rj.open(str(tmp_path / "log")).progress().orderBy("batch").collect()
    # When a batch is planned, the one before is the last that can be measured.
    measured = [row["recall"] for row in progress[:-1]]
    assert metrics[0]["recall"] is None
    assert [m["recall"] for m in metrics[1:]] == pytest.approx(measured, abs=1e-9)
    # A long run reads these as well.
    seen = sample(query, tmp_path, 0.0, 500, -1)
    assert seen is not None
    assert (seen.batches, seen.k_s) == (len(metrics), metrics[-1]["k_ms"] / 1000)
    # Cells stay in the memory of their worker: none is rebuilt from state, bar a worker that dies.
    assert sum(row["restored"] for row in progress) <= n_cells


def test_columns_may_be_called_as_the_library_calls_its_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    import recalljoin as rj

    frames = []
    for name, first in (("l", 0), ("r", 100)):
        path = str(tmp_path / name)
        spark.createDataFrame(
            [(t, first + t) for t in range(5)], "ts bigint, x bigint"
        ).write.parquet(path)
        frames.append(spark.readStream.schema("ts bigint, x bigint").parquet(path))
    joined = rj.join(
        *(rj.Stream(n, f, window=1) for f, n in zip(frames, ("l", "r"), strict=True)),
        on="l.ts = r.ts",
        select="l.x AS _0, r.x AS __counts",
        k=0,
        control_log=str(tmp_path / "log"),
        flush=True,
    )
    assert joined.columns == ["_0", "__counts", "result_time"]
    run(joined, tmp_path)
    found = sorted(map(tuple, spark.read.parquet(str(tmp_path / "out")).collect()))
    assert found == [(t, 100 + t, t) for t in range(5)]
