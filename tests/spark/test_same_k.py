"""An evaluation of recorded arrivals chooses the K that a streaming query chose in every batch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from recalljoin.engine.arrivals import Arrivals, arrivals_of
from recalljoin.experiments.setup import Setup
from recalljoin.experiments.tasks import Inputs, Task
from recalljoin.query.model import Query, Stream
from tests.spark.live import SECOND, WINDOW, Feed, Live, both
from tests.spark.recorded import record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from recalljoin.quality.record import RunRecord

MINUTE = 60 * SECOND


def evaluated(tables: Mapping[str, pa.Table], windows: list[int], setup: Setup) -> RunRecord:
    """What ``recalljoin evaluate`` does with recorded tuples, in its task on Spark."""
    names = list(tables)
    stated = Query(
        streams=[Stream(n, window=w, arrival="at") for n, w in zip(names, windows, strict=True)],
        condition=f"{names[0]}.a = {names[1]}.a",
        select=f"{names[0]}.ts AS one",
    )
    schemas = {name: table.schema for name, table in tables.items()}
    bound = replace(stated, quality=setup.target(stated)).bind(schemas)
    inputs = Inputs(bound, tuple(tables), tuple(schemas.values()), (0, 1))
    arrivals: Arrivals = arrivals_of(bound, tables)
    return Task(inputs, setup).run(arrivals)


def recorded(feeds: list[Feed]) -> dict[str, pa.Table]:
    return {
        f"s{s}": pa.table({"ts": feed.ts, "a": feed.key, "at": feed.at})
        for s, feed in enumerate(feeds)
    }


@pytest.mark.parametrize(
    ("batch", "policy", "minutes"),
    [
        (200, "slack", 1), (2500, "slack", 6), (300, "eqsel", 1), (500, "max", 1),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (
            (SECOND, "slack", 6), (20 * SECOND, "slack", 30), (300, "percentile", 2),
            (700, "noneqsel", 2),
        )),
    ],
)  # fmt: skip
def test_evaluate_chooses_the_k_of_every_batch_that_streaming_chooses(
    tmp_path: Path, batch: int, policy: str, minutes: int
) -> None:
    until = minutes * MINUTE
    feeds = both(3, until, every=50 if minutes < 10 else 200)
    recall: dict[str, Any] = {"recall": 0.9, "period": 30 * SECOND}
    live = Live(tmp_path, feeds, policy=policy, **recall)
    # Ticks count from the first arrival, and so do the batches here.
    live.now = min(int(feed.at[0]) for feed in feeds)
    live.run(until, batch=batch)
    setup = Setup(
        policy=policy, arrival_mode="tick", tick=batch, batch=batch, recall=0.9, period=30 * SECOND
    )
    found = evaluated(recorded(feeds), [WINDOW, WINDOW], setup)
    slacks = found.schedule.expanded().tolist()
    # The recording goes on after the last batch.
    assert len(set(live.k)) > 4
    assert live.k == slacks[: len(live.k)]


@pytest.mark.spark
def test_evaluate_chooses_the_k_of_every_batch_of_a_running_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    import recalljoin as rj
    from tests.spark.test_streaming_query import run, slacks_used

    n_ticks, windows = 14, [100, 60]
    recording = record(2, n_ticks, seed=6)
    recording.write(tmp_path / "in")
    frames = recording.frames(spark, tmp_path / "in")
    joined = rj.join(
        *(rj.Stream(f"s{s + 1}", f, window=windows[s]) for s, f in enumerate(frames)),
        on="s1.a = s2.a",
        select="s1.ts AS one",
        recall=0.9,
        period=300,
        # Longer than a batch: some batches do not adapt.
        interval=70,
        policy="percentile",
        cells=2,
        control_log=str(tmp_path / "log"),
    )
    run(joined, tmp_path)
    tables = {}
    for s in range(2):
        mine = [e for e in recording.tuples if e.stream == s]
        at = pa.array([50 * e.tick for e in mine], pa.int64())
        tables[f"s{s + 1}"] = recording.table(s).append_column("at", at)
    setup = Setup(
        policy="percentile", arrival_mode="tick", tick=50, batch=50, cells=2,
        recall=0.9, period=300, interval=70,
    )  # fmt: skip
    slacks = evaluated(tables, windows, setup).schedule.expanded().tolist()
    used = slacks_used(tmp_path)
    assert len(set(slacks)) > 2
    assert [used[n] for n in range(n_ticks)] == slacks
