"""Runs on Spark: two at a time, each once, and kept when the others fail or are interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="experiments run on Spark")

from recalljoin.experiments import make_frame, open_recording
from recalljoin.experiments.runner import run_specs
from recalljoin.experiments.spec import DataSpec, RunSpec, run_spec
from recalljoin.experiments.store import RunStore

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from recalljoin.experiments.run import Run

pytestmark = pytest.mark.spark

X3 = DataSpec("x3", 0.3)
SPECS = [
    run_spec(X3, "max", period=5_000),
    run_spec(X3, "slack", 0.9, period=5_000),
    run_spec(X3, "max", period=5_000),
    run_spec(DataSpec("lag", 0.3), "slack", 0.9, period=5_000),
]
CELLS = run_spec(X3, "slack", 0.9, period=5_000, arrival_mode="tick", cells=2)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    return RunStore(tmp_path_factory.mktemp("runs"), "code")


@pytest.fixture(scope="module")
def runs(spark: SparkSession, store: RunStore) -> dict[RunSpec, Run]:
    made: list[RunSpec] = []
    runs = run_specs(spark, [*SPECS, CELLS], store, done=made.append, workers=2)
    assert sorted(map(hash, made)) == sorted(map(hash, {*SPECS, CELLS}))
    assert made[-1] == CELLS, "what wants all cores comes last"
    return runs


def test_a_run_is_what_evaluating_the_recording_gives(
    spark: SparkSession, runs: dict[RunSpec, Run]
) -> None:
    spec, dataset = SPECS[1], X3.dataset()
    frames = {name: make_frame(spark, dataset, name) for name in dataset.streams}
    record = open_recording(spark, dataset.query, frames).evaluate(spec.setup)
    numbers = runs[spec].numbers
    for name in ("k_ms", "recall", "produced", "true", "late"):
        assert numbers[name] == record.to_json()[name]
    # The careful start takes its part of these few seconds.
    assert numbers["measurements"] > 1


def test_what_was_run_is_not_run_again(
    spark: SparkSession, store: RunStore, runs: dict[RunSpec, Run]
) -> None:
    made: list[RunSpec] = []
    again = run_specs(spark, [*SPECS, CELLS], store, done=made.append)
    assert made == []
    assert again == runs


def test_other_code_runs_again(
    spark: SparkSession, store: RunStore, runs: dict[RunSpec, Run]
) -> None:
    made: list[RunSpec] = []
    other = RunStore(store.folder, "other code")
    again = run_specs(spark, SPECS[:1], other, done=made.append)
    assert made == SPECS[:1]
    assert again[SPECS[0]].numbers["k_ms"] == runs[SPECS[0]].numbers["k_ms"]


def test_after_an_interruption_it_goes_on_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    store = RunStore(tmp_path, "code")
    specs = [run_spec(X3, "fixed", period=5_000, k=k) for k in (0, 100, 200, 300)]
    first: list[RunSpec] = []

    def interrupted(spec: RunSpec) -> None:
        first.append(spec)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_specs(spark, specs, store, done=interrupted, workers=1)
    # What had been begun by then is finished and kept.
    assert 1 <= len(first) < len(specs)
    second: list[RunSpec] = []
    runs = run_specs(spark, specs, store, done=second.append, workers=1)
    assert set(first).isdisjoint(second)
    assert {*first, *second} == set(specs)
    produced = [runs[spec].numbers["produced"] for spec in specs]
    assert produced == sorted(produced)
    assert produced[0] < produced[-1]
