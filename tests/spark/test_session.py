"""What is no session for a join is refused in words."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from recalljoin.errors import InvalidSetting
from recalljoin.spark.session import ARROW_BYTES, ARROW_ROWS, prepare_arrow, session_of


def test_what_is_no_dataframe_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="must be a Spark DataFrame, got dict"):
        session_of({})


DEFAULTS = {ARROW_ROWS: "10000", ARROW_BYTES: "67108864b"}


class Settings:
    """Of a session, with Spark's defaults."""

    def __init__(self, **chosen: str) -> None:
        self.values = DEFAULTS | chosen
        self.sparkContext = self.conf = self
        self.chosen = chosen

    def get(self, name: str) -> str:
        return self.values[name]

    def set(self, name: str, value: str) -> None:
        self.values[name] = value

    def unset(self, name: str) -> None:
        self.values[name] = DEFAULTS[name]

    def getConf(self) -> Settings:
        return self

    def contains(self, name: str) -> bool:
        return name in self.chosen


@pytest.mark.parametrize(
    ("kind", "chosen", "expected"),
    [
        (pa.string(), {}, str(2**31 - 1)),
        (pa.struct({"x": pa.timestamp("us"), "y": pa.decimal128(9)}), {}, str(2**31 - 1)),
        # Rows of these may be of any size.
        (pa.binary(), {}, "67108864b"),
        (pa.struct({"x": pa.list_(pa.int8())}), {}, "67108864b"),
        # Somebody has thought about it.
        (pa.int64(), {ARROW_BYTES: "67108864b"}, "67108864b"),
        (pa.int64(), {ARROW_BYTES: "1000b"}, "1000b"),
        (pa.int64(), {ARROW_ROWS: "0"}, "67108864b"),
    ],
)
def test_spark_weighs_no_rows_that_are_light(
    kind: pa.DataType, chosen: dict[str, str], expected: str
) -> None:
    settings: Any = Settings(**chosen)
    prepare_arrow(settings, [pa.schema({"ts": pa.int64()}), pa.schema({"x": kind})])
    assert settings.get(ARROW_BYTES) == expected


def test_a_join_of_heavy_rows_takes_back_what_one_of_light_rows_has_set() -> None:
    settings: Any = Settings()
    prepare_arrow(settings, [pa.schema({"x": pa.int64()})])
    assert settings.values == {ARROW_ROWS: "2000", ARROW_BYTES: str(2**31 - 1)}
    prepare_arrow(settings, [pa.schema({"x": pa.binary()})])
    assert settings.values == DEFAULTS
    # What somebody else has set is left alone.
    settings.set(ARROW_BYTES, str(2**31 - 1))
    prepare_arrow(settings, [pa.schema({"x": pa.binary()})])
    assert settings.get(ARROW_BYTES) == str(2**31 - 1)
