"""Outer, semi and anti joins of recordings: what is counted, over one cell and several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="experiments run on Spark")

from recalljoin.errors import InvalidSetting
from recalljoin.experiments import Setup
from recalljoin.experiments.tasks import Inputs, Task
from recalljoin.quality.local_replay import replay
from recalljoin.query.text import parse_query
from tests.experiments.recordings import disordered, write

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

JOINS = {"left": "LEFT JOIN", "full": "FULL JOIN", "semi": "LEFT SEMI JOIN", "anti": "ANTI JOIN"}


def text(how: str) -> str:
    shown = "a.id" if how in ("semi", "anti") else "a.id, b.id AS other"
    on = "a.key = b.key AND a.id % 17 = b.id % 17"
    return f"SELECT {shown} FROM a [2 SEC] {JOINS[how]} b [1 SEC] ON {on}"


def task(how: str, **settings: Any) -> Task:
    tables = disordered()
    schemas = {name: table.schema for name, table in tables.items()}
    query = parse_query(text(how) + " WITH RECALL 0.9 OVER 5 SECONDS", arrival="arrival")
    inputs = Inputs(query.bind(schemas), ("a", "b"), tuple(schemas.values()), (0, 1))
    return Task(inputs, Setup(arrival_mode="tick", tick="100 ms", **settings))


def arrivals_of(task: Task) -> Any:
    from recalljoin.engine.arrivals import arrivals_of as made

    return made(task.inputs.query, disordered())


@pytest.mark.parametrize("how", list(JOINS))
def test_an_evaluation_counts_what_a_replay_of_the_same_k_counts(how: str) -> None:
    fixed = task(how, policy="fixed", k="300 ms")
    record = fixed.run(arrivals_of(fixed))
    joined = replay(text(how), disordered(), k="300 ms", tick="100 ms", arrival="arrival")
    assert (record.n_produced, record.n_lost) == (joined.produced, joined.lost)
    assert (record.n_nulls, record.n_false_nulls) == (joined.nulls, joined.false_nulls)
    truth = fixed.truth(arrivals_of(fixed))
    assert truth.total == record.n_true == record.n_produced + record.n_lost
    # No tuple comes so late that its own verdict has passed.
    assert record.n_lost > 0 or how == "anti"
    if how in ("left", "full", "anti"):
        assert record.to_json()["null_precision"] == joined.null_precision < 1


@pytest.mark.parametrize("how", list(JOINS))
def test_several_cells_count_what_one_does(how: str) -> None:
    runs = [task(how, cells=n, batch="1 s") for n in (1, 3)]
    one, three = (each.run(arrivals_of(each)) for each in runs)
    assert one.n_produced == three.n_produced
    assert (one.n_nulls, one.n_false_nulls) == (three.n_nulls, three.n_false_nulls)
    assert one.k.tolist() == three.k.tolist()
    assert np.allclose(one.measurements, three.measurements)
    assert one.mean_recall > 0.85


@pytest.mark.spark
def test_rows_of_an_outer_join_are_written_and_one_by_one_it_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    from recalljoin.experiments import evaluate

    files = write(disordered(), tmp_path)
    with pytest.raises(InvalidSetting, match="set `arrival_mode` to 'tick'"):
        evaluate(text("left"), files, spark=spark)
    setup = Setup(arrival_mode="tick", tick="100 ms", policy="fixed", k="300 ms", mode="rows")
    record = evaluate(text("left"), files, setup, spark=spark, output=tmp_path / "out")
    found = spark.read.parquet(str(tmp_path / "out"))
    assert found.where("other IS NULL").count() == record.n_nulls
    assert found.count() == record.n_produced + (record.n_false_nulls or 0)
