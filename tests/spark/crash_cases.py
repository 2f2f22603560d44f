"""The joins that are killed: which kind, over which recorded tuples, with which options."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tests.spark.recorded import record

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from recalljoin.query.kinds import Emit, How
    from tests.spark.recorded import Recording

N_TICKS = 24
SEED = 11


@dataclass(frozen=True)
class Case:
    """A join that learns its slack, unless it is a join of a join."""

    how: How = "inner"
    emit: Emit = "ordered"
    windows: tuple[int, int] = (100, 60)
    cells: int = 2
    groups: int = 1
    per_tick: tuple[int, int] = (8, 16)
    """How many tuples a stream has in a tick, from and up to."""
    hot: float = 0.0
    """Share of the tuples with one key; other keys are many then."""
    late_rows: bool = False
    chained: bool = False
    """Whether the results are joined with a third stream."""
    in_turn: tuple[tuple[int, int], ...] = ()
    """Cells and groups of one start after the other, if they change."""
    master: str = "local[2]"
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def m(self) -> int:
        """Number of streams."""
        return 3 if self.chained else 2

    def recording(self, n_ticks: int) -> Recording:
        """The tuples that arrive."""
        return record(self.m, n_ticks, seed=SEED, per_tick=self.per_tick, hot=self.hot)

    def joined(self, frames: list[DataFrame], folder: Path) -> DataFrame:
        """The join of the streams."""
        import recalljoin as rj

        s1, s2, *others = frames
        aim: dict[str, Any] = {"recall": 0.9, "period": 400, "interval": 50, "granularity": 10}
        if self.chained:
            aim = {"k": 10_000}
        aim |= {"cells": self.cells, "groups": self.groups, "flush": True, **self.options}
        first = rj.join(
            rj.Stream("s1", s1, window=self.windows[0]),
            rj.Stream("s2", s2, window=self.windows[1]),
            on="s1.a = s2.a",
            how=self.how,
            emit=self.emit,
            late_rows=self.late_rows,
            control_log=str(folder / "log"),
            **aim,
        )
        if not self.chained:
            return first
        flat = first.selectExpr("s1.a", "s1.place AS one", "s2.place AS two", "result_time")
        return rj.join(
            rj.Stream("j", flat, time="result_time", window=self.windows[0]),
            rj.Stream("s3", others[0], window=self.windows[1]),
            on="j.a = s3.a",
            select="j.one, j.two, s3.place AS three",
            control_log=str(folder / "log2"),
            name="second",
            **aim,
        )


CASES = {
    "adaptive": Case(),
    "eager-outer": Case(how="left", emit="eager"),
    # So many that the join takes the key for hot after a few batches.
    "hot-keys": Case(windows=(4, 3), cells=4, per_tick=(450, 550), hot=0.4),
    "late-rows": Case(late_rows=True),
    "groups": Case(cells=4, groups=2),
    "executors": Case(groups=2, master="local-cluster[2,1,1024]"),
    "chained": Case(chained=True, windows=(40, 30)),
    "growing": Case(
        how="left", emit="eager", late_rows=True, in_turn=((2, 1), (4, 2), (1, 1), (3, 2))
    ),
    "together": Case(how="left", emit="eager", late_rows=True, cells=4, groups=2),
}


def case_in(folder: Path) -> Case:
    """The case that a folder was made for; its file `changes` has other values of some fields."""
    case = CASES[(folder / "case").read_text()]
    changes = folder / "changes"
    return replace(case, **json.loads(changes.read_text())) if changes.exists() else case


def next_case_in(folder: Path) -> Case:
    """The case that a folder was made for, as it is to be started the next time."""
    case = case_in(folder)
    if not case.in_turn:
        return case
    count = folder / "starts"
    n = int(count.read_text()) if count.exists() else 0
    count.write_text(str(n + 1))
    cells, groups = case.in_turn[n % len(case.in_turn)]
    return replace(case, cells=cells, groups=groups)


def frames_in(case: Case, spark: SparkSession, folder: Path) -> list[DataFrame]:
    """The streams, a tick a batch."""
    return case.recording(0).frames(spark, folder / "in")
