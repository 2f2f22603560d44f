"""Which columns the data of a stream have, whatever they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from recalljoin import DatasetError, InvalidQuery, InvalidSetting, Query, Stream, explain
from recalljoin.query.sources import schema_of

if TYPE_CHECKING:
    from pathlib import Path

TABLE = pa.table({"ts": [1, 2], "x": ["a", "b"]})


def in_csv(folder: Path) -> Path:
    pyarrow.csv.write_csv(TABLE, folder / "t.csv")
    return folder / "t.csv"


def in_tsv(folder: Path) -> Path:
    options = pyarrow.csv.WriteOptions(delimiter="\t")
    pyarrow.csv.write_csv(TABLE, folder / "t.tsv", options)
    return folder / "t.tsv"


def in_parquet(folder: Path) -> str:
    pq.write_table(TABLE, folder / "t.parquet")
    return str(folder / "t.parquet")


def in_a_folder(folder: Path) -> Path:
    (folder / "many").mkdir()
    (folder / "many" / "_SUCCESS").touch()
    pyarrow.csv.write_csv(TABLE, folder / "many" / "part-0.csv")
    return folder / "many"


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(lambda _: TABLE, id="table"),
        pytest.param(lambda _: TABLE.schema, id="schema"),
        pytest.param(lambda _: TABLE.to_reader(), id="reader"),
        in_csv,
        in_tsv,
        in_parquet,
        in_a_folder,
    ],
)
def test_columns_are_known_of_tables_schemas_and_files(given: Any, tmp_path: Path) -> None:
    assert schema_of(given(tmp_path), stream="s") == TABLE.schema


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"there is no file '.*nowhere\.csv'"):
        schema_of(tmp_path / "nowhere.csv", stream="s")
    (tmp_path / "empty.csv").touch()
    with pytest.raises(DatasetError, match=r"file '.*empty\.csv' is empty; it must at least name"):
        schema_of(tmp_path / "empty.csv", stream="s")
    (tmp_path / "empty.csv").unlink()
    with pytest.raises(DatasetError, match="holds no file"):
        schema_of(tmp_path, stream="s")
    (tmp_path / "a.parquet").write_text("no Parquet")
    with pytest.raises(DatasetError, match="cannot be read as Parquet"):
        schema_of(tmp_path / "a.parquet", stream="s")
    with pytest.raises(InvalidSetting, match=r"the data of stream `s` must be .*, got list"):
        schema_of([], stream="s")


def test_a_query_is_explained_by_what_its_streams_carry_or_are_given() -> None:
    text = "SELECT * FROM a [5 SEC], b [5 SEC] WHERE a.x = b.x"
    query = Query(
        streams=[Stream("a", TABLE, window="5 s"), Stream("b", window="5 s")], condition="a.x = b.x"
    )
    told = explain(query, {"b": TABLE.schema})
    assert "a.x = b.x  (string)" in told
    assert explain(text, {"a": TABLE, "b": TABLE}) == told
    assert "arrival ts" in explain(query, {"b": TABLE}, arrival="ts")


def test_faults_of_a_text_and_of_its_columns_come_together() -> None:
    with pytest.raises(InvalidQuery) as error:
        explain("SELECT * FROM a, b [5 SEC] WHERE a.x = b.y", {"a": TABLE, "b": TABLE}, time="at_t")
    text = str(error.value)
    for fault in ("stream `a` has no window", "has no time column `at_t`", "`y`"):
        assert fault in text


def test_the_data_of_a_stream_neither_fill_its_repr_nor_tell_it_from_another() -> None:
    one = Stream("a", TABLE, window="5 s", arrival="at")
    assert repr(one) == "Stream('a', <Table>, time='ts', window='5 s', arrival='at')"
    assert one == Stream("a", window="5 s", arrival="at")
