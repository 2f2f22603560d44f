"""Times near both ends of 64 bits, windows and waits as long as they may be: nothing overflows."""

from __future__ import annotations

import tracemalloc
from itertools import product
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import LongType, StructType, TimestampType

from recalljoin.engine.times import NULL_ARRIVAL, NULL_TIME, TIME_OUT_OF_RANGE
from recalljoin.errors import InvalidSetting, InvalidTarget
from recalljoin.query.durations import MAX_TIME, NANOSECONDS_PER
from recalljoin.query.model import Query, Stream
from recalljoin.query.quality import Quality
from recalljoin.spark.control import ControlReader
from recalljoin.spark.delivery import deliver
from recalljoin.spark.options import RunSettings
from recalljoin.spark.planning import plan_join
from recalljoin.spark.sealed import Sealed
from tests.spark.local_cells import Cells

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.datasource import ReadLimit

    from recalljoin.query.durations import TimeUnit
    from recalljoin.spark.planning import JoinPlan

NO_LIMIT: ReadLimit = cast("ReadLimit", None)
LOWEST, HIGHEST = -(2**63), 2**63 - 1
EDGES = (LOWEST, LOWEST + 1, -MAX_TIME - 1, -MAX_TIME, -MAX_TIME + 1, -1, 0, 1,
         MAX_TIME - 1, MAX_TIME, MAX_TIME + 1, HIGHEST - 1, HIGHEST)  # fmt: skip

times = st.sampled_from(EDGES) | st.integers(-50, 50) | st.none()
batches = st.lists(st.tuples(*[st.lists(times, max_size=4)] * 2), min_size=1, max_size=5)
lengths = st.sampled_from((0, 1, 10, 2**40, MAX_TIME - 1, MAX_TIME))


def planned(query: Query, folder: str, *, as_timestamps: bool = False, **run: Any) -> JoinPlan:
    """The plan of a streaming query over integers, or over Spark's timestamps."""
    kind = TimestampType() if as_timestamps else LongType()
    schema = StructType().add("ts", kind).add("a", LongType()).add("at", LongType())
    session = SimpleNamespace(conf=SimpleNamespace(get=lambda _: "UTC"))
    frame = SimpleNamespace(schema=schema, isStreaming=True, sparkSession=session)
    frames = {name: cast("DataFrame", frame) for name in ("x", "y")}
    settings = RunSettings(control_log=folder, hot_keys="off", **run)
    return plan_join(query, frames, settings, n_cells=2, n_groups=1, control_log=folder)


def streams(window: int, unit: TimeUnit, **more: Any) -> list[Stream]:
    text = f"{window * NANOSECONDS_PER[unit]} ns"
    return [Stream(name, window=text, **more) for name in ("x", "y")]


def run(plan: JoinPlan, tables: list[list[pa.Table]]) -> tuple[list[tuple[int, int]], list[Any]]:
    """All batches and the end of the input; every second batch comes back from the state."""
    source = ControlReader(Sealed.of(plan.control(flush=True)))
    source.prepareForTriggerAvailableNow()
    cells = Cells(plan.cells)
    offset = source.initialOffset()
    pairs: list[tuple[int, int]] = []
    reports = []
    for n, both in enumerate([*tables, [], []]):
        after = source.latestOffset(offset, NO_LIMIT)
        (part,) = source.partitions(offset, after)
        _, _, head, body = next(iter(source.read(part)))
        control = deliver(plan.cells.query, [(head, body)]).control
        results, report = cells.batch(both, control=control, forget=n % 2 == 1)
        for each in results:
            one, two = (each.column(i).field("ts").cast(pa.int64()).to_pylist() for i in range(2))
            pairs += zip(one, two, strict=True)
        reports.append(report)
        offset = after
    return sorted(pairs), reports


def table(values: list[int | None], schema: pa.Schema) -> pa.Table:
    ts = pa.array(values, pa.int64()).cast(schema.field("ts").type)
    ones = pa.array([1] * len(values), pa.int64())
    return pa.table([ts, ones, ones], schema=schema)


@given(
    batches,
    st.tuples(lengths, lengths),
    st.booleans(),
    st.sampled_from((None, "slack", "percentile")),
)
def test_every_usable_time_is_joined_and_every_other_one_counted(
    tmp_path_factory: pytest.TempPathFactory,
    made: list[tuple[list[int | None], list[int | None]]],
    both_lengths: tuple[int, int],
    as_timestamps: bool,
    policy: str | None,
) -> None:
    window, k = both_lengths
    unit: TimeUnit = "us" if as_timestamps else "ms"
    if as_timestamps:
        # The test reads results as Python's dates, which end with the year 9999.
        kept = [[t for t in part if t is None or not 2**55 < abs(t) <= MAX_TIME]
                for both in made for part in both]  # fmt: skip
        made = list(zip(kept[::2], kept[1::2], strict=True))
    wait = f"{k * NANOSECONDS_PER[unit]} ns"
    target = None if policy is None else Quality(recall=0.9, min_wait=wait)
    query = Query(streams=streams(window, unit), condition="x.a = y.a", quality=target)
    how = {"k": wait} if policy is None else {"policy": policy}
    folder = str(tmp_path_factory.mktemp("log"))
    plan = planned(query, folder, as_timestamps=as_timestamps, max_ahead=None, **how)
    schema = plan.query.streams[0].schema
    pairs, reports = run(plan, [[table(part, schema) for part in both] for both in made])
    usable = [
        [t for both in made for t in both[s] if t is not None and abs(t) <= MAX_TIME]
        for s in range(2)
    ]
    true = sorted((a, b) for a, b in product(*usable) if abs(a - b) <= window)
    if k == MAX_TIME and max(map(abs, [*usable[0], *usable[1]]), default=0) <= MAX_TIME // 2:
        assert pairs == true
    for pair in set(pairs):
        assert pairs.count(pair) <= true.count(pair)
    refused: dict[str, int] = {}
    for report in reports:
        for counts in report.refused:
            for reason, n in counts.items():
                refused[reason] = refused.get(reason, 0) + n
    all_times = [t for both in made for part in both for t in part]
    assert refused.get(NULL_TIME, 0) == sum(t is None for t in all_times)
    assert refused.get(TIME_OUT_OF_RANGE, 0) == sum(
        t is not None and abs(t) > MAX_TIME for t in all_times
    )
    assert sum(sum(report.n_arrived) for report in reports) == sum(map(len, usable))


@given(batches, lengths)
def test_far_times_are_refused_or_joined_whatever_the_rule_of_times_ahead_says(
    tmp_path_factory: pytest.TempPathFactory,
    made: list[tuple[list[int | None], list[int | None]]],
    window: int,
) -> None:
    query = Query(streams=streams(window, "ms"), condition="x.a = y.a", quality=Quality(recall=0.9))
    plan = planned(query, str(tmp_path_factory.mktemp("log")))
    schema = plan.query.streams[0].schema
    _, reports = run(plan, [[table(part, schema) for part in both] for both in made])
    n_rows = sum(len(part) for both in made for part in both)
    assert sum(sum(r.n_arrived) + r.n_refused for r in reports) == n_rows


@given(batches, st.lists(st.sampled_from((*EDGES, None)), min_size=40, max_size=40))
def test_tuples_one_by_one_with_any_arrival(
    tmp_path_factory: pytest.TempPathFactory,
    made: list[tuple[list[int | None], list[int | None]]],
    arrivals: list[int | None],
) -> None:
    query = Query(
        streams=streams(10, "ms", arrival="at"), condition="x.a = y.a", quality=Quality(recall=0.9)
    )
    plan = planned(query, str(tmp_path_factory.mktemp("log")), arrival="tuple", max_ahead=None)
    schema = plan.query.streams[0].schema
    given_at = iter(arrivals)
    tables: list[list[pa.Table]] = []
    n_without = 0
    for both in made:
        tables.append([])
        for part in both:
            at = [next(given_at) for _ in part]
            n_without += sum(a is None and t is not None and abs(t) <= MAX_TIME
                             for a, t in zip(at, part, strict=True))  # fmt: skip
            column = pa.array(at, pa.int64())
            tables[-1].append(table(part, schema).set_column(2, "at", column))
    _, reports = run(plan, tables)
    found = [counts.get(NULL_ARRIVAL, 0) for report in reports for counts in report.refused]
    assert sum(found) == n_without


@pytest.mark.parametrize("days", [90, 36_500])
@pytest.mark.parametrize("policy", ["slack", "noneqsel"])
def test_the_memory_of_a_long_window_follows_its_few_tuples(
    tmp_path: Path, days: int, policy: str
) -> None:
    length = days * 86_400_000
    target = Quality(recall=0.95, period=length, interval=length // 100)
    query = Query(streams=streams(length, "ms"), condition="x.a = y.a", quality=target)
    plan = planned(query, str(tmp_path), policy=policy, max_ahead=None)
    schema = plan.query.streams[0].schema
    rows = [[table([t * length // 50 for t in range(n, n + 50)], schema)] * 2 for n in (0, 50)]
    run(plan, rows)  # Kernels are compiled and modules loaded before memory is looked at.
    tracemalloc.start()
    try:
        (tmp_path / "again").mkdir()
        again = planned(query, str(tmp_path / "again"), policy=policy, max_ahead=None)
        pairs, _ = run(again, rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(pairs) == sum(abs(a - b) <= 50 for a in range(100) for b in range(100))
    assert peak < 20_000_000


@pytest.mark.parametrize("name", ["period", "min_wait", "max_wait", "initial_wait", "granularity"])
def test_a_duration_that_cannot_be_counted_is_refused_when_the_join_is_planned(
    tmp_path: Path, name: str
) -> None:
    given: dict[str, Any] = {"recall": 0.9, name: "999999999999999999999 days"}
    target = Quality(**given)
    query = Query(streams=streams(1, "ms"), condition="x.a = y.a", quality=target)
    with pytest.raises(InvalidTarget, match=rf"`{name}` is too long to count in ms, got '999"):
        planned(query, str(tmp_path))


@pytest.mark.parametrize("name", ["k", "retention"])
def test_an_option_that_cannot_be_counted_is_refused_when_the_join_is_planned(
    tmp_path: Path, name: str
) -> None:
    recall = None if name == "k" else Quality(recall=0.9)
    query = Query(streams=streams(1, "ms"), condition="x.a = y.a", quality=recall)
    with pytest.raises(InvalidSetting, match=rf"`{name}` is too long to count in ms, got '999"):
        planned(query, str(tmp_path), as_timestamps=False, **{name: "999999999999999999999 days"})
