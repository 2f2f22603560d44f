"""What Spark's tasks do with a recording: run the join under a policy, or find the true results."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from pyspark import TaskContext

from recalljoin.engine.arrivals import Arrivals, arrivals_of, ticks_of
from recalljoin.engine.doubts import doubts_about
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.progress import marks_of
from recalljoin.engine.settings import EngineSettings
from recalljoin.errors import InvalidSetting, RecallJoinError
from recalljoin.experiments.packing import unpacked
from recalljoin.quality.adaptive import run_adaptive, run_replay, true_results
from recalljoin.quality.cell import Cell, Measures
from recalljoin.quality.replay import TickReplay
from recalljoin.quality.replayed import MOST_TICKS
from recalljoin.quality.settings import PolicySettings
from recalljoin.quality.source_lags import SourcePlan
from recalljoin.query.durations import NANOSECONDS_PER, DurationLike, in_unit, nanoseconds
from recalljoin.spark.cells import make_grid
from recalljoin.spark.shares import owned_by, shares_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from recalljoin.engine.arrays import Int64s
    from recalljoin.experiments.setup import Setup
    from recalljoin.quality.recall import Timeline
    from recalljoin.quality.record import RunRecord, Schedule
    from recalljoin.query.bound_query import BoundQuery

ANSWERS_DDL = "role int, body binary"
_WARM_UP = 2000
"""Number of tuples for a trial join that compiles the kernels."""
_SLICE = 1 << 16
"""Number of arrivals, or of ticks, pushed at once where rows are produced."""


@dataclass(frozen=True)
class Inputs:
    """What the blobs of a recording hold, and which streams the inputs are.

    Parameters
    ----------
    query
        The bound query.
    names
        Names of the inputs, in the order they were given.
    schemas
        For each input, the schema of its packed columns.
    of_streams
        For each stream of the query the number of its input.
    max_ahead
        How far a time may be ahead of its stream, in the query's unit; None for no limit.
    """

    query: BoundQuery
    names: tuple[str, ...]
    schemas: tuple[pa.Schema, ...]
    of_streams: tuple[int, ...]
    max_ahead: int | None = None

    def arrivals(self, batches: Iterable[pa.RecordBatch]) -> Arrivals:
        """The recording in order of arrival: ties by the order of inputs, then by row."""
        tables = unpacked(batches, list(self.schemas))
        named = {
            stream.name: tables[number]
            for stream, number in zip(self.query.streams, self.of_streams, strict=True)
        }
        arrivals = arrivals_of(self.query, named, max_ahead=self.max_ahead)
        if list(self.of_streams) == sorted(self.of_streams):
            return arrivals
        order = self._order_of_inputs(arrivals)
        return replace(
            arrivals,
            stream=arrivals.stream[order],
            row=arrivals.row[order],
            ts=arrivals.ts[order],
            arrival=None if arrivals.arrival is None else arrivals.arrival[order],
        )

    def _order_of_inputs(self, arrivals: Arrivals) -> Int64s:
        # In step, the first rows of all streams come first; rows with equal arrivals likewise.
        position = arrivals.row if arrivals.arrival is None else arrivals.arrival
        order: Int64s = np.lexsort((np.array(self.of_streams)[arrivals.stream], position))
        return order

    def clock(self, arrivals: Arrivals) -> Int64s | None:
        """When each tuple arrived, in the unit of the query; None if that is not known."""
        if arrivals.arrival is None or not self.knows_time(arrivals):
            return None
        clock: Int64s = arrivals.arrival // arrivals.arrival_units
        return clock

    def knows_time(self, arrivals: Arrivals) -> bool:
        """Whether arrival is a time and not a position.

        Timestamps are times. Integers that count 0, 1, 2, ... or 1, 2, 3, ... without a gap are
        positions, unless there is about one integer for each unit of time: then position and time
        are the same.
        """
        if arrivals.arrival is None:
            return False
        kinds = [s.schema.field(str(s.arrival)).type for s in self.query.streams]
        if any(pt.is_timestamp(kind) for kind in kinds) or not len(arrivals):
            return True
        # How many of the query's units make one unit of the integers.
        unit = NANOSECONDS_PER[self.query.time_unit] / NANOSECONDS_PER[self.query.unit]
        positions = arrivals.arrival // round(unit * arrivals.arrival_units)
        first, last = int(positions[0]), int(positions[-1])
        without_gap = first in (0, 1) and (np.diff(positions) <= 1).all()
        lasted = max(1.0, (int(arrivals.ts.max()) - int(arrivals.ts.min())) / unit)
        return not without_gap or 0.5 <= (last - first) / lasted <= 2


@dataclass(frozen=True)
class Task:
    """A job over a recording; the task of partition ``n`` plays role ``n``.

    Parameters
    ----------
    inputs
        What the blobs hold.
    setup
        The run.
    """

    inputs: Inputs
    setup: Setup

    def answer(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A function for mapInArrow: role 0 runs the join, role 1 finds the true results."""
        context = TaskContext.get()
        role = context.partitionId() if context is not None else 0
        answer: RunRecord | Timeline | RecallJoinError
        try:
            arrivals = self.inputs.arrivals(batches)
            if role == 0 and len(arrivals):
                # Kernels are compiled or loaded now, so that the join's time does not include it.
                self.run(arrivals.slice(0, _WARM_UP))
            if role == 0:
                notes = tuple(doubts_about(self.inputs.query, arrivals))
                answer = replace(self.run(arrivals), notes=notes)
            else:
                answer = self.truth(arrivals)
        except RecallJoinError as error:
            # The error is sent as an answer and raised by the reader, where Spark does not wrap it.
            answer = error
        yield pa.record_batch({
            "role": pa.array([role], pa.int32()),
            "body": pa.array([pickle.dumps(answer)], pa.binary()),
        })  # fmt: skip

    def truth(self, arrivals: Arrivals) -> Timeline:
        """All true results."""
        return true_results(self.inputs.query, arrivals)

    def run(self, arrivals: Arrivals) -> RunRecord:
        """Run the join under the policy; recall is measured by what the join itself counted."""
        setup, query = self.setup, self.inputs.query
        settings = PolicySettings.of(query)
        clock = self.inputs.clock(arrivals)
        policy = setup.make_policy(query)
        if setup.arrival_mode == "tuple":
            return run_adaptive(query, arrivals, policy, settings, clock=clock)
        length = self.tick_length(clock)
        if setup.by_batch is None:
            return run_adaptive(
                query, arrivals, policy, settings, arrival="tick", tick=length, clock=clock
            )
        engine = EngineSettings(
            arrival="tick",
            rows=False,
            slack=True,
        )
        grid = make_grid(query, setup.cells)
        cells = [
            Cell(
                Pipeline(query, engine),
                Measures.of(settings),
                owned=owned_by(grid, cell),
                whole=grid.n_cells == 1,
            )
            for cell in range(grid.n_cells)
        ]
        batch = self._units(setup.by_batch, "batch")
        shares = shares_of(query, grid, arrivals, ticks_of(arrivals, length))
        source = TickReplay(
            cells, arrivals, clock, length,
            batch=batch, shares=shares, sources=SourcePlan.of(settings),
        )  # fmt: skip
        return run_replay(source, policy, settings)

    def _units(self, length: DurationLike, name: str) -> int:
        return in_unit(nanoseconds(length, name=name), self.inputs.query.unit)

    def tick_length(self, clock: Int64s | None) -> int:
        """Length of a tick in the unit of the query, for tuples that arrived at ``clock``."""
        if clock is None:
            message = (
                "`tick` and `batch` cut slices of arrival time, but `arrival` counts positions: "
                "it is 1, 2, 3, ... without a gap; give the times tuples arrived at (as "
                "timestamps, if these are such times), or let tuples arrive one by one"
            )
            raise InvalidSetting(message)
        length = self._units(self.setup.tick, "tick")
        if len(clock) and (clock[-1] - clock[0]) // length > MOST_TICKS:
            message = (
                f"`tick` {self.setup.tick!r} cuts the recording into more than {MOST_TICKS:,} "
                "slices; give a longer one"
            )
            raise InvalidSetting(message)
        return length


@dataclass(frozen=True)
class RowsTask:
    """Produces the results of a run whose K is known: the task of partition ``n`` is cell ``n``.

    Parameters
    ----------
    task
        The run.
    schedule
        K at each step of the run.
    retention
        The longest time for which the run remembered tuples.
    """

    task: Task
    schedule: Schedule
    retention: int | None = None

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A function for mapInArrow that produces the results."""
        context = TaskContext.get()
        cell = context.partitionId() if context is not None else 0
        inputs, setup = self.task.inputs, self.task.setup
        arrivals = inputs.arrivals(batches)
        k = self.schedule.expanded()
        # Which tuples leave without a partner depends on losses, and so on how long is remembered.
        counts_lost = inputs.query.how != "inner"
        engine = EngineSettings(
            arrival=setup.arrival_mode,
            lost=counts_lost,
            retention=self.retention if counts_lost else None,
        )
        pipeline = Pipeline(inputs.query, engine)
        if setup.arrival_mode == "tuple":
            for begin in range(0, len(arrivals), _SLICE):
                end = min(begin + _SLICE, len(arrivals))
                yield from pipeline.push(arrivals.slice(begin, end), k=k[begin:end])
        else:
            yield from self._ticks(pipeline, arrivals, k, cell)
        yield from pipeline.flush()

    def _ticks(
        self, pipeline: Pipeline, arrivals: Arrivals, k: Int64s, cell: int
    ) -> Iterator[pa.RecordBatch]:
        inputs, setup = self.task.inputs, self.task.setup
        tick = ticks_of(arrivals, self.task.tick_length(inputs.clock(arrivals)))
        m = len(inputs.query.streams)
        marks = marks_of(tick, arrivals.stream, arrivals.ts, n_ticks=len(k), m=m)
        share = shares_of(inputs.query, make_grid(inputs.query, setup.cells), arrivals, tick)[cell]
        for begin in range(0, len(k), _SLICE):
            end = min(begin + _SLICE, len(k))
            part, ticks, _ = share.between(begin, end)
            yield from pipeline.push_ticks(
                part,
                ticks,
                n_ticks=end - begin,
                k=k[begin:end],
                marks=marks[begin:end],
            )


def read_answer(body: bytes) -> Any:
    """The answer of a task; an error of the task is raised here."""
    answer = pickle.loads(body)
    if isinstance(answer, RecallJoinError):
        raise answer
    return answer
