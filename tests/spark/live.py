"""A streaming query without a JVM: planned, cut into batches and restarted as Spark would do it.

The plan is the one that Spark would be given, the control source decides K and horizon of every
batch from the control log, and the cells join it. Only the order in which Spark calls all of them
is played here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType

from recalljoin.quality.recall import Timeline
from recalljoin.query.bound_query import PARTITION, RESULT_TIME
from recalljoin.query.model import Query, Stream
from recalljoin.query.quality import Quality
from recalljoin.spark.control import ControlReader
from recalljoin.spark.control_log import ControlLog
from recalljoin.spark.delivery import deliver
from recalljoin.spark.options import RunSettings
from recalljoin.spark.planning import plan_join
from recalljoin.spark.progress import progress_table
from recalljoin.spark.sealed import Sealed
from tests.spark.local_cells import Cells

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.datasource import ReadLimit

    from recalljoin.engine.arrays import Float64s, Int64s

SECOND = 1000
MINUTE = 60 * SECOND
WINDOW = SECOND
NO_LIMIT: ReadLimit = cast("ReadLimit", None)
SCHEMA = pa.schema({"ts": pa.int64(), "a": pa.int64()})


@dataclass(frozen=True)
class Feed:
    """Tuples of a stream in the order of their arrival."""

    ts: Int64s
    key: Int64s
    at: Int64s
    device: Int64s | None = None
    """Sources, where tuples have some."""

    @classmethod
    def of(cls, ts: Int64s, key: Int64s, at: Int64s, device: Int64s | None = None) -> Feed:
        """Tuples in any order."""
        order = np.argsort(at, kind="stable")
        sources = None if device is None else device[order]
        return cls(ts[order], key[order], at[order], sources)

    def between(self, begin: int, end: int) -> pa.Table:
        """Those that arrive from ``begin`` to before ``end``."""
        part = slice(*np.searchsorted(self.at, [begin, end]))
        table = pa.table({"ts": self.ts[part], "a": self.key[part]}, schema=SCHEMA)
        if self.device is None:
            return table
        return table.append_column("device", pa.array(self.device[part]))

    def then(self, other: Feed) -> Feed:
        """Both."""
        pairs = ((self.ts, other.ts), (self.key, other.key), (self.at, other.at))
        return Feed.of(*(np.concatenate(pair) for pair in pairs))


def steady(
    seed: int,
    length: int,
    *,
    every: int = 100,
    late: float = 0.2,
    mean: float = 8 * SECOND,
    n_keys: int = 4,
) -> Feed:
    """A tuple every so often, some of them late by times that are exponential."""
    random = np.random.default_rng(seed)
    ts = np.arange(0, length, every) + random.integers(0, every, -(-length // every))
    is_late = random.random(len(ts)) < late
    delay = np.where(is_late, random.exponential(mean, len(ts)), 0).astype(np.int64)
    return Feed.of(ts, random.integers(0, n_keys, len(ts)), ts + delay)


def both(seed: int, length: int, **more: Any) -> list[Feed]:
    """Two such streams."""
    return [steady(2 * seed, length, **more), steady(2 * seed + 1, length, **more)]


@dataclass(frozen=True)
class Truth:
    """All results by brute force: their time, and when their last member arrived."""

    ts: Int64s
    at: Int64s

    @classmethod
    def of(cls, feeds: list[Feed], window: int = WINDOW) -> Truth:
        """Pairs of equal keys within the window of each other."""
        one, two = feeds
        found: list[tuple[Int64s, Int64s]] = []
        for key in np.unique(one.key).tolist():
            mine, other = (np.flatnonzero(each.key == key) for each in (one, two))
            other = other[np.argsort(two.ts[other], kind="stable")]
            times = two.ts[other]
            first = np.searchsorted(times, one.ts[mine] - window, side="left")
            n = np.searchsorted(times, one.ts[mine] + window, side="right") - first
            left = np.repeat(mine, n)
            begin = np.repeat(first - np.concatenate(([0], np.cumsum(n)[:-1])), n)
            right = other[begin + np.arange(len(left))]
            found.append(
                (np.maximum(one.ts[left], two.ts[right]), np.maximum(one.at[left], two.at[right]))
            )
        ts, at = (np.concatenate(each) for each in zip(*found, strict=True))
        order = np.argsort(ts, kind="stable")
        return cls(ts[order], at[order])

    def timeline(self) -> Timeline:
        """By their time."""
        return Timeline.of(self.ts, np.ones(len(self.ts), dtype=np.int64))

    def n_arrived(self, begin: int, end: int, now: int) -> int:
        """Results of times in ``(begin, end]`` of which all members have arrived."""
        part = slice(*np.searchsorted(self.ts, [begin, end], side="right"))
        return int((self.at[part] < now).sum())


def _frame(schema: StructType, **more: Any) -> Any:
    """What is asked of a streaming DataFrame before it runs."""
    session = SimpleNamespace(conf=SimpleNamespace(get=lambda _: "UTC"))
    return SimpleNamespace(schema=schema, isStreaming=True, sparkSession=session, **more)


class Live:
    """A join of two streams that runs, stops and starts again.

    Parameters
    ----------
    folder
        Of the control log.
    feeds
        What arrives.
    period
        P, in ms.
    window
        Of both streams, in ms.
    quality
        More of the target.
    source
        Column with the source of a tuple.
    partitions
        Whether the device of a tuple is the partition of its message, which no query names.
    cells
        Number of cells.
    run
        How it is run.
    """

    def __init__(
        self,
        folder: Path,
        feeds: list[Feed],
        *,
        recall: float | None = 0.95,
        period: int = MINUTE,
        window: int = WINDOW,
        quality: dict[str, Any] | None = None,
        source: str | None = None,
        partitions: bool = False,
        cells: int = 1,
        **run: Any,
    ) -> None:
        self.log = str(folder)
        self.every_batch = ControlLog(f"{folder}-batches")
        self.feeds = feeds
        self.period, self.target = period, recall
        self._query = Query(
            streams=[Stream(name, window=window, source=source) for name in ("s0", "s1")],
            condition="s0.a = s1.a",
            select="s0.ts AS one",
            quality=None
            if recall is None
            else Quality(recall=recall, period=period, **(quality or {})),
        )
        self._run = RunSettings(cells=cells, control_log=self.log, **{"hot_keys": "off"} | run)
        self.partitions = partitions
        self.truth = Truth.of(feeds, window)
        self.now = 0
        self.k: list[int] = []
        self.phases: list[str | None] = []
        self.at: list[int] = []
        """When each batch ended."""
        self.watermarks: list[int] = []
        self._produced: list[Int64s] = []
        self._cells: Cells | None = None
        self._offset: dict[str, Any] | None = None
        self.start()

    def start(self, *, cells: int | None = None) -> None:
        """Start, or start again from the checkpoint, in another number of cells if it is given."""
        if cells is not None:
            self._run = replace(self._run, cells=cells)
        schema = StructType().add("ts", LongType()).add("a", LongType())
        if self.feeds[0].device is not None:
            schema = schema.add("device", LongType())
        frame = _frame(schema)
        if self.partitions:
            told = StructType([*schema, StructField(PARTITION, StringType())])
            frame = _frame(told, drop=lambda *_: _frame(schema))
        frames = {name: cast("DataFrame", frame) for name in ("s0", "s1")}
        plan = plan_join(
            self._query, frames, self._run, n_cells=1, n_groups=1, control_log=self.log
        )
        self.plan = plan
        started = Cells(plan.cells)
        if self._cells is not None:
            started.stores, started.n_batches = self._cells.stores, self._cells.n_batches
        self._cells = started
        self._source = ControlReader(Sealed.of(plan.control(flush=False)))
        self._offset = self._offset or self._source.initialOffset()

    def run(self, until: int, *, batch: int) -> Live:
        """Read what arrives until some time, in batches of that length."""
        while self.now < until:
            end = min(self.now + batch, until)
            tables = [self._arriving(feed, self.now, end) for feed in self.feeds]
            if any(table.num_rows for table in tables):
                self._batch(tables, end)
            self.now = end
        return self

    def run_empty(self) -> None:
        """A batch without a tuple, as the first one of a run may be."""
        self._batch([self._arriving(feed, self.now, self.now) for feed in self.feeds], self.now)

    def _arriving(self, feed: Feed, begin: int, end: int) -> pa.Table:
        table = feed.between(begin, end)
        if not self.partitions:
            return table
        names = table.column("device").cast(pa.string())
        return table.append_column(PARTITION, names)

    def _batch(self, tables: list[pa.Table], end: int) -> None:
        assert self._cells is not None
        assert self._offset is not None
        after = self._source.latestOffset(self._offset, NO_LIMIT)
        (part,) = self._source.partitions(self._offset, after)
        _, _, head, body = next(iter(self._source.read(part)))
        control = deliver(self._cells.plan.query, [(head, body)]).control
        results, report = self._cells.batch(tables, control=control)
        # The log of the join rolls old batches up; here every batch is kept.
        self.every_batch.write_report(replace(report, cell=0, n_cells=1))
        self._offset = after
        self.k.append(report.k)
        self.phases.append(report.phase)
        self.at.append(end)
        self.watermarks.append(report.watermark)
        self._produced += [each.column(RESULT_TIME).to_numpy() for each in results]

    @property
    def produced(self) -> Timeline:
        """Results by their time."""
        ts = np.concatenate([np.empty(0, dtype=np.int64), *self._produced])
        return Timeline.of(ts, np.ones(len(ts), dtype=np.int64))

    def recalls(self, begin: int, end: int | None = None, *, step: int = SECOND) -> Float64s:
        """True recall over every period that lies between two event times."""
        end = self.watermarks[-1] if end is None else min(end, self.watermarks[-1])
        ends = np.arange(begin + self.period, end, step)
        true = self.truth.timeline().count(ends - self.period, ends)
        found = self.produced.count(ends - self.period, ends)
        return found[true > 0] / true[true > 0]

    def recall(self, begin: int, end: int | None = None) -> float:
        """True recall of all results between two event times."""
        upto = np.array([self.watermarks[-1] if end is None else end])
        after = np.array([begin])
        return float(
            self.produced.count(after, upto)[0] / self.truth.timeline().count(after, upto)[0]
        )

    def progress(self) -> Progress:
        """What is reported, and what is true."""
        return Progress.of(self)

    def after(self, begin: int, values: Iterable[Any]) -> list[Any]:
        """Of what there is for each batch, that of batches that ended after some time."""
        return [value for at, value in zip(self.at, values, strict=True) if at > begin]


@dataclass(frozen=True)
class Progress:
    """What was reported after each batch beside the truth; not a number for nothing."""

    at: Int64s
    recall: Float64s
    at_least: Float64s
    settled: Float64s
    true: Float64s
    """Recall over the last period, over all results."""
    true_so_far: Float64s
    """The same over the results whose members had arrived."""

    @classmethod
    def of(cls, live: Live) -> Progress:
        """Of all batches so far."""
        table = progress_table(live.every_batch)
        names = ("recall", "recall_at_least", "recall_settled")
        recall, at_least, settled = (table[name].to_numpy().astype(np.float64) for name in names)
        until = np.array(live.watermarks)
        # Periods are cut at whole buckets.
        bucket = max(1, live.period // 1000)
        after = ((until - live.period) // bucket + 1) * bucket - 1
        n = live.produced.count(after, until).astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            true = n / live.truth.timeline().count(after, until)
            so_far = [
                m / np.float64(live.truth.n_arrived(begin, end, at))
                for m, at, begin, end in zip(n, live.at, after, until, strict=True)
            ]
        return cls(np.array(live.at), recall, at_least, settled, true, np.array(so_far))

    def since(self, begin: int) -> NDArray[np.bool_]:
        """Batches after some time of which recall is reported and true."""
        return (self.at > begin) & ~np.isnan(self.recall) & ~np.isnan(self.true)
