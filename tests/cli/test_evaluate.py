"""``recalljoin evaluate`` as somebody calls it who has read its help."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from recalljoin.cli import main
from tests.experiments.recordings import QUERY, disordered, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = {
    "k_ms", "avg_k_ms", "wait_ms", "avg_wait_ms", "lead_ms", "recall", "avg_recall", "phi", "phi99",
    "produced", "true", "lost", "late", "refused", "estimated_recall", "latency_ms",
    "adaptation_ms", "seconds", "tuples",
}  # fmt: skip
"""What the numbers hold at least."""


@pytest.fixture
def inputs(tmp_path: Path) -> list[str]:
    files = write(disordered(), tmp_path)
    return [f"--input={name}={path}" for name, path in files.items()]


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["evaluate", *arguments])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "fixed"], "--policy fixed needs --k, the slack to use; for example --k 300"),
        (["--cells", "2"], "--cells needs --arrival-mode tick"),
        (["--source", "device"], "--source needs --arrival-mode tick"),
        (["--output", "out"], "--output takes the rows of the results, so it needs --mode rows"),
        (["--k", "soon"], "Invalid value for '--k': `k` must be a duration, got 'soon'"),
        (["--period", "5m"], "`m` may be read in several ways; write `min` or `ms`"),
        (["--policy", "best"], "'best' is not one of 'slack', 'noneqsel', 'eqsel', 'max', 'none'"),
        (["--input", "c=nowhere.csv"], "there is no file 'nowhere.csv'"),
        (["--json", "no/where/n.json"], "there is no folder for 'no/where/n.json'"),
        (["--input", "c"], "'c' is not of the form NAME=FILE"),
        (["--max-ahead", "far"], "'--max-ahead': `max_ahead` must be a duration, got 'far'"),
        (["--time-unit", "h"], "'h' is not one of 's', 'ms', 'us', 'ns'"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_is_right(
    inputs: list[str], arguments: list[str], message: str
) -> None:
    result = call("--query", QUERY, *inputs, *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_a_query_file_that_is_not_there_is_wrong_usage(inputs: list[str]) -> None:
    result = call("--query", "missing.sql", *inputs)
    assert result.exit_code == 2
    assert "there is no file 'missing.sql'" in result.stderr


def test_results_are_not_written_over_what_is_there(inputs: list[str], tmp_path: Path) -> None:
    result = call("--query", QUERY, *inputs, "--mode", "rows", "--output", str(tmp_path))
    assert result.exit_code == 2
    assert "exists already; name a new folder" in result.stderr


def test_without_java_the_command_says_so(
    inputs: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    result = call("--query", QUERY, *inputs)
    assert result.exit_code == 1
    assert result.stderr.startswith("recalljoin: Spark needs Java 17 or newer; there is none in")


def test_without_pyspark_the_command_says_how_to_install_it(
    inputs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    result = call("--query", QUERY, *inputs)
    assert result.exit_code == 1
    assert "pyspark is not installed; call `pip install 'recalljoin[spark]'`" in result.stderr


@pytest.mark.spark
def test_all_numbers_are_written_and_the_summary_tells_the_main_ones(
    spark: SparkSession,  # noqa: ARG001 - the session the command finds
    inputs: list[str],
    tmp_path: Path,
) -> None:
    path = tmp_path / "numbers.json"
    result = call(
        "--query", QUERY, *inputs, "--time", "ts", "--arrival", "arrival", "--recall", "0.9",
        "--period", "4s", "--interval", "1s", "--granularity", "10ms", "--basic-window", "10ms",
        "--policy", "slack", "--mode", "count", "--arrival-mode", "tuple", "--json", str(path),
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    numbers = json.loads(path.read_text())
    assert set(numbers) >= KEYS
    assert len(numbers["recall"]) == len(numbers["estimated_recall"]) == numbers["measurements"]
    assert numbers["avg_k_ms"] == pytest.approx(sum(numbers["k_ms"]) / len(numbers["k_ms"]))
    assert set(numbers["latency_ms"]) == {"mean", "p50", "p95", "p99"}
    assert (numbers["target"], numbers["truth"], numbers["tuples"]) == (0.9, "exact", 2000)
    lines = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    assert lines["policy"].strip() == "slack, for a recall of 0.9; tuple by tuple"
    assert f"{numbers['produced']:,} of {numbers['true']:,} true ones" in lines["results"]
    assert lines["tuples"].startswith("2,000, of them ")
    assert "reach 0.9" in lines["recall"]
    assert f"All numbers: {path}" in result.stdout


@pytest.mark.spark
def test_numbers_go_to_standard_output_where_a_dash_says_so(
    spark: SparkSession,  # noqa: ARG001
    inputs: list[str],
    tmp_path: Path,
) -> None:
    query = tmp_path / "query.sql"
    query.write_text(f"{QUERY} WITH RECALL 0.8 OVER 4 SEC\n", encoding="utf-8")
    result = call("--query", str(query), *inputs, "--policy", "none", "--json", "-")
    assert result.exit_code == 0
    numbers = json.loads(result.stdout)
    assert numbers["target"] == 0.8
    assert set(numbers["k_ms"]) == {0}
    assert set(numbers["estimated_recall"]) == {None}


@pytest.mark.spark
def test_without_arrivals_and_without_results_there_are_loud_warnings(
    spark: SparkSession,  # noqa: ARG001
    tmp_path: Path,
) -> None:
    for name, key in (("a", 1), ("b", 2)):
        rows = [{"ts": 100 * n, "key": key, "id": n, "v": 1.0} for n in range(50)]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(text)
    files = [f"--input={name}={tmp_path / name}.jsonl" for name in "ab"]
    query = "SELECT count(*) FROM a [5 SEC], b [5 SEC] WHERE a.key = b.key"
    result = call("--query", query, *files, "--plot", str(tmp_path / "run.svg"))
    assert result.exit_code == 0, result.output
    assert "WARNING: no column `arrival` in the input of a, b: " in result.stderr
    assert "WARNING: the inputs hold no result at all" in result.stderr
    assert "WARNING: there is no result to draw" in result.stderr
    assert "100 %" not in result.stdout
    query = query.replace("a.key = b.key", "a.key < b.key")
    result = call("--query", query, *files, "--period", "2s", "--plot", str(tmp_path / "run.html"))
    assert result.exit_code == 0, result.output
    page = (tmp_path / "run.html").read_text()
    assert "data:image/svg+xml;base64," in page
    assert "WHERE a.key &lt; b.key" in page
    assert "<td>slack, for a recall of 0.95; tuple by tuple</td>" in page


@pytest.mark.spark
def test_options_without_effect_are_noted(
    spark: SparkSession,  # noqa: ARG001
    inputs: list[str],
) -> None:
    given = ["--k", "300", "--tick", "10ms", "--policy", "none", "--truth", "none"]
    result = call("--query", QUERY, *inputs, *given)
    assert result.exit_code == 0
    assert "note: --k is for --policy fixed; none chooses its own" in result.stderr
    assert "note: --tick is for --arrival-mode tick, and is left out" in result.stderr
    assert "as far as they were counted" in result.stdout


@pytest.mark.spark
def test_rows_are_written_as_parquet(
    spark: SparkSession,  # noqa: ARG001
    inputs: list[str],
    tmp_path: Path,
) -> None:
    given = ["--policy", "fixed", "--k", "300ms", "--mode", "rows", "--json"]
    given += [str(tmp_path / "n.json"), "--output", str(tmp_path / "out")]
    ticks = ["--arrival-mode", "tick", "--tick", "100ms", "--cells", "2", "--batch", "5s"]
    result = call("--query", QUERY, *inputs, *given, *ticks)
    assert result.exit_code == 0, result.output
    rows = pq.read_table(tmp_path / "out")
    assert rows.column_names == ["id", "other", "result_time"]
    assert rows.num_rows == json.loads((tmp_path / "n.json").read_text())["produced"] > 0
    assert "in ticks of 100ms, 2 cells" in result.stdout
    assert f"All results: {tmp_path / 'out'}" in result.stdout


@pytest.mark.spark
@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT * FROM a [5 SEC], b [5 SEC] WHERE a.keys = b.key", "keys"),
        ("SELECT * FROM a [5 SEC], c [5 SEC]", "`c`"),
        ("SELECT FROM", "recalljoin: "),
    ],
)
def test_a_wrong_query_exits_with_1_and_one_message(
    spark: SparkSession,  # noqa: ARG001
    inputs: list[str],
    query: str,
    message: str,
) -> None:
    result = call("--query", query, *inputs)
    assert result.exit_code == 1
    assert message in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.spark
def test_when_spark_fails_the_cause_is_told_in_a_line(
    spark: SparkSession,  # noqa: ARG001
    inputs: list[str],
    tmp_path: Path,
) -> None:
    # The end of the file, which says what is in it, is sound; the rows are not.
    content = bytearray((tmp_path / "b.parquet").read_bytes())
    content[10:3000] = bytes(2990)
    (tmp_path / "b.parquet").write_bytes(content)
    result = call("--query", QUERY, *inputs)
    assert result.exit_code == 1
    assert result.stderr.startswith("recalljoin: Spark failed: ")
    assert len(result.stderr.splitlines()) == 2
    assert "`recalljoin --debug ...` shows the whole story" in result.stderr


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.data
def test_a_golden_answer_in_a_process_of_its_own(golden_dir: Path) -> None:
    folder = golden_dir / "soccer"
    expected: dict[str, Any] = json.loads((folder / "expected.json").read_text())
    program = Path(sys.executable).with_name("recalljoin")
    command = [str(program), "evaluate", "--query", expected["query"]]
    command += [f"--input={name}={folder / name}.parquet" for name in ("s1", "s2")]
    command += ["--policy", "fixed", "--k", "300ms", "--json", "-"]
    # What is set up for a cluster is of no use to workers here.
    environment = {**os.environ, "PYSPARK_PYTHON": "python-of-the-cluster"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    # Nothing but the numbers, and no chatter from the Java process.
    assert done.stderr == ""
    numbers = json.loads(done.stdout)
    (answer,) = [each for each in expected["tuple"] if each["k_ms"] == 300]
    assert (numbers["produced"], numbers["late"]) == (answer["produced"], answer["late"])
    assert numbers["true"] == expected["true"]
