"""Every block of Python in README and docs runs."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as sf

import recalljoin as rj
from tests.documents import PAGES, ROOT, blocks_of, is_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SCRIPTS = {
    page: blocks
    for page in PAGES
    if page.name != "quickstart.md"
    and (blocks := [block for block in blocks_of(page) if not is_session(block)])
}
SCHEMAS = {
    "orders": "ts timestamp, id long, amount double",
    "payments": "ts timestamp, order_id long, amount double",
    "impressions": "ts timestamp, id long, user string, price string",
    "clicks": "ts timestamp, impression_id long, user string, price double",
    "positions": "ts timestamp, x double, y double",
}


@pytest.fixture(scope="module")
def given(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the pages take for granted: streams, recordings, and a query."""
    folder = tmp_path_factory.mktemp("given")
    names: dict[str, Any] = {"spark": spark, "rj": rj, "expr": sf.expr}
    for name, schema in SCHEMAS.items():
        names[name] = stream(spark, folder / name, schema)
    for name in "ab":
        names[name] = spark.range(100).selectExpr("id AS ts", "id AS at", "id % 10 AS k")
    names["joined"] = rj.join(
        rj.Stream("o", names["orders"], window="5 seconds"),
        rj.Stream("p", names["payments"], window="5 seconds"),
        on="o.id = p.order_id",
        recall=0.95,
        late_rows=True,
        flush=True,
        control_log=str(folder / "log"),
    )
    names["query"] = (
        names["joined"]
        .writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    names["query"].awaitTermination()
    return names


def stream(spark: SparkSession, folder: Path, schema: str) -> DataFrame:
    """A minute of rows, then a batch with a late row and a row without a time."""
    fields = [field.split() for field in schema.split(", ")[1:]]
    columns = [f"CAST(id AS {kind}) AS {name}" for name, kind in fields]
    for ids, time in (("60", "1700000000 + id"), ("2", "IF(id = 0, 1700000000, NULL)")):
        rows = spark.range(int(ids)).selectExpr(f"timestamp_seconds({time}) AS ts", *columns)
        rows.coalesce(1).write.mode("append").parquet(str(folder))
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


@pytest.mark.spark
@pytest.mark.parametrize("page", SCRIPTS, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(
    page: Path,
    given: dict[str, Any],
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    names = dict(given)
    try:
        for number, block in enumerate(SCRIPTS[page]):
            # Spark's folders are seen from where its JVM was started.
            code = re.sub('"(?=(logs|checkpoints|results)/)', f'"{tmp_path}/', block)
            exec(compile(code, f"{page.name}, block {number}", "exec"), names)
    finally:
        for query in spark.streams.active:
            query.stop()


@pytest.mark.spark
def test_the_first_script_finds_what_it_asks_for(tmp_path: Path) -> None:
    (script,) = blocks_of(ROOT / "docs" / "quickstart.md")
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, check=True, text=True
    )
    (found,) = re.findall(r"(\d+) of 5000 orders found", ran.stdout)
    # The first seconds, in which nothing is known yet, are a part of so short a run.
    assert int(found) >= 0.9 * 5000
