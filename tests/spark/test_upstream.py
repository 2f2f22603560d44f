"""The joins that a DataFrame of Spark Connect comes from are found in its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql.connect.plan import (
    DataSource,
    Deduplicate,
    LogicalPlan,
    SetOperation,
    SubqueryAlias,
)

from recalljoin.engine.times import FOREVER
from recalljoin.spark.chained import Upstream, _in_connect, _shuffles_in_connect
from recalljoin.spark.control_log import ControlLog
from recalljoin.spark.packing import Control
from tests.spark.local_cells import LocalJoin
from tests.spark.test_control import BOUND, ticks

if TYPE_CHECKING:
    from pathlib import Path


def read(name: str, plan: str) -> LogicalPlan:
    return DataSource(format=name, options={"plan": plan}, is_streaming=True)


def test_every_control_source_in_a_plan_is_found() -> None:
    one, other = read("control", "one"), read("parquet", "other")
    both = SetOperation(SubqueryAlias(one, "a"), other, "union")
    deep = SetOperation(read("control", "two"), SubqueryAlias(both, "b"), "union")
    assert sorted(_in_connect(deep, "control")) == ["one", "two"]
    assert list(_in_connect(other, "control")) == []


def test_a_shuffle_in_a_plan_is_found() -> None:
    plain = SetOperation(read("parquet", "one"), SubqueryAlias(read("rate", "two"), "a"), "union")
    assert not _shuffles_in_connect(plain)
    assert _shuffles_in_connect(SubqueryAlias(Deduplicate(plain, all_columns_as_keys=True), "b"))


@pytest.mark.parametrize("flush", [False, True])
def test_a_join_has_ended_when_a_batch_had_no_data_and_everything_is_released(
    tmp_path: Path, flush: bool
) -> None:
    before = Upstream(ControlLog(str(tmp_path)), flush, "first")
    assert not before.has_ended()
    join = LocalJoin(BOUND, 2, tmp_path)
    join.batch(ticks(1)[0], control=Control(k=0, clock=1))
    assert not before.has_ended()
    join.batch([], control=Control(k=0, clock=2))
    assert before.has_ended() == (not flush)
    _, report = join.batch([], control=Control(k=0, clock=3, flush=True))
    assert report.watermark == FOREVER
    assert before.has_ended()
    # Data of a later run: it has not ended yet.
    join.batch(ticks(1)[0], control=Control(k=0, clock=4))
    assert not before.has_ended()
