"""What waiting would give: recall against delay, for a query and a sample of its streams.

Two ways to mind late tuples are compared. recalljoin holds tuples back for K, and a late tuple
still joins what comes after it: a result is produced iff K is larger than the slack it requires.
With results at once nothing is held back, and the same K says how long tuples are kept. Spark's own
inner join lets pairs out at once as well; it drops every row that is not newer than the watermark,
which trails the slowest stream by the delay given to ``withWatermark``: a result is produced iff
none of its members was dropped.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recalljoin.engine.ahead import AUTO, max_ahead_of
from recalljoin.engine.arrivals import Arrivals, arrivals_of
from recalljoin.engine.doubts import doubts_about
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.progress import Held
from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.slack_bins import ENOUGH
from recalljoin.engine.step import drain
from recalljoin.engine.times import NEVER
from recalljoin.errors import InvalidSetting
from recalljoin.quality.null_needs import need_of, precision_by_k
from recalljoin.quality.profiling import follow_tuples, no_clocks
from recalljoin.quality.settings import PolicySettings
from recalljoin.quality.source_lags import SourcePlan, sources_of
from recalljoin.query.durations import MAX_TIME, NANOSECONDS_PER, rounded
from recalljoin.query.html_table import html_table
from recalljoin.query.options import named_options
from recalljoin.query.stream_columns import tables_of, with_columns, with_usual_arrival
from recalljoin.query.text import stated_query

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.step import Step
    from recalljoin.query.bound_query import BoundQuery
    from recalljoin.query.durations import DurationLike, TimeUnit
    from recalljoin.query.model import Query

_LOG = logging.getLogger(__name__)

LEADS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995)
"""Shares of the time in which the join does not stop for a source; each is tried."""
RECALLS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0)
"""The recalls whose watermark delay is found, besides the recall asked for."""


@dataclass(frozen=True, repr=False)
class RecallCurve:
    """Recall of growing delays, in milliseconds."""

    delay_ms: tuple[float, ...]
    recall: tuple[float, ...]

    def needed(self, recall: float) -> float | None:
        """The smallest delay on the curve that reaches ``recall``; None if no delay does."""
        for delay, reached in zip(self.delay_ms, self.recall, strict=True):
            if reached >= recall:
                return delay
        return None

    def __repr__(self) -> str:
        if not self.delay_ms:
            return "<RecallCurve: empty>"
        waits = f"{rounded(self.delay_ms[0])} to {rounded(self.delay_ms[-1])}"
        return f"<RecallCurve: {waits} give {self.recall[0]:.4f} to {self.recall[-1]:.4f}>"


@dataclass(frozen=True)
class SourceAdvice:
    """The shortest wait with which the recall is reached, if the join waits for sources."""

    wait_ms: float
    """How far the join is behind the slowest stream, on average."""
    k_ms: float
    """The part of it that is waited all the time."""
    lead_ms: float | None
    """The join stops for a source that is further behind; None: it stops for no source."""


@dataclass(frozen=True, repr=False)
class Advice:
    """What a sample says about waiting."""

    recall: float
    """The recall asked for."""
    k_ms: float
    """K with which recalljoin reaches that recall over the whole sample."""
    watermark_ms: float
    """``withWatermark`` delay of every stream with which a plain Spark join reaches that recall."""
    largest_delay_ms: float
    """Delay of the latest tuple; with a K as long as this, every tuple would be waited for."""
    n_tuples: int
    n_results: int
    """True results of the sample."""
    slack: RecallCurve
    """Recall of recalljoin against K."""
    watermark: RecallCurve
    """Recall of a plain Spark join against the watermark delay, if every row came in a
    micro-batch of its own. Longer batches lose less: the watermark only moves between batches. The
    curve is about pairs, whatever the kind of join."""
    null_precision: float | None = None
    """Share asked for of the rows without a partner that are true; None where there are none."""
    nulls: RecallCurve | None = None
    """This share against K; ``k_ms`` is enough for it as well."""
    sources: SourceAdvice | None = None
    """What waiting for sources gives; None where the streams have none."""

    def __repr__(self) -> str:
        return (
            f"<Advice: for a recall of {self.recall:g} recalljoin waits {rounded(self.k_ms)}, "
            f"withWatermark needs {rounded(self.watermark_ms)}; {self.n_tuples:,} tuples, "
            f"{self.n_results:,} results>"
        )

    def _repr_html_(self) -> str:
        rows = []
        for recall in sorted({*RECALLS, self.recall}):
            waits = [curve.needed(recall) for curve in (self.slack, self.watermark)]
            rows.append([f"{recall:g}", *("-" if w is None else rounded(w) for w in waits)])
        title = f"{self.n_tuples:,} tuples, {self.n_results:,} results"
        head = ("recall", "K of recalljoin", "delay of withWatermark")
        return html_table(title, rows, head=head)

    def to_json(self) -> dict[str, Any]:
        """As numbers and lists."""
        return {
            "recall": self.recall,
            "k_ms": self.k_ms,
            "watermark_ms": self.watermark_ms,
            "largest_delay_ms": self.largest_delay_ms,
            "tuples": self.n_tuples,
            "results": self.n_results,
            "slack": {"delay_ms": self.slack.delay_ms, "recall": self.slack.recall},
            "watermark": {"delay_ms": self.watermark.delay_ms, "recall": self.watermark.recall},
            **self._nulls_json(),
            **({} if self.sources is None else {"sources": asdict(self.sources)}),
        }

    def _nulls_json(self) -> dict[str, Any]:
        if self.nulls is None:
            return {}
        curve = {"delay_ms": self.nulls.delay_ms, "precision": self.nulls.recall}
        return {"null_precision": self.null_precision, "nulls": curve}


@named_options
def advise(
    query: str | Query,
    inputs: Mapping[str, pa.Table] | None = None,
    *,
    recall: float | None = None,
    time: str | None = None,
    arrival: str | None = None,
    source: str | None = None,
    max_ahead: DurationLike | None = AUTO,
    time_unit: TimeUnit = "ms",
) -> Advice:
    """Say how long a join must wait for a recall, going by a recorded sample.

    Parameters
    ----------
    query
        Text or query; a few minutes of input are enough if they are like the rest.
    inputs
        The tuples of each stream, by its name, as :func:`recalljoin.sample` records them. Streams
        of a query may carry them themselves.
    recall
        Share of the true results wanted; by default what the query says, else 0.95.
    time
        Column with the event time, for all streams; by default what the query says (``ts``).
    arrival
        Column with the time or position of arrival, for all streams. By default what the query
        says, else ``arrival`` if every input has such a column; otherwise the tables are taken as
        arriving in step, row by row.
    source
        Column with the source of a tuple (a device, a sensor, a partition), for all streams; by
        default what the query says. With sources, the advice says what waiting for them gives.
    max_ahead, time_unit
        As in :func:`recalljoin.replay`.

    Raises
    ------
    InvalidSetting
        When the sample holds no result at all, or is no Arrow table.
    """
    stated = stated_query(query)
    others = "recalljoin.sample records DataFrames, `recalljoin advise` takes files"
    tables = tables_of(stated, inputs, otherwise=others)
    schemas = {name: table.schema for name, table in tables.items()}
    stated = with_columns(stated, time=time, arrival=arrival, source=source)
    stated = with_usual_arrival(stated, schemas)
    counted = replace(stated, select="count(*)")
    bound = counted.bind(schemas, time_unit=time_unit)
    settings = PolicySettings.of(bound)
    if recall is not None:
        precision = settings.null_precision
        if precision is not None and (bound.quality is None or precision == settings.recall):
            precision = recall
        settings = replace(settings, recall=recall, null_precision=precision)
    arrivals = arrivals_of(bound, tables, max_ahead=max_ahead_of(bound, max_ahead))
    for doubt in doubts_about(bound, arrivals):
        _LOG.warning("%s", doubt)
    return _Sample(bound, arrivals).advise(settings)


class _Sample:
    """Recorded arrivals, looked at once for each delay tried."""

    def __init__(self, query: BoundQuery, arrivals: Arrivals) -> None:
        self.query, self.arrivals = query, arrivals
        before = no_clocks(len(query.streams))
        arrived, clocks = follow_tuples(arrivals.stream, arrivals.ts, before=before)
        base = np.concatenate((np.array([NEVER]), clocks.base[:-1]))[: len(arrivals)]
        self.fronts = clocks.base
        self.largest_delay = int(arrived.delay.max(initial=0))
        # How far behind the slowest stream a tuple comes; the watermark delay must be larger.
        known = np.where(base == NEVER, arrivals.ts - 1, base)
        self.behind = known - arrivals.ts

    def advise(self, settings: PolicySettings) -> Advice:
        step = self._all_results()
        slack = step.slack[0]
        total = int(slack.sum())
        if not total:
            message = "the sample holds no result, so nothing can be said about recall"
            raise InvalidSetting(message)
        curve = _in_ms(ENOUGH[: len(slack)], np.cumsum(slack) / total, self.query.unit)
        pairs = total if self.query.how == "inner" else self._count()
        watermark = self._watermark_curve(settings.recall, pairs)
        k, delay = curve.needed(settings.recall), watermark.needed(settings.recall)
        assert k is not None, "the largest slack produces everything"
        nulls = None
        if settings.null_precision is not None and step.told is not None:
            share = precision_by_k(step.told.needs)
            nulls = _in_ms(ENOUGH[: len(share)], share, self.query.unit)
            least = np.array([need_of(step.told.needs, settings.null_precision)])
            k = max(k, *_in_ms(least, np.ones(1), self.query.unit).delay_ms)
        assert delay is not None, "the largest delay drops nothing"
        (largest,) = _in_ms(np.array([self.largest_delay]), np.ones(1), self.query.unit).delay_ms
        return Advice(
            settings.recall,
            k,
            delay,
            largest,
            len(self.arrivals),
            total,
            curve,
            watermark,
            settings.null_precision,
            nulls,
            self._with_sources(settings, slack),
        )

    def _with_sources(self, settings: PolicySettings, slack: Int64s) -> SourceAdvice | None:
        """The lead with the shortest wait, each with the slack that it needs in this sample."""
        numbers = sources_of(self.query, self.arrivals)
        if numbers is None:
            return None
        n = len(self.arrivals)
        ticks, ones = np.arange(n), np.ones(n, dtype=np.int64)
        fronts = self.fronts
        slowest, _ = (
            SourcePlan.of(settings).clocks().advance(ticks, numbers, self.arrivals.ts, ones, fronts)
        )
        known = (fronts != NEVER) & (slowest != NEVER)
        gaps = np.maximum(fronts[known] - slowest[known], 0)
        best = (float(self._need(slack, settings.recall)), self._need(slack, settings.recall), -1)
        for lead in np.unique(np.quantile(gaps, LEADS).astype(np.int64)).tolist() if n else []:
            pipeline = Pipeline(
                self.query, EngineSettings(arrival="tick", rows=False, lost=False, slack=True)
            )
            held = Held(slowest, np.full(n, lead, dtype=np.int64))
            drain(pipeline.push_ticks(self.arrivals, ticks, n_ticks=n, k=MAX_TIME, held=held))
            _, step = drain(pipeline.flush())
            need = self._need(step.slack[0], settings.recall)
            best = min(best, (need + float(np.maximum(gaps - lead, 0).mean()), need, lead))
        wait, k, lead = best
        unit = NANOSECONDS_PER[self.query.unit] / NANOSECONDS_PER["ms"]
        return SourceAdvice(wait * unit, k * unit, None if lead < 0 else lead * unit)

    @staticmethod
    def _need(slack: Int64s, recall: float) -> int:
        within = np.cumsum(slack)
        return int(ENOUGH[np.searchsorted(within, (recall - 1e-12) * within[-1])])

    def _all_results(self) -> Step:
        """All rows of the join, counted by required slack."""
        if self.query.how == "inner":
            return self._joined(self.arrivals, slack=True)
        pipeline = Pipeline(
            self.query, EngineSettings(arrival="tick", rows=False, lost=False, slack=True)
        )
        # Every tuple is a tick of its own, as it is where tuples arrive one by one.
        n = len(self.arrivals)
        drain(pipeline.push_ticks(self.arrivals, np.arange(n), n_ticks=n, k=MAX_TIME))
        _, step = drain(pipeline.flush())
        return step

    def _joined(self, arrivals: Arrivals, *, slack: bool = False) -> Step:
        pairs = replace(self.query, how="inner", emit="ordered")
        pipeline = Pipeline(pairs, EngineSettings(rows=False, lost=False, slack=slack))
        drain(pipeline.push(arrivals, k=MAX_TIME))
        _, step = drain(pipeline.flush())
        return step

    def _count(self, kept: NDArray[np.bool_] | None = None) -> int:
        """How many pairs the tuples kept make."""
        arrivals = self.arrivals if kept is None else _only(self.arrivals, kept)
        return int(self._joined(arrivals).n_join.sum())

    def _watermark_curve(self, recall: float, total: int) -> RecallCurve:
        """Recall of some delays of ENOUGH, among them the smallest that reaches each target."""
        found: dict[int, float] = {}

        def recall_of(place: int) -> float:
            if place not in found:
                found[place] = self._count(self.behind < ENOUGH[place]) / total if total else 1.0
            return found[place]

        all_of_it = int(np.searchsorted(ENOUGH, self.behind.max(initial=0), side="right"))
        for wanted in sorted({*RECALLS, recall}):
            too_few, enough = -1, all_of_it
            # With more delay more rows are kept, and no result disappears.
            while enough - too_few > 1:
                middle = (enough + too_few) // 2
                if recall_of(middle) >= wanted:
                    enough = middle
                else:
                    too_few = middle
            recall_of(enough)
        places = sorted(found)
        recalls = np.array([found[place] for place in places])
        return _in_ms(ENOUGH[places], recalls, self.query.unit)


def _only(arrivals: Arrivals, kept: NDArray[np.bool_]) -> Arrivals:
    """The input without some of its tuples."""
    stream = arrivals.stream[kept]
    row = np.empty(len(stream), dtype=np.int64)
    tables = []
    for s, table in enumerate(arrivals.tables):
        mine = stream == s
        row[mine] = np.arange(int(mine.sum()))
        tables.append(table.take(pa.array(arrivals.row[kept][mine])))
    return Arrivals(tuple(tables), stream, row, arrivals.ts[kept])


def _in_ms(delay: Int64s, recall: NDArray[np.float64], unit: TimeUnit) -> RecallCurve:
    ms = delay * (NANOSECONDS_PER[unit] / NANOSECONDS_PER["ms"])
    return RecallCurve(tuple(ms.tolist()), tuple(recall.tolist()))
