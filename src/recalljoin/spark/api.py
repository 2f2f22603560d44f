"""The two ways to ask for a join on Spark: in Python, and as text."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Never

from recalljoin.engine.ahead import AUTO
from recalljoin.errors import InvalidSetting
from recalljoin.quality.horizon import DEFAULT_LIMIT
from recalljoin.query.functions import Functions
from recalljoin.query.given import INPUTS, SQL
from recalljoin.query.model import Query, Stream
from recalljoin.query.options import refuse_unknown
from recalljoin.query.quality import Quality
from recalljoin.query.text import parse_query
from recalljoin.spark.join import joined
from recalljoin.spark.options import METRICS, TICK, Arrival, HotKeys, RunSettings
from recalljoin.spark.waiting import BUFFER_MEMORY, MAX_BUFFERED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from recalljoin.quality.adaptation import PolicyChoice
    from recalljoin.query.durations import DurationLike, TimeUnit
    from recalljoin.query.kinds import Emit, How
    from recalljoin.query.sizes import SizeLike
    from recalljoin.spark.learning import Known
    from recalljoin.spark.waiting import WhenFull


def join(
    *streams: Stream,
    on: str | None = None,
    how: How = "inner",
    emit: Emit = "ordered",
    select: str = "*",
    functions: Functions | None = None,
    recall: float | None = None,
    null_precision: float | None = None,
    period: DurationLike = "1 minute",
    interval: DurationLike = "1 second",
    granularity: DurationLike | None = None,
    min_wait: DurationLike = 0,
    max_wait: DurationLike | None = None,
    initial_wait: DurationLike | None = None,
    k: DurationLike | None = None,
    policy: PolicyChoice | None = None,
    policy_options: Mapping[str, Any] | None = None,
    learn_from: Known | None = None,
    control_log: str | None = None,
    late_rows: bool = False,
    idle_after: DurationLike | None = None,
    flush: bool = False,
    max_ahead: DurationLike | None = AUTO,
    retention: DurationLike | None = None,
    horizon_memory: SizeLike = DEFAULT_LIMIT,
    max_buffered: int | None = MAX_BUFFERED,
    buffer_memory: SizeLike | None = BUFFER_MEMORY,
    when_full: WhenFull = "release",
    cells: int | None = None,
    groups: int | None = None,
    hot_keys: HotKeys = "auto",
    follow_partitions: bool = True,
    arrival: Arrival = "tick",
    tick: DurationLike = TICK,
    time_unit: TimeUnit = "ms",
    name: str = METRICS,
    **unknown: Never,
) -> DataFrame:
    """Join streams within their windows, as completely as asked for and no later than needed.

    Durations are text such as ``"5 seconds"``, whole milliseconds, or timedeltas.

    Parameters
    ----------
    streams
        The inputs: ``rj.Stream("o", orders, time="ts", window="5 seconds")``. The DataFrames
        are all streaming, or all recorded with a column of ``arrival``.
    on
        What must hold for a result, as SQL; None joins everything within the windows.
    how
        Which rows a join of two streams has. ``"inner"``: pairs. ``"left"``, ``"right"``,
        ``"full"``: also the tuples of the first, the second or both streams that have no partner.
        ``"semi"``: tuples of the first stream that have a partner. ``"anti"``: those that have
        none. A tuple without a partner leaves when its window has passed and the wait is over.
    emit
        When a result leaves. ``"ordered"``: in order, when the watermark passes it. ``"eager"``: as
        soon as its last member has arrived; the wait then only decides how long tuples are kept.
    select
        ``"*"``: one struct per stream. Otherwise a list such as ``"o.id, p.ts AS paid"``.
        A column ``result_time`` is added: the largest time among the members.
    functions
        Functions of your own that the condition and the outputs call.
    recall
        Smallest share of the true results to produce, in (0, 1]. A larger share waits longer.
        Either ``recall`` or ``k`` is given.
    null_precision
        Smallest share of the tuples that leave without a partner that really have none, in (0, 1].
        A larger share waits longer. By default the recall.
    period
        Recall is measured over the results of the last ``period``. In a longer period, good moments
        make up for bad ones.
    interval
        The wait is chosen anew every ``interval``. A shorter interval follows changes faster.
    granularity
        The wait is a multiple of ``granularity``; None for any wait.
    min_wait, max_wait
        Shortest and longest time to wait for late tuples, whatever the recall; None for no limit.
        A stream that has no tuple for longer than ``max_wait`` no longer holds the others back.
    initial_wait
        The wait to begin with, until enough is known of the streams. By default a sixth of the
        period.
    k
        A fixed wait in place of ``recall``. A larger ``k`` waits longer and loses fewer results.
    policy
        What chooses the wait for a recall: a policy's name, by default ``"slack"``, or a function
        that makes a policy.
    policy_options
        Options that only the chosen policy has, such as ``share`` and ``memory`` of ``"slack"``.
    learn_from
        What the policy ``"slack"`` begins with instead of a careful wait: an ``Advice`` of
        :func:`recalljoin.advise`, or the control log of an earlier run, from which the wait and
        what the policy had learnt are taken over.
    control_log
        Folder in which cells leave what the policy needs, and what :func:`recalljoin.open` reads.
        All workers must see the folder, and it must be the same when the query starts again from
        its checkpoint. By default a temporary folder; on a cluster a folder must be given.
    late_rows
        Keep late tuples in the control log.
    idle_after
        Time without a tuple after which a stream no longer holds the others back; None for never.
    flush
        Release everything at the end of a bounded run (``trigger(availableNow=True)``). Tuples
        that come in a later run are late. A join of recorded arrivals always releases everything.
    max_ahead
        A row whose time is further ahead of its stream than this is refused, until other rows
        confirm that the stream has really come so far; times that are not ahead of the clock are
        always taken. ``"auto"``: one hour, or ten times the longest of windows and period. None
        takes every time.
    retention
        How long tuples are remembered after they have left their window, to count the results
        lost with tuples that come even later. By default the retention follows the delays, and is
        at least as long as the period and the largest window.
    horizon_memory
        How much memory the tuples remembered behind their windows may take, over all cells: text
        such as ``"256 MB"``, or bytes. Where that is too little for the delays,
        ``horizon_limited`` in the progress says so, and recall is known less exactly.
    max_buffered, buffer_memory
        How many tuples may wait for a stream that is behind, and how many bytes they may take,
        over all cells; None for any number.
    when_full
        What happens when more than that waits. ``"release"``: the oldest tuples are released early;
        results lost thereby are counted, and the log says so. ``"stop"``: the query stops.
    cells
        Operator instances that share the work; by default as many as there are cores, and one
        for an equi-join of recorded DataFrames.
    groups
        Tasks over which the cells are divided, the cells of one task running as threads; by default
        one task for each executor, which then finds its cells in memory again in every batch.
    hot_keys
        Keys that so many tuples have that one cell would do most of the work; each hot key is
        spread over cells. ``"auto"``: hot keys are found while the query runs (not in recorded
        arrivals). ``"off"``: no hot key is looked for. Or the keys themselves, by their column:
        ``{"o.customer": ["guest"]}``. Keys that are named may not change on a checkpoint, and no
        other keys are looked for. Results do not depend on hot keys.
    follow_partitions
        Whether partitions of a backlog that run apart are waited for, where streams have Kafka's
        columns ``topic`` and ``partition`` and none names a ``source``. Once off, off for good.
    arrival
        ``"tick"``: all tuples of a micro-batch arrive at once, over any number of cells.
        ``"tuple"``: tuples arrive one by one, as in the paper, in the order of the streams'
        ``arrival`` columns (without such columns in step, row by row), within one cell; the wait
        is adapted inside a batch, at the end of every interval.
    tick
        For recorded arrivals, the length of a tick: all rows of a tick arrive together. Where
        tuples arrive one by one, results do not depend on it.
    time_unit
        What integer columns of time and arrival count in: ``"s"``, ``"ms"``, ``"us"``, ``"ns"``.
    name
        Name of the metrics in the query's own progress; two joins in one query need two names.
    unknown
        Nothing: any other name is refused, with the option that was probably meant.

    Returns
    -------
    DataFrame
        The results; streaming where the inputs are, for any sink and any later operator.

    Raises
    ------
    InvalidQuery
        With every fault of the query.
    InvalidSetting
        When there is no such option, or settings contradict each other or the session's.

    Examples
    --------
    ::

        joined = rj.join(
            rj.Stream("o", orders, time="ts", window="5 seconds"),
            rj.Stream("p", payments, time="ts", window="5 seconds"),
            on="o.id = p.order_id AND abs(o.amount - p.amount) < 1",
            recall=0.95,
        )
    """
    of_a_stream = "it is said of each stream: rj.Stream('o', frame, time='ts', window='5 seconds')"
    elsewhere = dict.fromkeys(("time", "window"), of_a_stream)
    # The type of ``unknown`` is Never, so that type checkers refuse unknown options as well.
    refuse_unknown("join", _options_of(join), unknown, elsewhere)
    _refuse_others(streams)
    if on is not None:
        SQL.check("on", on)
    quality = None
    if recall is not None:
        quality = Quality(
            recall=recall,
            period=period,
            interval=interval,
            granularity=granularity,
            min_wait=min_wait,
            max_wait=max_wait,
            initial_wait=initial_wait,
            null_precision=null_precision,
        )
    elif null_precision is not None:
        message = f"`null_precision` goes with a `recall`, got {null_precision!r} alone; give both"
        raise InvalidSetting(message)
    query = Query(
        # The query travels to the workers, but the DataFrames do not.
        streams=[replace(each, data=None) for each in streams],
        condition=on,
        select=select,
        quality=quality,
        functions=Functions() if functions is None else functions,
        how=how,
        emit=emit,
    )
    settings = RunSettings(
        k=k,
        policy=policy,
        policy_options=policy_options,
        learn_from=learn_from,
        control_log=control_log,
        late_rows=late_rows,
        idle_after=idle_after,
        flush=flush,
        max_ahead=max_ahead,
        retention=retention,
        horizon_memory=horizon_memory,
        max_buffered=max_buffered,
        buffer_memory=buffer_memory,
        when_full=when_full,
        cells=cells,
        groups=groups,
        hot_keys=hot_keys,
        follow_partitions=follow_partitions,
        arrival=arrival,
        tick=tick,
        time_unit=time_unit,
        name=name,
    )
    return joined(query, {each.name: each.data for each in streams}, settings)


def sql(
    text: str,
    frames: Mapping[str, DataFrame],
    *,
    time: str | Mapping[str, str] = "ts",
    emit: Emit = "ordered",
    functions: Functions | None = None,
    k: DurationLike | None = None,
    policy: PolicyChoice | None = None,
    policy_options: Mapping[str, Any] | None = None,
    learn_from: Known | None = None,
    control_log: str | None = None,
    late_rows: bool = False,
    idle_after: DurationLike | None = None,
    flush: bool = False,
    max_ahead: DurationLike | None = AUTO,
    retention: DurationLike | None = None,
    horizon_memory: SizeLike = DEFAULT_LIMIT,
    max_buffered: int | None = MAX_BUFFERED,
    buffer_memory: SizeLike | None = BUFFER_MEMORY,
    when_full: WhenFull = "release",
    cells: int | None = None,
    groups: int | None = None,
    hot_keys: HotKeys = "auto",
    follow_partitions: bool = True,
    arrival: Arrival = "tick",
    tick: DurationLike = TICK,
    time_unit: TimeUnit = "ms",
    name: str = METRICS,
    **unknown: Never,
) -> DataFrame:
    """Join streams as a query in the paper's form says.

    Parameters
    ----------
    text
        ``SELECT outputs FROM stream [window], ... WHERE condition WITH RECALL share OVER period``.
        Two streams may be joined by ``LEFT``, ``RIGHT`` or ``FULL JOIN``, ``LEFT SEMI JOIN`` or
        ``LEFT ANTI JOIN``, with ``NULL PRECISION share`` after the recall.
    frames
        The DataFrame of each stream, by the name that the stream has in the query.
    time
        Time column: one name for all streams, or a name for each stream.
    emit
        When a result leaves: as in :func:`recalljoin.join`.
    functions
        Functions of your own that the condition and the outputs call.
    k, policy, policy_options, learn_from
        How the wait is chosen: as in :func:`recalljoin.join`.
    control_log, late_rows
        What is kept for :func:`recalljoin.open` to read: as in :func:`recalljoin.join`.
    idle_after, flush, max_ahead
        Streams that fall silent or end, and times that cannot be right: as in
        :func:`recalljoin.join`.
    retention, horizon_memory, max_buffered, buffer_memory, when_full
        How long tuples are remembered, and how many may wait: as in :func:`recalljoin.join`.
    cells, groups, hot_keys
        How the work is divided: as in :func:`recalljoin.join`.
    follow_partitions, arrival, tick, time_unit, name
        As in :func:`recalljoin.join`.
    unknown
        Nothing: any other name is refused, with the option that was probably meant.

    Returns
    -------
    DataFrame
        As :func:`recalljoin.join` returns it.

    Raises
    ------
    InvalidQuery
        With every fault of the query.
    InvalidSetting
        When there is no such option, or settings contradict each other or the session's.
    """
    in_the_text = (
        "it stands in the text: SELECT ... FROM o [5 SEC], p [5 SEC] WHERE ... WITH RECALL"
    )
    elsewhere = dict.fromkeys(("window", *_options_of(join)), in_the_text)
    refuse_unknown("sql", _options_of(sql), unknown, elsewhere)
    settings = RunSettings(
        k=k,
        policy=policy,
        policy_options=policy_options,
        learn_from=learn_from,
        control_log=control_log,
        late_rows=late_rows,
        idle_after=idle_after,
        flush=flush,
        max_ahead=max_ahead,
        retention=retention,
        horizon_memory=horizon_memory,
        max_buffered=max_buffered,
        buffer_memory=buffer_memory,
        when_full=when_full,
        cells=cells,
        groups=groups,
        hot_keys=hot_keys,
        follow_partitions=follow_partitions,
        arrival=arrival,
        tick=tick,
        time_unit=time_unit,
        name=name,
    )
    INPUTS.check("frames", frames)
    query = parse_query(text, functions=functions, time=time, emit=emit)
    return joined(query, dict(frames), settings)


def _options_of(call: Callable[..., object]) -> list[str]:
    parameters = inspect.signature(call).parameters.values()
    return [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]


def _refuse_others(streams: Sequence[object]) -> None:
    """Refuse what is no stream, or has no data."""
    example = "window='5 seconds')"
    faults = []
    for number, each in enumerate(streams, start=1):
        if not isinstance(each, Stream):
            faults.append(
                f"input {number} of a join must be a stream, got {type(each).__name__}; write "
                f"rj.Stream('s{number}', frame, {example}"
            )
        elif each.data is None:
            faults.append(
                f"stream `{each.name}` has no data; write its DataFrame after its name: "
                f"rj.Stream('{each.name}', frame, {example}"
            )
    if faults:
        raise InvalidSetting("; ".join(faults))
