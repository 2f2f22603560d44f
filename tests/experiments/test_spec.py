"""What makes two runs the same: data set, setup, and the code that runs them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="experiments run on Spark")

import recalljoin
from recalljoin.experiments.jumps import FACTOR, LAG
from recalljoin.experiments.run import Run
from recalljoin.experiments.spec import SOURCES, DataSpec, code_version, run_spec
from recalljoin.experiments.store import RunStore
from tests.experiments.runs import record_of

X3 = DataSpec("x3", 0.5)


def test_a_run_is_known_by_its_data_its_setup_and_the_code() -> None:
    spec = run_spec(X3, "slack", 0.9)
    assert spec.key("a") == run_spec(DataSpec("x3", 0.5), "slack", 0.9).key("a")
    others = [
        run_spec(DataSpec("x3", 0.5, seed=1), "slack", 0.9),
        run_spec(DataSpec("x4", 0.5), "slack", 0.9),
        run_spec(DataSpec("x3", 0.6), "slack", 0.9),
        run_spec(X3, "percentile", 0.9),
        run_spec(X3, "slack", 0.91),
        run_spec(X3, "slack", 0.9, interval=500),
        run_spec(X3, "slack", 0.9, options=(("share", 0.9),)),
    ]
    keys = {spec.key("a"), spec.key("b"), *(other.key("a") for other in others)}
    assert len(keys) == 2 + len(others)


def test_policies_without_a_target_are_run_once_for_all_targets() -> None:
    assert run_spec(X3, "max", 0.9) == run_spec(X3, "max", 0.99)
    assert run_spec(X3, "slack", 0.9) != run_spec(X3, "slack", 0.99)


def test_a_stored_run_is_found_under_the_same_code_alone(tmp_path: Path) -> None:
    spec, run = run_spec(X3, "slack"), Run.of(record_of("slack"))
    assert RunStore(tmp_path, "one").load(spec) is None
    RunStore(tmp_path, "one").save(spec, run)
    assert RunStore(tmp_path, "one").load(spec) == run
    assert RunStore(tmp_path, "two").load(spec) is None
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]


def test_the_version_of_the_code_changes_with_what_runs_and_not_with_what_draws(
    tmp_path: Path,
) -> None:
    package = tmp_path / "recalljoin"
    shutil.copytree(Path(recalljoin.__file__).parent, package)
    version = code_version(package)
    assert version == code_version()
    with (package / "experiments" / "charts.py").open("a") as file:
        file.write("# drawn otherwise\n")
    assert code_version(package) == version
    with (package / "quality" / "slack.py").open("a") as file:
        file.write("# chosen otherwise\n")
    assert code_version(package) != version


def test_every_source_that_decides_a_run_is_there() -> None:
    package = Path(recalljoin.__file__).parent
    assert [part for part in SOURCES if not (package / part).exists()] == []


def _delays(kind: str, stream: str) -> tuple[np.ndarray, np.ndarray]:
    dataset = DataSpec("delays" if kind == "delays" else "lag", 1.5).dataset()
    table = dataset.table(stream)
    arrival, ts = table["arrival"].to_numpy(), table["ts"].to_numpy()
    return arrival - 100_000, arrival - ts


def test_delays_grow_tenfold_for_the_middle_third() -> None:
    elapsed, delay = _delays("delays", "s1")
    middle = (elapsed >= 30_000) & (elapsed < 60_000)
    assert delay[~middle].max() <= 2_000
    assert 2_000 < delay[middle].max() <= FACTOR * 2_000
    assert (delay[middle] % (FACTOR * 10) == 0).all()


def test_one_stream_falls_back_catches_up_and_stays_in_order() -> None:
    elapsed, delay = _delays("lag", "s1")
    assert (np.diff(elapsed) >= 0).all()
    usual, late = delay[elapsed < 30_000], delay[(elapsed > 41_000) & (elapsed < 60_000)]
    assert usual.min() == 0
    assert late.min() == LAG
    assert delay[elapsed > 71_000].min() == 0
    assert not ((elapsed > 30_000) & (elapsed < 40_000)).any()
    assert _delays("lag", "s2")[1].max() <= 2_000
