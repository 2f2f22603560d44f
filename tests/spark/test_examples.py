"""The worked examples run, in small, and find what they ask for."""

from __future__ import annotations

import importlib.util
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.documents import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def told_by(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """What an example prints that runs over this much data."""

    def tell(name: str, **size: int) -> str:
        example = loaded(name)
        example.make(tmp_path, **size)
        example.run(spark, tmp_path)
        return capfd.readouterr().out

    return tell


def loaded(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shares(text: str) -> list[float]:
    """The percentages with decimals, which are found and not asked for."""
    return [float(share) for share in re.findall(r"(\d+\.\d+)%", text)]


def test_ads(told_by: Callable[..., str]) -> None:
    told = told_by("ads", minutes=10, per_minute=50)
    ours, wrong, short, _, long, _ = shares(told)
    assert ours > 80
    assert short <= long == 100
    assert wrong < 10
    assert re.search(r"a join of the join: [1-9]\d* of", told)


def test_market(told_by: Callable[..., str]) -> None:
    told = told_by("market", seconds=14, rate=50)
    ours, by_its_own_account, later, short, long = shares(told)
    assert ours == by_its_own_account
    assert 50 < later <= 100
    assert ours > 70
    assert short < long == 100


def test_sensors(told_by: Callable[..., str]) -> None:
    told = told_by("sensors", seconds=12, n_vehicles=15)
    (ours,) = shares(told)
    assert ours > 90
    assert "Spark's own join: Stream-stream join without equality predicate" in told
