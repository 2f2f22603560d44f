"""A join as a chain of Spark operators: DataFrames in, a DataFrame out."""

from __future__ import annotations

import logging
import tempfile
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from recalljoin.engine.folding import Folded
from recalljoin.errors import InvalidSetting
from recalljoin.query.bound_query import RESULT_TIME
from recalljoin.query.durations import (
    MAX_TIME,
    NANOSECONDS_PER,
    finest,
    in_unit,
    nanoseconds,
    too_long,
)
from recalljoin.query.expressions import columns
from recalljoin.query.spelling import listed
from recalljoin.spark.chained import runs_in_every_batch, upstream_of
from recalljoin.spark.columns import in_arrow, seen, selected
from recalljoin.spark.control import FORMAT, PARCELS_DDL
from recalljoin.spark.counts import COUNTS, totals
from recalljoin.spark.failures import PlainProcessor, PlainSource, plainly
from recalljoin.spark.interpreters import check_workers
from recalljoin.spark.packing import UNREADABLE, routed_schema
from recalljoin.spark.planning import plan_join
from recalljoin.spark.replay import (
    BLOCK_ORDER,
    BLOCKS_DDL,
    Replayer,
    first_arrival,
    in_blocks,
    unit_of,
)
from recalljoin.spark.routing import routing
from recalljoin.spark.sealed import Sealed
from recalljoin.spark.session import (
    default_cells,
    default_groups,
    has_workers_here,
    require,
    same_session,
)
from recalljoin.spark.starting import quick_start, start_ahead
from recalljoin.spark.unfolding import folded_schema, unfolded
from recalljoin.spark.workers import own_workers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from recalljoin.engine.output import Output
    from recalljoin.query.model import Query
    from recalljoin.spark.options import RunSettings

_LOG = logging.getLogger(__name__)


def joined(query: Query, frames: Mapping[str, DataFrame], settings: RunSettings) -> DataFrame:
    """Run a query over DataFrames.

    Parameters
    ----------
    query
        What to join.
    frames
        The DataFrame of each stream, by the name of the stream or of its table.
    settings
        How the join is run.

    Raises
    ------
    InvalidQuery
        With every fault of the query.
    InvalidSetting
        When settings contradict each other, the DataFrames or the session's settings.
    """
    by_stream = {each.name: _frame_of(each.name, each.table, frames) for each in query.streams}
    spark = same_session(list(by_stream.values()))
    check_workers(spark)
    streaming = {name: frame.isStreaming for name, frame in by_stream.items()}
    if len(set(streaming.values())) > 1:
        still = listed([name for name, moves in streaming.items() if not moves], last=" and ")
        message = (
            "either all streams are streaming DataFrames or none; not streaming here: "
            f"{still}. Read a stream with spark.readStream; a table that does not change is joined "
            "with Spark's own join"
        )
        raise InvalidSetting(message)
    recorded = [each.name for each in query.streams if each.arrival is not None]
    if all(streaming.values()):
        if recorded and settings.arrival != "tuple":
            message = (
                f"stream {listed(sorted(recorded))} is a streaming DataFrame and arrives when it "
                "arrives; its column `arrival` is for recorded data, or for arrival='tuple'"
            )
            raise InvalidSetting(message)
        with quick_start(spark):
            start_ahead(spark)
            return _streaming(query, by_stream, settings, spark)
    if len(recorded) < len(by_stream):
        bare = sorted(set(by_stream) - set(recorded))
        message = (
            f"stream {listed(bare)} is not a streaming DataFrame; name its column of arrival times "
            "in `arrival`, to replay it"
        )
        raise InvalidSetting(message)
    with quick_start(spark):
        return _replayed(query, by_stream, settings, spark)


def _streaming(
    query: Query, frames: Mapping[str, DataFrame], settings: RunSettings, spark: SparkSession
) -> DataFrame:
    plan = plan_join(
        query,
        frames,
        settings,
        n_cells=default_cells(spark),
        n_groups=default_groups(spark),
        control_log=_control_log(spark, settings),
    )
    needed = [routed_schema(plan.cells.query, s) for s in range(len(frames))]
    require(spark, plan.layout.n_groups, needed)
    spark.dataSource.register(PlainSource)
    before = [upstream_of(plan.frames[stream.name]) for stream in plan.query.streams]
    upstream = tuple(dict.fromkeys(join for joins in before for join in joins))
    if settings.name in [join.name for join in upstream]:
        message = (
            f"a stream of this join comes from another join, and `name` of both is "
            f"{settings.name!r}; give this one another name, as in name='second'"
        )
        raise InvalidSetting(message)
    control = Sealed.of(plan.control(flush=settings.flush, upstream=upstream)).to_text()
    parcels = spark.readStream.format(FORMAT).option("plan", control).load()
    for s, stream in enumerate(plan.query.streams):
        frame = plan.frames[stream.name]
        always = bool(before[s]) or runs_in_every_batch(frame)
        route = routing(plan.cells, s, watches=plan.finds_hot_keys, always=always)
        read = [*needed[s].names, *(name for name in frame.columns if name == UNREADABLE)]
        task = plainly(route, f"route_{stream.name}")
        parcels = parcels.unionAll(in_arrow(frame, read, task, PARCELS_DDL))
    folded = Folded(plan.query)
    output = _output_schema(folded.output, frames)
    leaving = folded_schema(folded, output).add(COUNTS, ArrayType(LongType()))
    with own_workers(spark):
        left = parcels.groupBy("key").transformWithStateInPandas(
            PlainProcessor(plan.cells), leaving, "Append", "None"
        )
    observed = left.observe(settings.name, *totals(sf.col(COUNTS), plan.query))
    return selected(unfolded(observed, folded, output), plan.query)


def _replayed(
    query: Query, frames: Mapping[str, DataFrame], settings: RunSettings, spark: SparkSession
) -> DataFrame:
    # One task runs all cells, as the K of a tick depends on all cells.
    plan = plan_join(
        query,
        frames,
        settings,
        n_cells=default_cells(spark),
        n_groups=1,
        control_log=settings.control_log,
        is_recorded=True,
    )
    streams = plan.query.streams
    arrivals = {stream.name: str(stream.arrival) for stream in streams}
    time_unit = settings.time_unit
    names = (arrivals[name] for name in frames)
    first = first_arrival(frames.values(), names, time_unit=time_unit) or 0
    units = {s.name: unit_of(s.schema.field(str(s.arrival)).type, time_unit) for s in streams}
    # A tick may be shorter than the units of the arrival columns, but never shorter than 1 ms.
    unit = finest({"ms", *units.values()})
    length = nanoseconds(settings.tick, name="tick")
    if settings.arrival == "tuple":
        # Where tuples arrive one by one, results do not depend on ticks; few ticks are faster.
        length *= 50
    if length < 1_000_000:
        message = f"`tick` must be 1 ms or longer, got {settings.tick!r}"
        raise InvalidSetting(message)
    if in_unit(length, unit) > MAX_TIME:
        raise InvalidSetting(too_long("tick", settings.tick, unit))
    blocks = None
    for s, stream in enumerate(streams):
        arrival = arrivals[stream.name]
        needed = routed_schema(plan.cells.query, s)
        packing = in_blocks(
            needed,
            s,
            arrival,
            first=in_unit(first, unit),
            length=in_unit(length, unit),
            factor=NANOSECONDS_PER[units[stream.name]] // NANOSECONDS_PER[unit],
        )
        read = dict.fromkeys([*needed.names, arrival])
        task = plainly(packing, f"pack_{stream.name}")
        packed = in_arrow(plan.frames[stream.name], list(read), task, BLOCKS_DDL)
        blocks = packed if blocks is None else blocks.unionAll(packed)
    assert blocks is not None
    replayer = Replayer(
        plan.cells, plan.policy, plan.horizon, in_unit(length, "ms"), in_unit(first, "ms")
    )
    folded = Folded(plan.query)
    output = _output_schema(folded.output, frames)
    left = (
        blocks.repartition(1)
        .sortWithinPartitions(*BLOCK_ORDER)
        .mapInArrow(plainly(replayer.replay, "replay"), folded_schema(folded, output))
    )
    return selected(unfolded(left, folded, output), plan.query)


def _frame_of(name: str, source: str | None, frames: Mapping[str, DataFrame]) -> DataFrame:
    frame = frames.get(name, frames.get(source or name))
    if frame is None:
        message = f"there is no DataFrame for stream `{name}`; given are {listed(list(frames))}"
        raise InvalidSetting(message)
    return frame


def _control_log(spark: SparkSession, settings: RunSettings) -> str:
    if settings.control_log is not None:
        return settings.control_log
    if not has_workers_here(spark):
        message = (
            "`control_log` must name a folder that all workers see, as there is no default on a "
            "cluster or under Spark Connect; write for example "
            "control_log='s3://bucket/joins/orders'"
        )
        raise InvalidSetting(message)
    folder = tempfile.mkdtemp(prefix="recalljoin-")
    _LOG.warning(
        "no `control_log` given: %s is used, and a restart from the checkpoint begins to learn "
        "the wait anew",
        folder,
    )
    return folder


def _output_schema(output: Output, frames: Mapping[str, DataFrame]) -> StructType:
    query = output.query
    streams = [query.streams[s] for s in output.shown]
    schemas = {name: seen(frame).schema for name, frame in frames.items()}
    fields = [StructField(stream.name, schemas[stream.name]) for stream in streams]
    if query.select is not None:
        fields = []
        for column in query.select:
            (read,) = columns(column.expression)
            kind = schemas[query.streams[read.stream].name][read.name].dataType
            fields.append(StructField(column.name, kind))
    time = output.schema.field(RESULT_TIME).type
    return StructType([*fields, StructField(RESULT_TIME, from_arrow_type(time))])
