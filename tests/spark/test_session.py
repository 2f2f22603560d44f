"""What is no session for a join is refused in words."""

from __future__ import annotations

import pytest

from recalljoin.errors import InvalidSetting
from recalljoin.spark.session import session_of


def test_spark_connect_is_refused_with_what_to_do_instead() -> None:
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
    with pytest.raises(InvalidSetting, match="joins under Spark Connect are not supported"):
        session_of(frame)


def test_what_is_no_dataframe_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="must be a Spark DataFrame, got dict"):
        session_of({})
