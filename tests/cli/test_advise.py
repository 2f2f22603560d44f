"""``recalljoin advise`` as somebody calls it who has read its help."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from recalljoin.cli import main

if TYPE_CHECKING:
    from pathlib import Path

QUERY = "SELECT * FROM a [1 SEC], b [1 SEC] WHERE a.x = b.x"


@pytest.fixture
def inputs(tmp_path: Path) -> list[str]:
    a = pa.table({"ts": [0, 1000], "arrival": [0, 1], "x": [1, 1]})
    b = pa.table({"ts": [0, 1000, 700], "arrival": [0, 2, 3], "x": [1, 1, 1]})
    pq.write_table(a, tmp_path / "a.parquet")
    pyarrow.csv.write_csv(b, tmp_path / "b.csv")
    return [f"--input=a={tmp_path / 'a.parquet'}", f"--input=b={tmp_path / 'b.csv'}"]


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["advise", "--query", QUERY, *arguments])


def test_it_says_what_to_write_in_a_plain_spark_join(inputs: list[str]) -> None:
    result = call(*inputs, "--recall", "0.99")
    assert result.exit_code == 0, result.output
    assert "5 tuples, 6 results; the latest tuple came 300 ms late." in result.output
    assert '.withWatermark(time, "302 milliseconds")' in result.output
    assert "recalljoin needs a wait (K) of 302 ms" in result.output


def test_a_watermark_delay_in_whole_milliseconds_is_no_shorter_than_needed(tmp_path: Path) -> None:
    # The second tuple of b is 300.2 ms behind, and Spark's delay must be larger than that.
    for name, ts in (("a", [0, 1_000_000]), ("b", [0, 1_000_000, 699_800])):
        times = pa.array(ts, pa.timestamp("us"))
        arrival = pa.array(range(len(ts)), pa.int64())
        table = pa.table({"ts": times, "arrival": arrival, "x": [1] * len(ts)})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    inputs = [f"--input={name}={tmp_path / name}.parquet" for name in "ab"]
    needed = json.loads(call(*inputs, "--recall", "0.99", "--json", "-").stdout)["watermark_ms"]
    assert needed % 1 > 0
    told = call(*inputs, "--recall", "0.99").output
    assert f'.withWatermark(time, "{int(needed) + 1} milliseconds")' in told


def test_it_shows_what_other_recalls_would_cost(inputs: list[str]) -> None:
    lines = [line.split() for line in call(*inputs).output.splitlines()]
    assert ["50.0", "%", "0", "0"] in lines
    assert ["80.0", "%", "1", "ms", "302", "ms"] in lines


def test_the_numbers_can_be_had_as_json(inputs: list[str], tmp_path: Path) -> None:
    printed = json.loads(call(*inputs, "--json", "-").output)
    file = tmp_path / "advice.json"
    assert call(*inputs, "--json", str(file)).exit_code == 0
    assert json.loads(file.read_text()) == printed
    assert printed["watermark_ms"] == 302


def test_a_column_that_is_not_there_is_told(inputs: list[str]) -> None:
    result = call(*inputs, "--time", "when")
    assert result.exit_code == 1
    assert "`when`" in result.stderr


def test_a_folder_that_is_not_there_is_told_before_anything_is_read(inputs: list[str]) -> None:
    result = call(*inputs, "--json", "no/where/n.json")
    assert result.exit_code == 2
    assert "there is no folder for 'no/where/n.json'" in result.stderr


def test_integer_times_may_count_in_seconds(tmp_path: Path) -> None:
    table = pa.table({"ts": [0, 1, 2], "x": [1, 1, 1]})
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table.take([0, 2, 1]), tmp_path / "b.parquet")
    files = [f"--input={name}={tmp_path / f'{name}.parquet'}" for name in "ab"]
    result = call(*files, "--time-unit", "s", "--json", "-")
    assert json.loads(result.stdout)["largest_delay_ms"] == 1000


def test_an_absurd_time_is_left_out_of_the_advice_unless_told_otherwise(tmp_path: Path) -> None:
    sane = {"ts": [0, 1000, 2000, 3000, 4000], "x": [1] * 5}
    pq.write_table(pa.table(sane), tmp_path / "a.parquet")
    absurd = {"ts": [0, 7_258_118_400_000, 1000, 2000, 3000], "x": [1] * 5}
    pq.write_table(pa.table(absurd), tmp_path / "b.parquet")
    files = [f"--input={name}={tmp_path / f'{name}.parquet'}" for name in "ab"]
    found = json.loads(call(*files, "--json", "-").stdout)
    assert (found["tuples"], found["largest_delay_ms"]) == (9, 0)
    kept = call(*files, "--json", "-", "--max-ahead", "100000 days")
    assert json.loads(kept.stdout)["tuples"] == 10


def test_rows_may_be_json_lines(inputs: list[str], tmp_path: Path) -> None:
    rows = [{"ts": 0, "arrival": 0, "x": 1}, {"ts": 1000, "arrival": 1, "x": 1}]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    expected = call(*inputs, "--json", "-").output
    assert call(f"--input=a={path}", inputs[1], "--json", "-").output == expected


def test_times_in_json_lines_are_text_in_iso_form(tmp_path: Path) -> None:
    # The same moments, written in two time zones.
    numbers = [{"ts": 0, "arrival": 0, "x": 1}, {"ts": 1500, "arrival": 1600, "x": 1}]
    texts = [
        {"ts": "1970-01-01T01:00:00.000+01:00", "arrival": "1970-01-01T00:00:00Z", "x": 1},
        {"ts": "1970-01-01T00:00:01.500Z", "arrival": "1970-01-01T01:00:01.600+01:00", "x": 1},
    ]
    outputs = []
    for name, rows in (("numbers", numbers), ("texts", texts)):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        result = call(f"--input=a={path}", f"--input=b={path}", "--json", "-")
        told = json.loads(result.stdout)
        outputs.append([told["results"], told["k_ms"], told["largest_delay_ms"]])
    assert outputs[0] == outputs[1]


def test_json_lines_that_are_none_are_told(inputs: list[str], tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"ts": 0,\n')
    result = call(f"--input=a={path}", inputs[1])
    assert result.exit_code == 1
    assert "cannot be read as JSON lines" in result.stderr


def test_without_arrivals_there_is_a_loud_warning(inputs: list[str], tmp_path: Path) -> None:
    assert "WARNING" not in call(*inputs).stderr
    pq.write_table(pa.table({"ts": [0, 1000], "x": [1, 1]}), tmp_path / "bare.parquet")
    files = [f"--input={name}={tmp_path / 'bare.parquet'}" for name in "ab"]
    result = call(*files)
    assert result.exit_code == 0
    assert "WARNING: no column `arrival` in the input of a, b: " in result.stderr
    assert "WARNING" not in call(*files, "--arrival", "ts").stderr


def test_the_advice_can_be_drawn(inputs: list[str], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = call(*inputs, "--plot", str(tmp_path / "advice.svg"))
    assert result.exit_code == 0, result.output
    assert "delay of withWatermark" in (tmp_path / "advice.svg").read_text()


def test_the_advice_can_be_a_page_with_picture_and_numbers(
    inputs: list[str], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    result = call(*inputs, "--recall", "0.8", "--plot", str(tmp_path / "advice.html"))
    assert result.exit_code == 0, result.output
    page = (tmp_path / "advice.html").read_text()
    assert "data:image/svg+xml;base64," in page
    assert "<tr><td>80.0 %</td><td>1 ms</td><td>302 ms</td></tr>" in page
    assert "Spark&#x27;s own join lets pairs out at once" in page


@pytest.mark.parametrize(
    ("file", "message"),
    [("advice.gif", "an .svg or a .png file"), ("no/where.svg", "there is no folder for")],
)
def test_a_picture_that_cannot_be_written_is_told_before_anything_is_read(
    inputs: list[str], file: str, message: str
) -> None:
    result = call(*inputs, "--plot", file)
    assert result.exit_code == 2
    assert message in result.stderr


def test_with_sources_it_says_what_waiting_for_them_gives(tmp_path: Path) -> None:
    # Device 1 of b is silent from 2 s on and comes back at 4 s, with what it had kept.
    for name in "ab":
        ts = [100 * n for n in range(60) for _ in range(2)]
        device = [0, 1] * 60
        is_held = [name == "b" and n % 2 == 1 and 2000 <= t < 4000 for n, t in enumerate(ts)]
        arrival = [4000 if is_held[n] else t for n, t in enumerate(ts)]
        table = pa.table({"ts": ts, "arrival": arrival, "device": device, "x": [1] * len(ts)})
        pq.write_table(table.sort_by("arrival"), tmp_path / f"{name}.parquet")
    inputs = [f"--input={name}={tmp_path / name}.parquet" for name in "ab"]
    plain = json.loads(call(*inputs, "--recall", "0.99", "--json", "-").stdout)
    assert "sources" not in plain
    told = json.loads(call(*inputs, "--recall", "0.99", "--source=device", "--json", "-").stdout)
    assert {name: told[name] for name in plain} == plain
    # The join stands still for the two seconds of six.
    assert told["sources"]["k_ms"] <= 100
    assert told["sources"]["wait_ms"] < 800 < plain["k_ms"]
    assert "With sources, recalljoin stops for a source" in call(*inputs, "--source=device").output
