"""Recorded ticks give the same results however they travel and are taken together."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructType

from recalljoin.engine.folding import Folded
from recalljoin.query.model import Query, Stream
from recalljoin.query.quality import Quality
from recalljoin.spark import replay
from recalljoin.spark.options import RunSettings
from recalljoin.spark.packing import needed_schema
from recalljoin.spark.planning import plan_join
from recalljoin.spark.replay import BLOCK_ORDER, Replayer, in_blocks
from tests.unfolding import unfolded

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

N = 1500
TICK = 50


def recordings() -> list[pa.Table]:
    """Two streams with late tuples, a silence, a null time and a time far ahead."""
    random = np.random.default_rng(5)
    tables = []
    for s in range(2):
        ts = np.sort(random.integers(0, 20_000, N))
        at = ts + np.where(random.random(N) < 0.2, random.exponential(300, N), 0).astype(np.int64)
        ts, at = ts + 9_000 * (ts > 8_000), at + 9_000 * (ts > 8_000)
        if s == 1:
            at += 1_000 * (ts > 20_000)
        ts[70] = 10**14
        order = np.argsort(at, kind="stable")
        time = pa.array(ts, mask=np.arange(N) == 33)
        table = pa.table({"ts": time, "a": random.integers(0, 9, N), "at": at})
        tables.append(table.take(pa.array(order)))
    return tables


def replayed(log: Path | None, n_tasks: int, size: int, how: dict[str, Any]) -> Counter[Any]:
    """Results; rows come in blocks of that size from so many tasks."""
    tables = recordings()
    schema = StructType().add("ts", LongType()).add("a", LongType()).add("at", LongType())
    session = SimpleNamespace(conf=SimpleNamespace(get=lambda _: "UTC"))
    frame = SimpleNamespace(schema=schema, isStreaming=False, sparkSession=session)
    target = how.get("target")
    query = Query(
        streams=[Stream(name, window=400, arrival="at") for name in ("l", "r")],
        condition="l.a = r.a",
        select="l.ts, r.ts AS other",
        quality=None if target is None else Quality(recall=target, period=3000, interval=200),
    )
    settings = RunSettings(**{name: value for name, value in how.items() if name != "target"})
    plan = plan_join(
        query,
        {name: cast("DataFrame", frame) for name in ("l", "r")},
        settings,
        n_cells=1,
        n_groups=1,
        control_log=None if log is None else str(log),
    )
    first = min(table["at"][0].as_py() for table in tables)
    blocks: list[dict[str, Any]] = []
    for s, table in enumerate(tables):
        pack = in_blocks(needed_schema(plan.cells.query, s), s, "at", first=first, length=TICK)
        for task in range(n_tasks):
            part = table.slice(task * N // n_tasks, N // n_tasks)
            for batch in pack(part.to_batches(max_chunksize=size)):
                # Outside Spark every task is the first one.
                blocks += [{**row, "task": task} for row in batch.to_pylist()]
    blocks.sort(key=lambda row: tuple(row[name] for name in BLOCK_ORDER))
    sent = pa.RecordBatch.from_pylist(blocks, schema=replay.BLOCKS)
    replayer = Replayer(plan.cells, plan.policy, plan.horizon, TICK, first)
    found: Counter[Any] = Counter()
    for batch in replayer.replay([sent]):
        rows = unfolded(batch, Folded(plan.query))
        found.update(zip(rows["l.ts"].to_pylist(), rows["r.ts"].to_pylist(), strict=True))
    return found


@pytest.mark.parametrize(
    "how",
    [
        {"k": 100, "cells": 1}, {"k": 0, "cells": 3, "idle_after": "2 s"},
        {"k": 50, "cells": 4, "hot_keys": {"l.a": [3, 7]}}, {"target": 0.9, "cells": 2},
        {"k": 100, "arrival": "tuple"},
    ],
    ids=["one cell", "idle", "hot keys", "adaptive", "by tuple"],
)  # fmt: skip
def test_blocks_tasks_and_reports_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any]
) -> None:
    at_once = replayed(None, 1, N, how)
    assert sum(at_once.values()) > 1000
    assert max(max(pair) for pair in at_once) < 10**9
    monkeypatch.setattr(replay, "ROWS_AT_ONCE", 64)
    assert replayed(None, 3, 100, how) == at_once
    # With a control log every tick is taken by itself.
    assert replayed(tmp_path, 2, 350, how) == at_once
