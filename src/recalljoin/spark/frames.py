"""Arrow in the clothes of pandas.

transformWithState takes pandas frames and makes Arrow of them, value by value where types are
nested. A frame whose columns are Arrow arrays already goes through at no cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd  # type: ignore[import-untyped]

if TYPE_CHECKING:
    import pyarrow as pa


def in_pandas(batch: pa.RecordBatch) -> pd.DataFrame:
    """The same memory as a frame, for Spark alone."""
    columns = {
        name: pd.Series(pd.arrays.ArrowExtensionArray(column), copy=False)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    return _Frame(columns, copy=False)


class _Column(pd.Series):  # type: ignore[misc]
    @property
    def _constructor(self) -> type[_Column]:
        return _Column

    def apply(self, *_: Any, **__: Any) -> _Column:
        # Spark means to make nested values fit for Arrow here; they come from there.
        return self


class _Frame(pd.DataFrame):  # type: ignore[misc]
    @property
    def _constructor(self) -> type[_Frame]:
        return _Frame

    @property
    def _constructor_sliced(self) -> type[_Column]:
        return _Column
