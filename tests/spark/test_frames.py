"""Arrow through Spark's conversion from pandas: what goes in comes out, and is not copied."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
from pyspark.sql.conversion import PandasToArrowConversion
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from recalljoin.spark.group import in_pandas


def through_spark(batch: pa.RecordBatch) -> pa.StructArray:
    """What a worker does with a frame that leaves transformWithState."""
    schema = StructType().add("_0", from_arrow_schema(batch.schema))
    converted = PandasToArrowConversion.convert(
        [in_pandas(batch)], schema, timezone="UTC", arrow_cast=True, assign_cols_by_name=True
    )
    return converted.column(0)


def test_nested_values_come_out_as_they_went_in() -> None:
    rows = pa.RecordBatch.from_pylist(
        [
            {
                "s": {"x": [1, None], "y": {"z": "ü"}},
                "m": [("k", Decimal("1.50"))],
                "b": b"\x00\xff",
                "t": datetime(2020, 1, 1, tzinfo=UTC),
                "n": None,
            }
        ],
        schema=pa.schema(
            {
                "s": pa.struct({"x": pa.list_(pa.int64()), "y": pa.struct({"z": pa.string()})}),
                "m": pa.map_(pa.string(), pa.decimal128(10, 2)),
                "b": pa.binary(),
                "t": pa.timestamp("us", "UTC"),
                "n": pa.null(),
            }
        ),
    )
    found = through_spark(rows)
    assert [found.field(name) for name in rows.schema.names] == rows.columns
    assert [field.type for field in found.type] == rows.schema.types


def test_nothing_is_copied() -> None:
    kind = pa.struct({"x": pa.int64(), "y": pa.list_(pa.float64())})
    rows = pa.record_batch(
        {
            "a": pa.array(range(1000)),
            "s": pa.array([{"x": 1, "y": [0.5]}, None] * 500, kind),
            "t": pa.array(range(1000), pa.timestamp("us", "UTC")),
        }
    )
    found = through_spark(rows)
    for name in rows.schema.names:
        addresses = [
            [buffer and buffer.address for buffer in array.buffers()]
            for array in (found.field(name), rows.column(name))
        ]
        assert addresses[0] == addresses[1]
