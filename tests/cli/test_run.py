"""``recalljoin run`` and ``produce``: a job over folders, and what is refused before Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

pytest.importorskip("pyspark", reason="jobs run on Spark")

from recalljoin.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

JOB = """
query = "SELECT o.id, o.amount, p.at FROM o [5 SEC], p [5 SEC] WHERE o.id = p.order_id"
checkpoint = "checkpoint"
once = true
[streams.o]
folder = "orders"
format = "json"
schema = "id LONG NOT NULL, amount DOUBLE, ts LONG"
[streams.p]
folder = "payments"
format = "csv"
schema = "order_id LONG, at LONG"
time = "at"
[sink]
folder = "out"
[join]
k = "1 second"
flush = true
max_ahead = "off"
"""


@pytest.mark.spark
def test_a_job_over_folders_takes_what_was_produced_and_refuses_what_cannot_be_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    import recalljoin as rj

    (tmp_path / "job.toml").write_text(JOB)
    n = 40
    orders = {"id": range(n), "amount": [float(i) for i in range(n)], "ts": range(0, 100 * n, 100)}
    payments = {"order_id": range(n), "at": range(50, 100 * n, 100)}
    pq.write_table(pa.table({k: list(v) for k, v in orders.items()}), tmp_path / "o.parquet")
    pq.write_table(pa.table({k: list(v) for k, v in payments.items()}), tmp_path / "p.parquet")
    job = str(tmp_path / "job.toml")
    inputs = [f"--input={name}={tmp_path / name}.parquet" for name in "op"]
    done = CliRunner().invoke(main, ["produce", job, *inputs, "--speed", "max"])
    assert done.exit_code == 0, done.output
    assert done.output == "writing 80 rows of 2 streams\n80 rows are written\n"
    lines = ['{"id": 3, "amount": "x", "ts": 4}', '{"amount": 1, "ts": 4}', '{"id": 4, "ts"']
    (tmp_path / "orders" / "bad.json").write_text("\n".join(lines))
    (tmp_path / "payments" / "bad.csv").write_text("order_id,at\n1,x\n2\n")
    done = CliRunner().invoke(main, ["run", job, "--dashboard"])
    assert done.exit_code == 0, done.output
    assert "the job runs" in done.output
    assert "the dashboard is at http://127.0.0.1:" in done.output
    rows = spark.read.parquet(str(tmp_path / "out")).orderBy("id").collect()
    assert [(row.id, row.amount, row.at) for row in rows] == [
        (i, float(i), 100 * i + 50) for i in range(n)
    ]
    log = rj.open(str(tmp_path / "checkpoint" / "control_log"))
    told = sorted(row.text for row in log.refused("o").collect())
    assert told == sorted([lines[0], "`id` is null", lines[2]])
    assert sorted(row.text for row in log.refused("p").collect()) == ["1,x", "2"]


def test_all_faults_of_a_job_are_told_before_spark_is_started(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(JOB.replace("LONG NOT", "LON NOT").replace("once", "onec"))
    done = CliRunner().invoke(main, ["run", str(tmp_path / "job.toml")])
    assert done.exit_code == 1
    assert "recalljoin: 2 faults:" in done.output
    assert "the job file has no `onec`; did you mean `once`?" in done.output
    assert "did you mean `LONG` by `LON`?" in done.output


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "name recordings with --input, or a data set with --generate"),
        (["--generate", "x3", "--speed", "0"], "must be a number above 0, or max; got '0'"),
        (["--generate", "x3", "--key", "a"], "'a' is not of the form NAME=COLUMN"),
        (["--generate", "x3", "--partitions", "0"], "must be 1 or more, got 0"),
        (["--generate", "x3", "--duration", "1s"], "there is no recording of stream `o`"),
    ],
)
def test_what_cannot_be_produced_is_refused(tmp_path: Path, options: list[str], told: str) -> None:
    (tmp_path / "job.toml").write_text(JOB)
    done = CliRunner().invoke(main, ["produce", str(tmp_path / "job.toml"), *options])
    assert done.exit_code != 0
    assert told in " ".join(done.output.split())
