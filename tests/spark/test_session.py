"""What a join sets in a session, what it leaves alone, and what it refuses."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from recalljoin.errors import InvalidSetting
from recalljoin.spark.session import (
    ARROW_BYTES,
    ARROW_ROWS,
    CHANGELOG,
    FILE_MANAGER,
    FILE_SYSTEM,
    PARTITIONS,
    PROVIDER,
    ROCKSDB,
    prepare,
    require,
    session_of,
)


def test_what_is_no_dataframe_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="must be a Spark DataFrame, got dict"):
        session_of({})


NO_LIMIT = str(2**31 - 1)
ROCKS = {PROVIDER: ROCKSDB, CHANGELOG: "true"}
QUICK = {FILE_MANAGER: FILE_SYSTEM}
DEFAULTS = {
    ARROW_ROWS: "10000",
    ARROW_BYTES: "67108864b",
    PARTITIONS: "200",
    PROVIDER: "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    CHANGELOG: "false",
    "spark.master": "local[2]",
    "fs.defaultFS": "file:///",
}
LIGHT = [pa.schema({"ts": pa.int64(), "x": pa.struct({"y": pa.string(), "z": pa.decimal128(9)})})]
HEAVY = [pa.schema({"ts": pa.int64()}), pa.schema({"x": pa.struct({"y": pa.list_(pa.int8())})})]


class Settings:
    """Of a session, with Spark's defaults but for what is chosen when it is built."""

    def __init__(self, chosen: dict[str, str] | None = None) -> None:
        self.chosen = chosen or {}
        self.values = DEFAULTS | self.chosen
        self.sparkContext = self.conf = self._jsc = self

    def get(self, name: str, *default: None) -> str | None:
        return self.values.get(name, *default) if default else self.values[name]

    def set(self, name: str, value: str) -> None:
        self.values[name] = value

    def unset(self, name: str) -> None:
        self.values[name] = DEFAULTS[name]

    def hadoopConfiguration(self) -> Settings:
        return self

    def getConf(self) -> Settings:
        return self

    def contains(self, name: str) -> bool:
        return name in self.chosen

    @property
    def changed(self) -> dict[str, str]:
        before = DEFAULTS | self.chosen
        return {name: value for name, value in self.values.items() if value != before.get(name)}


def test_a_join_sets_what_it_needs_and_says_so_in_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings: Any = Settings()
    require(settings, 2, LIGHT)
    assert settings.changed == ROCKS | QUICK | {PARTITIONS: "2"}
    (line,) = caplog.messages
    for name, value in settings.changed.items():
        assert f"{name}={value}" in line
    assert "for every query that is started in it from now on" in line
    assert "rj.prepare(spark)" in line
    require(settings, 2, LIGHT)
    assert len(caplog.messages) == 1


def test_prepare_sets_it_beforehand_without_a_word_and_what_makes_joins_fast(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings: Any = Settings()
    prepare(settings)
    fast = {ARROW_BYTES: NO_LIMIT, ARROW_ROWS: "2000"}
    assert settings.changed == ROCKS | QUICK | {PARTITIONS: "1"} | fast
    require(settings, 1, LIGHT)
    assert caplog.messages == []


@pytest.mark.parametrize(
    "chosen",
    [{ARROW_BYTES: "67108864b"}, {ARROW_BYTES: "1000b"}, {ARROW_ROWS: "0"}],
    ids=["default", "bytes", "rows"],
)
def test_prepare_leaves_alone_what_somebody_has_chosen(chosen: dict[str, str]) -> None:
    settings: Any = Settings({**chosen, PARTITIONS: "1", PROVIDER: ROCKSDB, FILE_MANAGER: "mine"})
    prepare(settings)
    assert settings.changed == {}


@pytest.mark.parametrize(
    "elsewhere",
    [{"fs.defaultFS": "hdfs://namenode:9000"}, {"spark.master": "spark://master:7077"}],
    ids=["files", "workers"],
)
def test_how_checkpoints_are_written_is_left_alone_where_they_may_be_elsewhere(
    elsewhere: dict[str, str],
) -> None:
    settings: Any = Settings(elsewhere)
    prepare(settings, groups=1)
    assert FILE_MANAGER not in settings.values


def test_a_join_of_rows_of_any_size_takes_back_what_prepare_has_lifted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings: Any = Settings()
    prepare(settings)
    require(settings, 1, HEAVY)
    assert settings.changed == ROCKS | QUICK | {PARTITIONS: "1"}
    assert "as rows of this join may be large" in caplog.text
    # What somebody else has set is left alone.
    settings.set(ARROW_BYTES, NO_LIMIT)
    require(settings, 1, HEAVY)
    assert settings.get(ARROW_BYTES) == NO_LIMIT


@pytest.mark.parametrize("call", [prepare, lambda s: require(s, 1, LIGHT)],
                         ids=["prepare", "require"])  # fmt: skip
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (PARTITIONS, "16", r"is 16, but the join has 1 group of cells.*Set it to 1"),
        (PROVIDER, DEFAULTS[PROVIDER], r"which needs RocksDB; .* set it to 'org"),
    ],
)
def test_what_somebody_has_chosen_and_a_join_cannot_run_with_is_refused(
    call: Any, name: str, value: str, message: str
) -> None:
    settings = Settings({name: value})
    with pytest.raises(InvalidSetting, match=message):
        call(settings)
    assert settings.changed == {}
