"""``recalljoin generate``: what it writes and what it refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from recalljoin.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["generate", *arguments])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["soccer", "--delay-step", "1s"], "--delay-step is for x3 and x4, not for soccer"),
        (["x3", "--rate", "0"], "must be more than 0, got 0"),
        (["x3", "--partitions", "0"], "must be 1 or more, got 0"),
        (["x5"], "'x5' is not one of 'x3', 'x4', 'soccer'"),
        (["x3", "--duration", "long"], "`duration` must be a duration, got 'long'"),
        (["x3", "--duration", "5"], "5 of what? Write 5s, 5min or so"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], message: str) -> None:
    result = call(*arguments, "--out", "nowhere")
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_settings_that_contradict_each_other_exit_with_1() -> None:
    result = call("x3", "--out", "nowhere", "--delay-step", "300ms")
    assert result.exit_code == 1
    assert "`max_delay` must be a multiple of `delay_step`" in result.stderr


@pytest.mark.spark
@pytest.mark.parametrize(
    ("arguments", "n", "told"),
    [
        (["x3", "--rate", "50"], 150, "syn_x3 (seed 4): 450 tuples"),
        (["x4", "--delay-step", "1s", "--max-delay", "2s"], 300, "1,200 tuples"),
        (["soccer", "--rate", "160"], 480, "soccer_simulated (simulated; seed 4): 960"),
    ],
)
def test_streams_are_written_with_the_settings_asked_for(
    spark: SparkSession,  # noqa: ARG001 - the session the command finds
    tmp_path: Path,
    arguments: list[str],
    n: int,
    told: str,
) -> None:
    result = call(*arguments, "--seed", "4", "--duration", "3s", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert told in result.stdout
    assert f"query  {tmp_path / 'query.sql'}" in result.stdout
    table = pq.read_table(tmp_path / "s2.parquet")
    assert table.num_rows == n
    arrival = table["arrival"].to_pylist()
    assert arrival == sorted(arrival)
    if arguments[0] != "soccer":
        step = 1000 if "--max-delay" in arguments else 100
        delays = {a - t for a, t in zip(arrival, table["ts"].to_pylist(), strict=True)}
        assert all(delay % step == 0 for delay in delays)
        assert max(delays) > 0
    assert "seed=4" in json.loads((tmp_path / "dataset.json").read_text())["settings"]
