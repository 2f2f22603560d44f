"""Recorded streams through Spark give what the engine gives, whatever they are read from."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import recalljoin
from recalljoin.errors import DatasetError, InvalidQuery, InvalidSetting
from recalljoin.query.text import parse_query
from tests.experiments.recordings import QUERY, as_timestamps, disordered, write

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from recalljoin.experiments import RecordedJoin

pytestmark = pytest.mark.spark

SHORT: Any = {"period": "4 s", "interval": "1 s"}
TIMES = ("seconds", "adaptation_ms")


def comparable(record: Any) -> dict[str, Any]:
    """What must be the same in two runs of the same."""
    content: dict[str, Any] = record.to_json()
    return {name: value for name, value in content.items() if name not in TIMES}


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    return disordered()


@pytest.fixture(scope="module")
def recording(
    spark: SparkSession, tables: dict[str, pa.Table], tmp_path_factory: pytest.TempPathFactory
) -> RecordedJoin:
    from recalljoin.experiments import open_recording

    files = write(tables, tmp_path_factory.mktemp("recording"))
    return open_recording(spark, QUERY, files)


def test_a_run_is_what_the_engine_gives_and_is_scored_against_the_true_results(
    recording: RecordedJoin, tables: dict[str, pa.Table]
) -> None:
    from recalljoin.experiments import Setup

    record = recording.evaluate(Setup(policy="fixed", k="300 ms", **SHORT))
    joined = recalljoin.replay(QUERY, tables, k="300 ms", arrival="arrival", retention="1 min")
    everything = recalljoin.replay(QUERY, tables, k="1 min", arrival="arrival")
    n = joined.table().num_rows
    assert (record.n_produced, record.n_lost, record.n_late) == (n, joined.lost, joined.late)
    assert record.n_true == everything.table().num_rows
    assert 0 < record.n_lost < record.n_true
    assert set(record.to_json()["k_ms"]) == {300}


def test_without_the_truth_a_run_goes_by_what_it_counted(recording: RecordedJoin) -> None:
    from recalljoin.experiments import Setup

    setup = Setup(policy="none", period="1 s", interval="1 s")
    record = recording.evaluate(setup, truth=False)
    assert record.n_true == record.n_produced + record.n_lost


@pytest.mark.parametrize("policy", ["slack", "noneqsel", "max"])
def test_rows_are_as_many_as_were_counted_and_each_only_once(
    recording: RecordedJoin, tables: dict[str, pa.Table], tmp_path: Path, policy: str
) -> None:
    from recalljoin.experiments import Setup

    record = recording.evaluate(
        Setup(policy=policy, recall=0.9, mode="rows", **SHORT), output=tmp_path / "out"
    )
    rows = pq.read_table(tmp_path / "out")
    found = Counter(zip(*(rows[name].to_pylist() for name in ("id", "other")), strict=True))
    true = recalljoin.replay(QUERY, tables, k="1 min", arrival="arrival").table()
    everything = set(zip(*(true[name].to_pylist() for name in ("id", "other")), strict=True))
    assert rows.num_rows == record.n_produced > 0
    assert max(found.values()) == 1
    assert set(found) <= everything


def test_rows_of_several_cells_are_those_of_one(recording: RecordedJoin, tmp_path: Path) -> None:
    from recalljoin.experiments import Setup

    found = []
    for cells in (1, 3):
        setup = Setup(policy="fixed", k=200, mode="rows", arrival_mode="tick", cells=cells)
        record = recording.evaluate(setup, output=tmp_path / str(cells))
        rows = pq.read_table(tmp_path / str(cells))
        assert rows.num_rows == record.n_produced > 0
        found.append(Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True)))
    assert found[0] == found[1]


def test_results_can_be_made_and_not_written(recording: RecordedJoin) -> None:
    from recalljoin.experiments import Setup

    count = recording.evaluate(Setup(policy="none"))
    rows = recording.evaluate(Setup(policy="none", mode="rows"))
    assert comparable(count) == comparable(rows)


def test_with_several_cells_k_adapts_once_in_a_micro_batch(recording: RecordedJoin) -> None:
    from recalljoin.experiments import Setup

    def n_points(**more: Any) -> int:
        setup = Setup(policy="max", arrival_mode="tick", tick="50 ms", **SHORT, **more)
        return len(recording.evaluate(setup, truth=False).k)

    # Every second of 20; a tuple of the first tick is a second late, and the seconds count from it.
    assert n_points() == 21
    assert n_points(cells=2) == 4  # the default of 5 s
    assert n_points(cells=2, batch="4 s") == n_points(cells=1, batch="4 s") == 5
    assert n_points(cells=3, batch="500 ms") == 21  # but not more often than every second


@pytest.mark.parametrize(
    "kind", ["csv", "tsv", "csv of timestamps", "us", "ns", "arrival alone", "frames"]
)
def test_inputs_of_any_kind_give_the_same(
    spark: SparkSession,
    recording: RecordedJoin,
    tables: dict[str, pa.Table],
    tmp_path: Path,
    kind: str,
) -> None:
    from recalljoin.experiments import Setup, evaluate

    setup = Setup(policy="slack", recall=0.9, **SHORT)
    inputs: Any
    if kind in ("csv", "tsv"):
        inputs = write(tables, tmp_path, suffix=kind)
    elif kind == "frames":
        inputs = {name: spark.createDataFrame(table) for name, table in tables.items()}
    else:
        unit = "ns" if kind == "ns" else "us"
        columns = ("arrival",) if kind == "arrival alone" else ("arrival", "ts")
        changed = {n: as_timestamps(t, *columns, unit=unit) for n, t in tables.items()}
        suffix = "csv" if kind.startswith("csv") else "parquet"
        inputs = write(changed, tmp_path, suffix=suffix)
    expected = comparable(recording.evaluate(setup))
    found = comparable(evaluate(QUERY, inputs, setup, spark=spark))
    assert found["tuples"] == expected["tuples"]
    assert found["true"] == expected["true"]
    # K is one unit of time above a slack, or up to 0.8 % of it. So it is not the same in every
    # unit: in milliseconds it may be one millisecond more than in microseconds.
    assert found["k_ms"] == pytest.approx(expected["k_ms"], abs=1, rel=0.016)
    assert found["avg_recall"] == pytest.approx(expected["avg_recall"], abs=0.005)
    if kind in ("csv", "tsv", "arrival alone", "frames"):
        assert found == expected


def test_integer_arrivals_are_milliseconds_beside_timestamps(
    spark: SparkSession, recording: RecordedJoin, tables: dict[str, pa.Table], tmp_path: Path
) -> None:
    from recalljoin.experiments import Setup, evaluate

    files = write({n: as_timestamps(t, "ts") for n, t in tables.items()}, tmp_path)
    setup = Setup(policy="fixed", k=100, arrival_mode="tick", tick="70 ms", **SHORT)
    found = comparable(evaluate(QUERY, files, setup, spark=spark))
    assert found["late"] == comparable(recording.evaluate(setup))["late"]


def test_the_rows_of_a_folder_are_taken_in_the_order_of_its_files(
    spark: SparkSession, tables: dict[str, pa.Table], tmp_path: Path
) -> None:
    # Without a column that tells, tuples arrive in the order of rows: it must be that of the
    # folder even where Spark reads its files in pieces and the largest first.
    from recalljoin.experiments import Setup, evaluate

    whole = {name: table.drop(["arrival"]) for name, table in tables.items()}
    files = write(whole, tmp_path)
    folder = tmp_path / "parts"
    folder.mkdir()
    for number, (begin, end) in enumerate([(0, 3), (3, 700), (700, 800), (800, 1000)]):
        pq.write_table(whole["a"].slice(begin, end - begin), folder / f"part-{number}.parquet")
    (folder / "_SUCCESS").touch()
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "2000")
    try:
        parts = evaluate(QUERY, {**files, "a": folder}, Setup(policy="max"), spark=spark)
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", str(before))
    expected = recalljoin.replay(QUERY, whole, k=0)
    record = evaluate(QUERY, files, Setup(policy="none"), spark=spark)
    assert record.n_produced == expected.table().num_rows
    assert comparable(parts) == comparable(evaluate(QUERY, files, Setup(policy="max"), spark=spark))


def test_ties_of_arrival_go_by_the_order_of_inputs(spark: SparkSession, tmp_path: Path) -> None:
    # All arrive at once. With `b` first, b:0 waits in its buffer until b:5 has come, and a:3 can
    # only be late after a:5; the other way round it is the same with the streams exchanged.
    from recalljoin.experiments import Setup, open_recording

    times = {"a": [5, 3], "b": [0, 5, 9]}
    tables = {
        name: pa.table({"arrival": [7] * len(ts), "ts": ts, "key": [1] * len(ts)})
        for name, ts in times.items()
    }
    files = write(tables, tmp_path)
    query = "SELECT count(*) FROM a [1 SEC], b [1 SEC] WHERE a.key = b.key"
    setup = Setup(policy="none")

    def order(names: str) -> list[tuple[int, int]]:
        recording = open_recording(spark, query, {name: files[name] for name in names})
        from recalljoin.experiments.tasks import Task

        task = Task(recording._inputs(recording.bind(setup)), setup)
        arrivals = task.inputs.arrivals(recording.pieces.toArrow().to_batches())
        return list(zip(arrivals.stream.tolist(), arrivals.ts.tolist(), strict=True))

    assert order("ab") == [(0, 5), (0, 3), (1, 0), (1, 5), (1, 9)]
    assert order("ba") == [(1, 0), (1, 5), (1, 9), (0, 5), (0, 3)]


def test_positions_order_arrivals_but_tell_no_time(
    spark: SparkSession, recording: RecordedJoin, tables: dict[str, pa.Table], tmp_path: Path
) -> None:
    from recalljoin.experiments import Setup, evaluate

    both = np.concatenate([table["arrival"].to_numpy() for table in tables.values()])
    rank = np.argsort(np.argsort(both, kind="stable"), kind="stable")
    ranked = {}
    for number, (name, table) in enumerate(tables.items()):
        mine = rank[number * 1000 : (number + 1) * 1000]
        # Rows need not be in order of arrival.
        ranked[name] = table.set_column(0, "seq", pa.array(mine)).take(pa.array(range(999, -1, -1)))
    files = write(ranked, tmp_path)
    setup = Setup(policy="slack", recall=0.9, **SHORT)
    found = comparable(evaluate(QUERY, files, setup, spark=spark, arrival="seq"))
    expected = comparable(recording.evaluate(setup))
    # Latency is then on the clock of the fastest stream.
    assert found.pop("latency_ms") != expected.pop("latency_ms")
    assert found == expected
    ticks = Setup(policy="none", arrival_mode="tick")
    with pytest.raises(InvalidSetting, match="but `arrival` counts positions: it is 1, 2, 3"):
        evaluate(QUERY, files, ticks, spark=spark, arrival="seq")


def test_a_stream_may_be_joined_with_itself(
    spark: SparkSession, tables: dict[str, pa.Table], tmp_path: Path
) -> None:
    from recalljoin.experiments import Setup, evaluate

    files = write({"a": tables["a"]}, tmp_path)
    query = "SELECT count(*) FROM a AS x [1 SEC], a AS y [1 SEC] WHERE x.key = y.key"
    record = evaluate(query, files, Setup(policy="fixed", k=100), spark=spark)
    joined = recalljoin.replay(query, {"a": tables["a"]}, k=100, arrival="arrival")
    assert record.n_produced == joined.table().column(0)[0].as_py() > 0


def test_rows_without_a_time_are_refused_and_counted(
    spark: SparkSession, tables: dict[str, pa.Table], tmp_path: Path
) -> None:
    from recalljoin.experiments import Setup, evaluate

    table = tables["a"]
    ts = pa.array([None, *table["ts"].to_pylist()[1:]], pa.int64())
    files = write({**tables, "a": table.set_column(1, "ts", ts)}, tmp_path)
    for setup in (Setup(policy="none"), Setup(policy="none", arrival_mode="tick", cells=2)):
        content = evaluate(QUERY, files, setup, spark=spark).to_json()
        assert (content["refused"], content["tuples"]) == (1, 1999)


def test_empty_inputs_are_evaluated_too(
    spark: SparkSession, tables: dict[str, pa.Table], tmp_path: Path
) -> None:
    from recalljoin.experiments import Setup, evaluate

    files = write({name: table.slice(0, 0) for name, table in tables.items()}, tmp_path)
    for setup in (Setup(), Setup(arrival_mode="tick"), Setup(arrival_mode="tick", cells=2)):
        content = evaluate(QUERY, files, setup, spark=spark).to_json()
        assert (content["tuples"], content["produced"], content["true"]) == (0, 0, 0)
        json.dumps(content, allow_nan=False)


def test_the_target_of_the_query_holds_where_the_setup_leaves_it_open(
    recording: RecordedJoin,
) -> None:
    from recalljoin.experiments import Setup

    query = parse_query(f"{QUERY} WITH RECALL 0.8 OVER 4 SEC")
    with_target = replace(recording, query=replace(recording.query, quality=query.quality))
    assert with_target.evaluate(Setup(policy="none")).target == 0.8
    assert with_target.evaluate(Setup(policy="none")).period == 4000
    assert with_target.evaluate(Setup(policy="none", recall=0.7)).target == 0.7


def test_several_threads_may_evaluate_at_once(recording: RecordedJoin) -> None:
    from recalljoin.experiments import Setup

    setups = [Setup(policy="fixed", k=k, **SHORT) for k in (0, 200, 400)]
    with ThreadPoolExecutor(3) as pool:
        together = [comparable(record) for record in pool.map(recording.evaluate, setups)]
    assert together == [comparable(recording.evaluate(setup)) for setup in setups]
    assert together[0]["produced"] < together[1]["produced"] < together[2]["produced"]


def test_inputs_kept_in_memory_can_be_let_go(spark: SparkSession, recording: RecordedJoin) -> None:
    from recalljoin.experiments import Setup, open_recording

    frames = {n: spark.createDataFrame(t) for n, t in disordered(2).items()}
    kept = open_recording(spark, QUERY, frames, keep=True)
    assert kept.pieces.is_cached
    assert kept.evaluate(Setup(policy="none")).n_tuples == 200
    kept.close()
    assert not kept.pieces.is_cached
    assert not recording.pieces.is_cached


def test_true_results_are_found_once_and_can_be_given(recording: RecordedJoin) -> None:
    from recalljoin.experiments import Setup

    truth = recording.truth()
    assert recording.truth() is truth
    record = recording.evaluate(Setup(policy="none"), truth=truth)
    assert record.n_true == truth.total


def test_faults_are_told_before_anything_runs(
    spark: SparkSession, recording: RecordedJoin, tables: dict[str, pa.Table], tmp_path: Path
) -> None:
    from recalljoin.experiments import Setup, evaluate, open_recording

    files = write(tables, tmp_path)
    with pytest.raises(InvalidSetting, match=r"set `mode` to 'rows' to have them"):
        recording.evaluate(Setup(), output=tmp_path / "out")
    counting = "SELECT count(*) FROM a [1 SEC], b [1 SEC]"
    with pytest.raises(InvalidQuery, match=r"selects count\(\*\), so it has no rows"):
        evaluate(counting, files, Setup(mode="rows"), spark=spark)
    with pytest.raises(InvalidSetting, match="input `c` is no stream of the query; it joins `a`"):
        open_recording(spark, QUERY, {**files, "c": files["a"]})
    with pytest.raises(InvalidQuery, match="clock"):
        open_recording(spark, QUERY, files, time="clock")
    with pytest.raises(InvalidQuery, match="came"):
        open_recording(spark, QUERY, files, arrival="came")
    write({"a": tables["a"].drop(["arrival"])}, tmp_path)
    with pytest.raises(InvalidSetting, match="`a` has no column 'arrival'"):
        open_recording(spark, QUERY, files)
    write({"b": tables["b"].drop(["arrival"])}, tmp_path)
    with pytest.raises(InvalidSetting, match="every input needs a column with it"):
        evaluate(QUERY, files, Setup(arrival_mode="tick"), spark=spark)


def test_a_tick_far_too_short_is_refused(
    spark: SparkSession, tables: dict[str, pa.Table], tmp_path: Path
) -> None:
    from recalljoin.experiments import Setup, evaluate

    far = pa.array([0] * 999 + [10**12])
    files = write({n: t.set_column(0, "arrival", far) for n, t in tables.items()}, tmp_path)
    with pytest.raises(InvalidSetting, match="more than 67,108,864 slices; give a longer one"):
        evaluate(QUERY, files, Setup(arrival_mode="tick"), spark=spark)


def test_files_that_cannot_be_read_are_named(
    spark: SparkSession, tables: dict[str, pa.Table], tmp_path: Path
) -> None:
    from recalljoin.experiments import open_recording

    files = write(tables, tmp_path)
    (tmp_path / "b.parquet").write_text("no Parquet", encoding="utf-8")
    with pytest.raises(DatasetError, match=r"b.parquet' cannot be read as Parquet: "):
        open_recording(spark, QUERY, files)
    with pytest.raises(DatasetError, match="there is no file"):
        open_recording(spark, QUERY, {**files, "b": tmp_path / "c.parquet"})
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetError, match="holds no file"):
        open_recording(spark, QUERY, {**files, "b": tmp_path / "empty"})


@pytest.mark.parametrize("mode", ["tuple", "tick"])
def test_timestamps_and_integers_of_any_unit_are_evaluated_alike(
    spark: SparkSession, tables: dict[str, pa.Table], tmp_path: Path, mode: Any
) -> None:
    from recalljoin.experiments import Setup, evaluate

    (tmp_path / "one").mkdir()
    (tmp_path / "mixed").mkdir()
    integers = write(tables, tmp_path / "one")
    counted = tables["b"]
    for name in ("ts", "arrival"):
        place = counted.column_names.index(name)
        counted = counted.set_column(place, name, pc.multiply(counted.column(name), 1000))
    stamps = as_timestamps(tables["a"], "ts", "arrival")
    mixed = write({"a": stamps, "b": counted}, tmp_path / "mixed")
    setup = Setup(policy="fixed", k="300 ms", arrival_mode=mode, tick="100 ms", **SHORT)
    expected = comparable(evaluate(QUERY, integers, setup, spark=spark))
    found = comparable(evaluate(QUERY, mixed, setup, spark=spark, time_unit="us"))
    # What goes by bins of slack depends on the unit a little: they are 0.8 % wide, or one unit.
    for one, other in zip(found["recall_reported"], expected["recall_reported"], strict=True):
        assert one == pytest.approx(other, abs=0.02)
    for name in ("latency_ms", "recall_reported", "horizon_ms"):
        del found[name], expected[name]
    assert found == expected
    assert expected["produced"] > 1000


def test_an_absurd_time_is_refused_in_the_run_and_in_the_truth(
    spark: SparkSession,
    tables: dict[str, pa.Table],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from recalljoin.experiments import Setup, evaluate

    (tmp_path / "spoiled").mkdir()
    spoiled = {}
    for name, table in tables.items():
        ts = table.column("ts").to_numpy().copy()
        ts[300] = 7_258_118_400_000
        spoiled[name] = table.set_column(1, "ts", pa.array(ts))
    files = write(spoiled, tmp_path / "spoiled")
    sane = {n: pa.concat_tables([t.slice(0, 300), t.slice(301)]) for n, t in tables.items()}
    setup = Setup(policy="fixed", k="300 ms", arrival_mode="tick", tick="100 ms", **SHORT)
    expected = evaluate(QUERY, write(sane, tmp_path), setup, spark=spark).to_json()
    found = evaluate(QUERY, files, setup, spark=spark).to_json()
    assert found["refused_by_reason"] == {"time far ahead of its stream": 2}
    assert (found["produced"], found["true"]) == (expected["produced"], expected["true"])
    assert not caplog.records
    wrong = evaluate(QUERY, files, setup, spark=spark, max_ahead=None)
    assert wrong.refused == {}
    assert wrong.n_produced < found["produced"]


def test_times_that_look_like_another_unit_are_told_by_the_driver(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from recalljoin.experiments import Setup, evaluate

    table = pa.table({"ts": np.arange(1_700_000_000, 1_700_000_050), "key": [1] * 50,
                      "id": np.arange(50)})  # fmt: skip
    files = write({"a": table, "b": table}, tmp_path)
    record = evaluate(QUERY, files, Setup(policy="none"), spark=spark)
    messages = [entry.getMessage() for entry in caplog.records if entry.levelname == "WARNING"]
    assert messages == list(record.notes)
    assert [note.split(";")[1] for note in messages] == [" if they are, give time_unit='s'"] * 2
