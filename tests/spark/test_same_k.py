"""An evaluation of recorded arrivals chooses the K that a streaming query chose in every batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from recalljoin.engine import Arrivals, arrivals_of
from recalljoin.experiments.setup import Setup
from recalljoin.experiments.tasks import Inputs, Task
from recalljoin.query import Query, Stream
from tests.spark.live import SECOND, WINDOW, Feed, Live, both

if TYPE_CHECKING:
    from pathlib import Path

    from recalljoin.quality import RunRecord

MINUTE = 60 * SECOND


def evaluated(feeds: list[Feed], setup: Setup) -> RunRecord:
    """What ``recalljoin evaluate`` does with the tuples that arrived, in its task on Spark."""
    streams = [Stream(name, window=WINDOW, arrival="at") for name in ("s0", "s1")]
    tables = {
        f"s{s}": pa.table({"ts": feed.ts, "a": feed.key, "at": feed.at})
        for s, feed in enumerate(feeds)
    }
    schemas = {name: table.schema for name, table in tables.items()}
    query = Query(streams=streams, condition="s0.a = s1.a", select="s0.ts AS one")
    target = setup.target(query)
    bound = Query(
        streams=streams, condition="s0.a = s1.a", select="s0.ts AS one", quality=target
    ).bind(schemas)
    inputs = Inputs(bound, tuple(tables), tuple(schemas.values()), (0, 1))
    arrivals: Arrivals = arrivals_of(bound, tables)
    return Task(inputs, setup).run(arrivals)


@pytest.mark.parametrize(
    ("batch", "policy", "minutes"),
    [
        (200, "slack", 3), (SECOND, "slack", 6), (2500, "slack", 8), (20 * SECOND, "slack", 30),
        (300, "percentile", 2), (300, "eqsel", 2), (700, "noneqsel", 2), (500, "max", 2),
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
    record = evaluated(feeds, setup)
    slacks = record.schedule.expanded().tolist()
    # The recording goes on after the last batch.
    assert len(set(live.k)) > 4
    assert live.k == slacks[: len(live.k)]
