"""Recordings with sources, as the task that joins them takes them: the results of a replay."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import LongType, StructType

import recalljoin as rj
from recalljoin.engine.folding import Folded
from recalljoin.errors import InvalidSetting
from recalljoin.query.model import Query, Stream
from recalljoin.query.quality import Quality
from recalljoin.spark import replay
from recalljoin.spark.options import RunSettings
from recalljoin.spark.packing import routed_schema
from recalljoin.spark.planning import JoinPlan, plan_join
from recalljoin.spark.progress import progress_table
from recalljoin.spark.replay import BLOCK_ORDER, Replayer, in_blocks
from tests.spark.live import MINUTE, SECOND
from tests.spark.test_sources import feeds
from tests.unfolding import unfolded

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

LENGTH = 3 * MINUTE
NAMES = ("s1", "s2")
Pairs = Counter[tuple[int, int]]


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    """Devices that fall silent now and then; for half a minute nothing comes at all."""
    found = {}
    for name, feed in zip(NAMES, feeds(7, length=LENGTH, silences=30), strict=True):
        assert feed.device is not None
        # No more than one tick without tuples changes anything.
        ts, at = (each + 30 * SECOND * (each > 100 * SECOND) for each in (feed.ts, feed.at))
        order = np.argsort(at, kind="stable")
        columns = {"ts": ts, "at": at, "a": feed.key, "device": feed.device}
        found[name] = pa.table({name: column[order] for name, column in columns.items()})
    return found


def planned(source: str | None, log: Path | None = None, **how: Any) -> JoinPlan:
    schema = StructType()
    for name in ("ts", "at", "a", "device"):
        schema = schema.add(name, LongType())
    session = SimpleNamespace(conf=SimpleNamespace(get=lambda _: "UTC"))
    frame = SimpleNamespace(schema=schema, isStreaming=False, sparkSession=session)
    query = Query(
        streams=[Stream(name, window=SECOND, arrival="at", source=source) for name in NAMES],
        condition="s1.a = s2.a",
        select="s1.ts AS one, s2.ts AS other",
        quality=Quality(recall=0.99, period=20 * SECOND),
    )
    frames = {name: cast("DataFrame", frame) for name in NAMES}
    folder = None if log is None else str(log)
    return plan_join(
        query, frames, RunSettings(**how), n_cells=1, n_groups=1, control_log=folder,
        is_recorded=True,
    )  # fmt: skip


def joined(plan: JoinPlan, tables: dict[str, pa.Table], tick: int) -> Pairs:
    """The results of the code that Spark's tasks run, without Spark."""
    first = min(table["at"][0].as_py() for table in tables.values())
    blocks: list[dict[str, Any]] = []
    for s, table in enumerate(tables.values()):
        pack = in_blocks(routed_schema(plan.cells.query, s), s, "at", first=first, length=tick)
        for batch in pack(table.to_batches(max_chunksize=1000)):
            blocks += batch.to_pylist()
    blocks.sort(key=lambda row: tuple(row[name] for name in BLOCK_ORDER))
    sent = pa.RecordBatch.from_pylist(blocks, schema=replay.BLOCKS)
    replayer = Replayer(plan.cells, plan.policy, plan.horizon, tick, first)
    found: Pairs = Counter()
    for batch in replayer.replay([sent]):
        rows = unfolded(batch, Folded(plan.query))
        found.update(zip(rows["s1.ts"].to_pylist(), rows["s2.ts"].to_pylist(), strict=True))
    return found


def replayed(tables: dict[str, pa.Table], source: str | None, tick: int) -> Pairs:
    """The results without Spark."""
    of = "" if source is None else f" SOURCE {source}"
    both = ", ".join(f"{name} [1 SEC{of}]" for name in NAMES)
    query = f"SELECT s1.ts AS one, s2.ts AS other FROM {both} WHERE s1.a = s2.a"
    rows = rj.replay(query, tables, arrival="at", tick=tick, recall=0.99, period="20 s").table()
    return Counter(zip(rows["one"].to_pylist(), rows["other"].to_pylist(), strict=True))


def test_a_recording_gives_what_a_replay_gives(
    tables: dict[str, pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = joined(planned("device"), tables, 100)
    assert found == replayed(tables, "device", 100)
    assert found != replayed(tables, None, 100)
    monkeypatch.setattr(replay, "ROWS_AT_ONCE", 500)
    assert joined(planned("device"), tables, 100) == found


@pytest.mark.spark
@pytest.mark.parametrize("source", [None, "device"])
def test_a_recording_on_spark_gives_what_a_replay_gives(
    spark: SparkSession, tmp_path: Path, tables: dict[str, pa.Table], source: str | None
) -> None:
    # The streams begin at different moments; ticks are counted from the first of them.
    assert tables["s1"]["at"][0].as_py() != tables["s2"]["at"][0].as_py()
    streams = []
    for name, table in tables.items():
        pq.write_table(table, tmp_path / name)
        frame = spark.read.parquet(str(tmp_path / name))
        streams.append(rj.Stream(name, frame, window=SECOND, arrival="at", source=source))
    found = rj.join(
        *streams, on="s1.a = s2.a", select="s1.ts AS one, s2.ts AS other", recall=0.99,
        period="20 s", tick="100 ms",
    ).toArrow()  # fmt: skip
    rows = Counter(zip(found["one"].to_pylist(), found["other"].to_pylist(), strict=True))
    assert rows == replayed(tables, source, 100)


def test_cells_hot_keys_and_reports_change_nothing(
    tables: dict[str, pa.Table], tmp_path: Path
) -> None:
    found = replayed(tables, "device", 250)
    assert joined(planned("device", cells=3, hot_keys={"s1.a": [2]}), tables, 250) == found
    # With a control log every tick is taken by itself.
    plan = planned("device", tmp_path, cells=2)
    assert joined(plan, tables, 250) == found
    assert plan.cells.log is not None
    held = [row for row in progress_table(plan.cells.log).to_pylist() if row["held_by"]]
    assert held
    assert {row["held_by"] for row in held} <= set("01234")


def test_sources_of_tuples_that_come_one_by_one_are_refused() -> None:
    with pytest.raises(InvalidSetting, match=r"sources of a stream .* leave arrival='tuple' out"):
        planned("device", arrival="tuple")
