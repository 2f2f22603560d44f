"""One operator instance from arrivals to results: the only file that knows all parts.

    arrivals -> intake -> disorder handling -> join operator -> output

The pipeline holds the tuples that wait in buffers; every other part knows a tuple by its number.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from recalljoin.engine.arrivals import Arrivals
from recalljoin.engine.disorder import Released, TickDisorder, TupleDisorder, slack_in_effect
from recalljoin.engine.folding import Folded
from recalljoin.engine.intake import Intake
from recalljoin.engine.limits import check_counts
from recalljoin.engine.operator import JoinOperator
from recalljoin.engine.output import Output, ResultForm, put_out
from recalljoin.engine.payload import Payload, size_of
from recalljoin.engine.pending import Pending
from recalljoin.engine.progress import Advance, Clocks, Progress, marks_of
from recalljoin.engine.queues import held_by_queue, held_ids
from recalljoin.engine.received import Received
from recalljoin.engine.rings import END, FIRST, NONE, Sequence
from recalljoin.engine.settings import EngineSettings, check_duration, slack_of
from recalljoin.engine.step import Step
from recalljoin.engine.times import NEVER
from recalljoin.engine.upkeep import clean_up
from recalljoin.engine.verdicts import told_of
from recalljoin.errors import InvalidSetting
from recalljoin.query.kinds import tick_only_faults

if TYPE_CHECKING:
    from collections.abc import Generator

    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.progress import Held, Remembered
    from recalljoin.query.bound_query import BoundQuery


class Pipeline:
    """One complete operator instance.

    Parameters
    ----------
    query
        The bound query.
    settings
        What the pipeline does besides joining.
    """

    def __init__(self, query: BoundQuery, settings: EngineSettings | None = None) -> None:
        self.query = query
        self.settings = settings = settings or EngineSettings()
        self.m = m = len(query.streams)
        if settings.arrival == "tuple":
            faults = list(tick_only_faults(query.how, query.emit))
            if faults:
                raise InvalidSetting("; ".join(faults))
        rows = settings.rows and not query.counts_only
        self.intake = Intake(query, rows=rows or query.how != "inner")
        retention = max(stream.window for stream in query.streams)
        if settings.retention is not None:
            retention = settings.retention
        self.output: ResultForm | None = None
        if rows:
            self.output = Folded(query) if settings.folded else Output(query)
        self.payloads = [Payload(self._kept_schema(s)) for s in range(m)]
        self.operator = JoinOperator(
            self.intake.plan,
            self.intake.conditions(lambda s, name, at: self.payloads[s].column(name, at)),
            retention=retention if settings.lost else 0,
            rows=rows,
            in_order=not settings.folded or settings.arrival == "tuple",
            with_lost=settings.lost,
            with_slack=settings.slack,
            n_values=self.intake.n_values,
            how=query.how,
            # Whether results leave at once or in order, their number is the same.
            eager=rows and query.emit == "eager",
        )
        self.tuples = TupleDisorder(m)
        self.ticks = TickDisorder(m)
        self.progress = Progress(m)
        self.n_arrived = np.zeros(m, dtype=np.int64)
        self.pending = self._prepared(Arrivals.none((pa.table({}),) * m))
        self._next_forget = 0

    def _kept_schema(self, s: int) -> pa.Schema:
        schema = self.query.streams[s].columns
        names = set(self.intake.condition_columns(s))
        if self.output is not None:
            names.update(self.output.columns_of(s))
        return pa.schema([schema.field(name) for name in schema.names if name in names])

    @property
    def disorder(self) -> TupleDisorder | TickDisorder:
        """The disorder handling of this pipeline's mode of arrival."""
        return self.tuples if self.settings.arrival == "tuple" else self.ticks

    @property
    def n_buffered(self) -> int:
        """Number of tuples that wait in buffers for earlier tuples."""
        return self.disorder.n_buffered

    @property
    def n_kept(self) -> int:
        """Tuples in windows and retention horizon."""
        return self.operator.windows.n_kept

    @property
    def kept_bytes(self) -> int:
        """Size of the tuples in windows and horizon, with the columns that travel with each."""
        table = self.operator.windows.rings.table
        held = table[:, END] - table[:, FIRST]
        return size_of(held, self.payloads, self.operator.windows.bytes_each)

    @property
    def buffered_bytes(self) -> int:
        """Size of the tuples that wait in buffers, with the columns that travel with each."""
        # In tuple mode every stream has two buffers.
        held = held_by_queue(self.disorder.queues).reshape(-1, self.m).sum(axis=0)
        return size_of(held, self.payloads, self.pending.bytes_each)

    @property
    def retention(self) -> int:
        """How long a tuple is kept after it has left its window, to count lost results with."""
        return self.remembered.retention

    @property
    def remembered(self) -> Remembered:
        """How far back tuples are kept, and from which time on none is missing."""
        return self.operator.windows.remembered

    @property
    def clocks(self) -> Clocks:
        """How far the streams have come (tick arrival)."""
        return Clocks.of(self.progress)

    def waiting(self) -> tuple[NDArray[np.int8], Int64s]:
        """Streams and row numbers of the tuples held back."""
        held, _ = held_ids(self.disorder.queues)
        return self.pending.stream[held], self.pending.row[held]

    def oldest_row(self, s: int) -> int:
        """Smallest row number of a stream's tuples that are held back, or in window or horizon."""
        stream, row = self.waiting()
        windows = self.operator.windows
        rows = np.concatenate((row[stream == s], windows.rows_at(windows.places_of(s))))
        return int(rows.min(initial=self.n_arrived[s]))

    def remember_for(self, retention: int) -> None:
        """Change how long tuples are kept behind their windows, from here on.

        Forgotten tuples stay forgotten. The old retention reached back to some time; after it has
        grown, late tuples from before that time are beyond the horizon as before.
        """
        check_duration("retention", retention)
        if self.settings.lost:
            changed = self.remembered.changed(retention, self.join_time)
            self.operator.windows.remembered = changed

    def push(self, arrivals: Arrivals, *, k: int | Int64s) -> Generator[pa.RecordBatch, None, Step]:
        """Let tuples arrive one by one (per-tuple arrival).

        Yields the results in chunks and returns the step. ``k`` is the slack: one number, or a
        number for each arrival. A change takes effect at the next release.
        """
        self._expect("tuple")
        first_id = len(self.pending.ts)
        slack = slack_of(k, len(arrivals))
        new = self._prepared(arrivals)
        released, annotations = self.tuples.push(arrivals.stream, arrivals.ts, first_id, k=slack)
        new = new._replace(delay=annotations.delay, base=annotations.base)
        self.pending = self.pending.extended(new)
        in_effect = None
        if self.settings.slack:
            in_effect = slack_in_effect(released, annotations, slack, self.base_time)
        step = yield from self._join(released, in_effect)
        return step

    def push_ticks(
        self,
        arrivals: Arrivals,
        tick: Int64s,
        *,
        n_ticks: int,
        k: int | Int64s,
        marks: Int64s | None = None,
        idle: NDArray[np.bool_] | None = None,
        release: int = NEVER,
        held: Held | None = None,
    ) -> Generator[pa.RecordBatch, None, Step]:
        """Let whole ticks arrive (tick arrival).

        Parameters
        ----------
        arrivals
            The tuples, in any order within a tick.
        tick
            For each tuple its tick, from 0 to before ``n_ticks``, never falling.
        n_ticks
            Ticks that pass, with or without tuples.
        k
            Slack: one number, or a number for each tick.
        marks
            ``[tick, stream]`` largest timestamps, over the tuples of all instances.
        idle
            ``[tick, stream]`` streams that do not hold other streams back.
        release
            Time up to which all tuples are released, whichever stream is behind.
        held
            How the slowest source holds the join up, where streams have sources.
        """
        self._expect("tick")
        # Within a tick tuples count by stream, then arrival.
        order = np.lexsort((arrivals.stream, tick))
        tick = tick[order]
        arrivals = Arrivals(
            arrivals.tables, arrivals.stream[order], arrivals.row[order], arrivals.ts[order]
        )
        if marks is None:
            marks = marks_of(tick, arrivals.stream, arrivals.ts, n_ticks=n_ticks, m=self.m)
        slack = slack_of(k, n_ticks)
        advance = self.progress.advance(marks, slack, idle=idle, release=release, held=held)
        step = yield from self._push_advance(arrivals, tick, advance)
        return step

    def flush(self) -> Generator[pa.RecordBatch, None, Step]:
        """End of a bounded input: all buffered tuples are joined."""
        if self.settings.arrival == "tuple":
            released = self.tuples.flush()
            # No slack is in effect at the end of the input, where all tuples leave together.
            in_effect = np.zeros(len(released.id), dtype=np.int64)
            step = yield from self._join(released, in_effect)
        else:
            nothing = Arrivals.none(tuple(p.to_table().slice(0, 0) for p in self.payloads))
            step = yield from self._push_advance(
                nothing, np.empty(0, dtype=np.int64), self.progress.finish()
            )
        return step

    def _push_advance(
        self, arrivals: Arrivals, tick: Int64s, advance: Advance
    ) -> Generator[pa.RecordBatch, None, Step]:
        first_id = len(self.pending.ts)
        new = self._prepared(arrivals)
        local = advance.local_before[tick, arrivals.stream]
        delay = np.where(local > arrivals.ts, local - arrivals.ts, 0)
        new = new._replace(delay=delay, base=advance.base_before[tick])
        released = self.ticks.push(
            tick,
            arrivals.stream,
            arrivals.ts,
            first_id,
            before=advance.watermark_before,
            watermarks=advance.watermarks,
        )
        self.pending = self.pending.extended(new)
        if self.operator.accounts is not None:
            step = yield from self._join_at_arrival(first_id, tick, advance, released)
        else:
            step = yield from self._join(released)
        span = advance.largest_span(tick, arrivals.ts)
        return replace(step, tick_span=span, fronts=advance.fronts, watermarks=advance.watermarks)

    def _expect(self, arrival: str) -> None:
        if self.settings.arrival != arrival:
            message = (
                f"this pipeline is set to `arrival={self.settings.arrival!r}`, not {arrival!r}"
            )
            raise InvalidSetting(message)

    def _prepared(self, arrivals: Arrivals) -> Pending:
        """New tuples with their keys and values; delay and base time are not known yet."""
        n = len(arrivals)
        codes = np.zeros((len(self.query.classes), n), dtype=np.int64)
        values = np.zeros((self.intake.n_values, n))
        joinable = np.ones(n, dtype=np.bool_)
        row = np.zeros(n, dtype=np.int64)
        for s, table in enumerate(arrivals.tables):
            (mine,) = np.nonzero(arrivals.stream == s)
            if not len(mine):
                continue
            taken = self.intake.take(s, table)
            places = arrivals.row[mine]
            codes[:, mine] = taken.codes[:, places]
            values[:, mine] = taken.values[:, places]
            joinable[mine] = taken.joinable[places]
            row[mine] = self.n_arrived[s] + places
            self.operator.exact &= taken.exact
            self.n_arrived[s] += table.num_rows
            if self.payloads[s].schema.names:
                self.payloads[s].append(table)
        unknown = np.zeros(n, dtype=np.int64)
        return Pending(
            arrivals.stream, arrivals.ts, row, unknown, unknown, joinable, unknown, codes, values
        )

    def _join(
        self, released: Released, in_effect: Int64s | None = None
    ) -> Generator[pa.RecordBatch, None, Step]:
        part = self.pending.taken(released.id)
        lost_base = part.base
        if in_effect is not None:
            # The join may pass a tuple while the tuple waits in K-slack. Counted from the base time
            # of the arrival, its lost results would need less slack than was in effect.
            lost_base = np.maximum(part.base, released.now + in_effect)
        sequence = Sequence(
            part.stream, part.ts, released.now, part.base, lost_base, part.row, released.late,
            part.joinable, part.codes,
        )  # fmt: skip
        chunks = self.operator.receive(sequence, part.values, self.join_time)
        received = yield from put_out(chunks, self.output, self.payloads)
        check_counts(self.query, sequence, received.n_join)
        return self._step(part, released, received)

    def _join_at_arrival(
        self, first_id: int, tick: Int64s, advance: Advance, released: Released
    ) -> Generator[pa.RecordBatch, None, Step]:
        """Join new tuples at once; what is told is about the tuples that the watermark passes."""
        accounts = self.operator.accounts
        assert accounts is not None
        n, windows = len(tick), self.operator.windows
        # By tick, time, stream and arrival; within a tick tuples are by stream and arrival here.
        order = np.lexsort((self.pending.ts[first_id:], tick))
        missed = np.append(advance.watermark_before, advance.watermarks)[tick[order]]
        part = self.pending.taken(first_id + order)
        sequence = Sequence(
            part.stream, part.ts, missed, part.base, part.base, part.row, part.ts <= missed,
            part.joinable, part.codes,
        )  # fmt: skip
        chunks = self.operator.receive(sequence, part.values, self.join_time)
        arrived = yield from put_out(chunks, self.output, self.payloads)
        self.pending.position[first_id : first_id + n][order] = arrived.position
        part = self.pending.taken(released.id)
        records = windows.records_at(part.stream, part.position)
        received = Received(
            n_join=np.where(part.position == NONE, 0, accounts.counted(records)),
            n_cross=accounts.cross(part.stream, part.ts, released.now, released.late),
            beyond=np.zeros(len(part.ts), dtype=np.bool_),
            position=part.position,
            lost=arrived.lost,
        )
        edge = np.maximum(self.remembered.since, released.now - self.remembered.retention)
        received.beyond[:] = released.late & (part.ts < edge)
        accounts.release(self.join_time, self.operator.slack)
        return self._step(part, released, received)

    def _step(self, part: Pending, released: Released, received: Received) -> Step:
        """What is told of tuples that reached the join."""
        told = told_of(self.operator.verdicts, self.payloads)
        lost_ts, lost_n = received.lost_ts, received.lost_n
        if told is not None:
            ts, n = told.lost
            lost_ts, lost_n = np.concatenate((lost_ts, ts)), np.concatenate((lost_n, n))
        step = Step(
            part.stream, part.ts, part.row, part.delay, part.base, released.now, released.late,
            received.n_join, received.n_cross, received.beyond, lost_ts, lost_n,
            self.operator.take_slack(), self.join_time, self.base_time,
            self.remembered.counted_since(self.join_time),
            n_uncomputable=self.intake.take_uncomputable(),
            told=told,
        )  # fmt: skip
        self._next_forget = clean_up(self, self._next_forget)
        return step

    @property
    def join_time(self) -> int:
        """How far the join has come: its largest timestamp, or the watermark in tick mode."""
        if self.settings.arrival == "tuple":
            return self.tuples.join_time
        return self.progress.watermark

    @property
    def base_time(self) -> int:
        """Local time of the slowest stream."""
        if self.settings.arrival == "tuple":
            return self.tuples.base_time
        return self.progress.base_time

    @property
    def front(self) -> int:
        """Clock of the slowest stream; the base time may wait for a source behind it."""
        return self.base_time if self.settings.arrival == "tuple" else self.progress.front

    @property
    def local_times(self) -> Int64s:
        """Largest timestamp that has arrived in each stream."""
        if self.settings.arrival == "tuple":
            return self.tuples.local_times.copy()
        return self.progress.local_times.copy()
