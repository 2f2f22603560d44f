"""Runs a query over recorded streams on Spark and measures recall against the true results."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from recalljoin.engine.ahead import AUTO, max_ahead_of
from recalljoin.engine.output import Output
from recalljoin.errors import InvalidQuery, InvalidSetting
from recalljoin.experiments.files import FILE, START, read_frame
from recalljoin.experiments.packing import PIECES_DDL, packed
from recalljoin.experiments.session import local_session
from recalljoin.experiments.setup import Setup
from recalljoin.experiments.tasks import ANSWERS_DDL, Inputs, RowsTask, Task, read_answer
from recalljoin.query.kinds import SOURCES_IN_TICKS, tick_only_faults
from recalljoin.query.sources import arrow_schema
from recalljoin.query.stream_columns import with_columns, with_usual_arrival
from recalljoin.query.text import stated_query
from recalljoin.spark.cells import make_grid
from recalljoin.spark.columns import computed_schemas, quoted, selected, with_computed
from recalljoin.spark.packing import needed_schema

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from recalljoin.quality.recall import Timeline
    from recalljoin.quality.record import RunRecord
    from recalljoin.query.bound_query import BoundQuery
    from recalljoin.query.durations import DurationLike, TimeUnit
    from recalljoin.query.model import Query, Stream

    Source = str | Path | DataFrame

_LOG = logging.getLogger(__name__)


@dataclass
class RecordedJoin:
    """A query and the recorded streams that it joins; made by :func:`open_recording`.

    It may be evaluated many times, and by several threads at once.
    """

    spark: SparkSession
    query: Query
    schemas: Mapping[str, pa.Schema]
    """Columns of each input."""
    pieces: DataFrame
    """The inputs, packed."""
    of_streams: tuple[int, ...]
    """For each stream of the query the number of its input."""
    max_ahead: int | None = None
    """How far a time may be ahead of its stream, in the query's unit; None for no limit."""
    time_unit: TimeUnit = "ms"
    """Unit of integer times."""
    computed: Mapping[str, pa.Schema] = field(default_factory=dict)
    """For each stream the columns that Spark computes for the condition."""
    _truth: Timeline | None = field(default=None, repr=False)

    def bind(self, setup: Setup) -> BoundQuery:
        """The query with the target of a run."""
        stated = replace(self.query, quality=setup.target(self.query))
        return stated.bind(self.schemas, time_unit=self.time_unit, computed=self.computed)

    def evaluate(
        self,
        setup: Setup | None = None,
        *,
        truth: bool | Timeline = True,
        output: str | Path | None = None,
    ) -> RunRecord:
        """Run the query once.

        Parameters
        ----------
        setup
            Target, policy, and how tuples arrive.
        truth
            What recall is measured against. True: all true results, found beside the run and kept
            for later runs. A timeline: the results in it. False: the results that the run itself
            produced or counted as lost; this is faster, and misses only results of tuples beyond
            the retention horizon.
        output
            Folder for the results as Parquet; needs the mode ``"rows"``.

        Raises
        ------
        InvalidQuery
            When the query or its target is at fault; the message names every fault.
        InvalidSetting
            When the setup does not fit the recording.
        """
        setup = setup or Setup()
        task = Task(self._inputs(self.bind(setup)), setup)
        self._check(task, output)
        known = self._truth if isinstance(truth, bool) else truth
        answers = self._ask(task, n_roles=2 if truth is True and known is None else 1)
        record: RunRecord = answers[0]
        for note in record.notes:
            _LOG.warning("%s", note)
        if len(answers) == 2:
            known = self._truth = answers[1]
        if truth is not False and known is not None:
            record = record.against(known)
        if setup.mode == "rows":
            self._make_rows(task, record, output)
        return record

    def truth(self) -> Timeline:
        """All true results by their time; found once."""
        if self._truth is None:
            task = Task(self._inputs(self.bind(Setup())), Setup())
            self._truth = self._ask(task, n_roles=2, only=1)[1]
        return self._truth

    def close(self) -> None:
        """Let go of inputs that were kept in memory."""
        self.pieces.unpersist()

    def _check(self, task: Task, output: str | Path | None) -> None:
        setup, query = task.setup, task.inputs.query
        setup.make_policy(query)
        make_grid(query, setup.cells)
        if setup.arrival_mode == "tuple":
            faults = list(tick_only_faults(query.how, query.emit))
            if any(stream.source is not None for stream in query.streams):
                faults.append(SOURCES_IN_TICKS)
            if faults:
                raise InvalidSetting("; ".join(faults) + ": set `arrival_mode` to 'tick'")
        if setup.arrival_mode == "tick" and query.streams[0].arrival is None:
            message = (
                "`tick` and `batch` cut slices of arrival time, so every input needs a column with "
                "it; name it in `arrival`, or let tuples arrive one by one"
            )
            raise InvalidSetting(message)
        if setup.mode == "rows" and query.counts_only:
            message = (
                "the query selects count(*), so it has no rows; select columns or *, or set `mode` "
                "to 'count'"
            )
            raise InvalidQuery(message)
        if output is not None and setup.mode != "rows":
            message = "`output` takes the rows of the results; set `mode` to 'rows' to have them"
            raise InvalidSetting(message)

    def _inputs(self, bound: BoundQuery) -> Inputs:
        return Inputs(
            bound,
            tuple(self.schemas),
            tuple(_packed_schemas(bound, len(self.schemas), self.of_streams)),
            self.of_streams,
            self.max_ahead,
        )

    def _ask(self, task: Task, *, n_roles: int, only: int | None = None) -> dict[int, Any]:
        roles = list(range(n_roles)) if only is None else [only]
        copies = self.pieces.withColumn("__role", sf.explode(sf.array(*map(sf.lit, roles))))
        answers = (
            copies.repartitionById(n_roles, "__role")
            .drop("__role")
            .mapInArrow(task.answer, ANSWERS_DDL)
            .toArrow()
            .to_pylist()
        )
        found = {row["role"]: read_answer(row["body"]) for row in answers if row["role"] in roles}
        if len(found) < len(roles):
            # Spark calls no task if there are no rows.
            nothing = task.inputs.arrivals([])
            found |= {role: (task.truth if role else task.run)(nothing) for role in roles}
        return found

    def _make_rows(self, task: Task, record: RunRecord, output: str | Path | None) -> None:
        query = task.inputs.query
        n_cells = make_grid(query, task.setup.cells).n_cells
        copies = self.pieces.withColumn(
            "__cell", sf.explode(sf.array(*map(sf.lit, range(n_cells))))
        )
        schema = from_arrow_schema(Output(query).schema)
        retention = int(record.horizon.max()) if len(record.horizon) else None
        rows = (
            copies.repartitionById(n_cells, "__cell")
            .drop("__cell")
            .mapInArrow(RowsTask(task, record.schedule, retention).rows, schema)
        )
        rows = selected(rows, query)
        if output is None:
            rows.write.format("noop").mode("overwrite").save()
        else:
            rows.write.parquet(str(output))


def open_recording(
    spark: SparkSession,
    query: str | Query,
    inputs: Mapping[str, Source],
    *,
    time: str | None = None,
    arrival: str | None = None,
    source: str | None = None,
    keep: bool = False,
    max_ahead: DurationLike | None = AUTO,
    time_unit: TimeUnit = "ms",
) -> RecordedJoin:
    """A query and its recorded streams, ready to be evaluated.

    Parameters
    ----------
    spark
        Where to read and run.
    query
        Text in the paper's form, or a query.
    inputs
        For each stream a Parquet or CSV file, a folder of such files, or a DataFrame.
    time
        Column with the event time, for all streams; by default what the query says (``ts``).
    arrival
        Column with the time or position of arrival, for all streams. By default ``arrival`` if
        every input has one; otherwise rows are taken as arriving in step, one of each input in
        turn.
    source
        Column with the source of a tuple (a device, a sensor, a partition), for all streams; by
        default what the query says.
    keep
        Keep the inputs in memory, for many runs, until :meth:`RecordedJoin.close` is called.
    max_ahead, time_unit
        As in :func:`recalljoin.replay`.

    Raises
    ------
    DatasetError
        When a file is missing or cannot be read.
    InvalidQuery
        With every fault of the query.
    """
    stated = stated_query(query)
    frames = {name: _frame(spark, source) for name, source in inputs.items()}
    schemas = {name: arrow_schema(frame.drop(FILE, START)) for name, frame in frames.items()}
    stated = with_columns(stated, time=time, arrival=arrival, source=source)
    stated = with_usual_arrival(stated, schemas)
    columns = stated.spark_columns(schemas)
    found = {s.name: _input_of(s, schemas) for s in stated.streams}
    of_stream = {name: frames[given] for name, given in found.items() if given is not None}
    known = {name: columns[name] for name in of_stream}
    computed = dict.fromkeys(found, pa.schema([])) | computed_schemas(known, of_stream)
    bound = stated.bind(schemas, time_unit=time_unit, computed=computed)
    of_streams = _inputs_of_streams(found, tuple(frames))
    pieces: DataFrame | None = None
    needed = _packed_schemas(bound, len(frames), of_streams)
    for number, (name, schema) in enumerate(zip(frames, needed, strict=True)):
        texts = {k: v for s, given in found.items() if given == name for k, v in columns[s].items()}
        frame = with_computed(frames[name], texts)
        names = [*schema.names, *(name for name in (FILE, START) if name in frame.columns)]
        chosen = frame.select(*map(quoted, names))
        of_input = chosen.mapInArrow(packed(number), PIECES_DDL)
        pieces = of_input if pieces is None else pieces.unionAll(of_input)
    assert pieces is not None
    kept = pieces.persist() if keep else pieces
    limit = max_ahead_of(bound, max_ahead)
    return RecordedJoin(spark, stated, schemas, kept, of_streams, limit, time_unit, computed)


def evaluate(
    query: str | Query,
    inputs: Mapping[str, Source],
    setup: Setup | None = None,
    *,
    spark: SparkSession | None = None,
    time: str | None = None,
    arrival: str | None = None,
    source: str | None = None,
    truth: bool | Timeline = True,
    output: str | Path | None = None,
    max_ahead: DurationLike | None = AUTO,
    time_unit: TimeUnit = "ms",
) -> RunRecord:
    """Run a query over recorded streams once and measure its recall.

    Parameters
    ----------
    query, inputs, time, arrival, source, max_ahead, time_unit
        As in :func:`open_recording`.
    setup, truth, output
        As in :meth:`RecordedJoin.evaluate`.
    spark
        Where to run; by default the active session, or a new one on this machine.
    """
    recording = open_recording(
        spark or local_session(),
        query,
        inputs,
        time=time,
        arrival=arrival,
        source=source,
        max_ahead=max_ahead,
        time_unit=time_unit,
    )
    return recording.evaluate(setup, truth=truth, output=output)


def _frame(spark: SparkSession, source: Source) -> DataFrame:
    return source if isinstance(source, DataFrame) else read_frame(spark, source)


def _input_of(stream: Stream, schemas: Mapping[str, pa.Schema]) -> str | None:
    """The input of a stream, found as in binding: by the name of the stream or of its table."""
    by_lower = {name.lower(): name for name in schemas}
    return by_lower.get(stream.name.lower(), by_lower.get((stream.table or stream.name).lower()))


def _inputs_of_streams(found: Mapping[str, str | None], names: tuple[str, ...]) -> tuple[int, ...]:
    """For each stream the number of its input."""
    unused = [name for name in names if name not in found.values()]
    if unused:
        known = ", ".join(f"`{stream}`" for stream in found)
        message = f"input {', '.join(f'`{name}`' for name in unused)} is no stream of the query; "
        message += f"it joins {known}"
        raise InvalidSetting(message)
    return tuple(names.index(str(name)) for name in found.values())


def _packed_schemas(
    bound: BoundQuery, n_inputs: int, of_streams: tuple[int, ...]
) -> list[pa.Schema]:
    """Columns of each input that a run reads."""
    chosen: list[pa.Schema] = []
    for number in range(n_inputs):
        fields: dict[str, pa.Field] = {}
        for s, stream in enumerate(bound.streams):
            if of_streams[s] == number:
                needed = {*needed_schema(bound, s).names, stream.arrival, stream.source}
                fields |= {each.name: each for each in stream.columns if each.name in needed}
        chosen.append(pa.schema(list(fields.values())))
    return chosen
