"""The golden answers, reproduced through Spark: per tuple, and in ticks on several cells."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from recalljoin.experiments import RecordedJoin

pytestmark = [pytest.mark.spark, pytest.mark.data]

INPUTS = ("syn3", "syn4", "soccer")
POLICIES = [("none", 0), *(("fixed", k) for k in (50, 300, 2500, 25000)), ("max", 0)]
_OPEN: dict[str, RecordedJoin] = {}


@functools.cache
def answers(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "expected.json").read_text())
    return content


def recording(spark: SparkSession, folder: Path) -> RecordedJoin:
    from recalljoin.experiments import open_recording

    if folder.name not in _OPEN:
        files = {path.stem: path for path in sorted(folder.glob("s*.parquet"))}
        _OPEN[folder.name] = open_recording(spark, answers(folder)["query"], files, keep=True)
    return _OPEN[folder.name]


def answer_of(answers: list[dict[str, Any]], **values: Any) -> dict[str, Any]:
    (found,) = [a for a in answers if all(a[key] == value for key, value in values.items())]
    return found


@pytest.mark.parametrize(("policy", "k"), POLICIES)
@pytest.mark.parametrize("name", INPUTS)
def test_per_tuple_sizes_are_the_same_and_k_and_recall_to_the_last_digit(
    spark: SparkSession, golden_dir: Path, name: str, policy: str, k: int
) -> None:
    from recalljoin.experiments import Setup

    folder = golden_dir / name
    expected = answer_of(answers(folder)["tuple"], policy=policy, k_ms=k)
    setup = Setup(policy=policy, k=k if policy == "fixed" else None)
    found = recording(spark, folder).evaluate(setup).to_json()
    for size in ("produced", "late", "measurements"):
        assert found[size] == expected[size], size
    assert found["true"] == answers(folder)["true"]
    assert found["tuples"] == answers(folder)["tuples"]
    assert found["avg_k_ms"] == pytest.approx(expected["avg_k_ms"], abs=1)
    assert found["avg_recall"] == pytest.approx(expected["avg_recall"], abs=1e-6)


@pytest.mark.parametrize("cells", [1, 2, 3, 5])
@pytest.mark.parametrize("k", [0, 300, 2500])
@pytest.mark.parametrize("name", INPUTS)
def test_ticks_give_the_same_sizes_on_any_number_of_cells(
    spark: SparkSession, golden_dir: Path, name: str, k: int, cells: int
) -> None:
    from recalljoin.experiments import Setup

    folder = golden_dir / name
    expected = answer_of(answers(folder)["tick_100ms"], k_ms=k)
    setup = Setup(policy="fixed", k=k, arrival_mode="tick", tick="100 ms", cells=cells)
    found = recording(spark, folder).evaluate(setup).to_json()
    assert (found["produced"], found["late"]) == (expected["produced"], expected["late"])
    assert found["true"] == answers(folder)["true"] == found["produced"] + found["lost"]


@pytest.mark.parametrize(("policy", "recall"), [("noneqsel", 0.99), ("eqsel", 0.9)])
def test_the_model_waits_about_as_long(
    spark: SparkSession, golden_dir: Path, policy: str, recall: float
) -> None:
    from recalljoin.experiments import Setup

    folder = golden_dir / "soccer"
    expected = answer_of(answers(folder)["model"], policy=policy, recall=recall)
    found = recording(spark, folder).evaluate(Setup(policy=policy, recall=recall)).to_json()
    assert found["avg_k_ms"] == pytest.approx(expected["avg_k_ms"], rel=0.03)
    assert found["phi99"] == pytest.approx(expected["phi99"], abs=0.01)
    assert found["k_ms"][:12] == expected["first_k_ms"]
