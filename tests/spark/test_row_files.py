"""Late and refused rows of many batches: few files, and each row once."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recalljoin.spark import row_files
from recalljoin.spark.control_log import ControlLog
from recalljoin.spark.row_files import put_rows_together
from tests.effort import FEW

if TYPE_CHECKING:
    from pathlib import Path

STREAM = "a.b / c"


class Killed(Exception):
    """The driver is gone."""


def leave(log: ControlLog, batch: int, cell: int) -> None:
    rows = pa.table({"batch": [batch], "cell": [cell]})
    log.write_rows("late", STREAM, batch, cell, rows)


def found(log: ControlLog) -> list[tuple[int, int]]:
    tables = [pq.read_table(path) for path in log.row_paths("late", STREAM)]
    return sorted((row["batch"], row["cell"]) for table in tables for row in table.to_pylist())


@FEW
@given(
    late=st.lists(st.sets(st.integers(0, 1)), min_size=20, max_size=40),
    kills=st.lists(st.integers(0, 8), max_size=6),
)
def test_rows_are_put_together_and_each_is_there_once_whoever_is_killed(
    late: list[set[int]], kills: list[int]
) -> None:
    left = iter(kills)
    to_go = next(left, None)

    def dying(usual: Any) -> Any:
        def may_die(*given: Any, **more: Any) -> None:
            nonlocal to_go
            if to_go == 0:
                to_go = next(left, None)
                raise Killed
            to_go = None if to_go is None else to_go - 1
            usual(*given, **more)

        return may_die

    with TemporaryDirectory() as folder:
        log = ControlLog(folder)
        expected = []
        for batch, cells in enumerate(late):
            for cell in cells:
                leave(log, batch, cell)
                expected.append((batch, cell))
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(row_files, "TOGETHER", 3)
                for name in ("write", "remove"):
                    patched.setattr(ControlLog, name, dying(getattr(ControlLog, name)))
                try:
                    put_rows_together(log, batch - 2)
                except Killed:
                    assert found(log) == sorted(expected)
            assert found(log) == sorted(expected)


def test_hundreds_of_batches_leave_few_files(tmp_path: Path) -> None:
    log = ControlLog(str(tmp_path))
    n = 600
    for batch in range(n):
        leave(log, batch, 0)
        if batch % 16 == 15:
            put_rows_together(log, batch)
    assert len(found(log)) == n
    assert len(list((tmp_path / "late").rglob("*.parquet"))) < 60


def test_a_batch_that_is_run_again_leaves_no_row_twice(tmp_path: Path) -> None:
    log = ControlLog(str(tmp_path))
    for batch in range(40):
        leave(log, batch, 0)
    put_rows_together(log, 30)
    put_rows_together(log, 30)
    leave(log, 7, 0)
    assert found(log) == [(batch, 0) for batch in range(40)]


def test_files_that_are_large_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_files, "FILE_BYTES", 1)
    log = ControlLog(str(tmp_path))
    for batch in range(16 * 20):
        leave(log, batch, 0)
        if batch % 16 == 15:
            put_rows_together(log, batch)
    names = [each.name for each in row_files.row_files(log, row_files.folder_of("late", STREAM))[0]]
    assert len(names) == 20
    assert names[0] == f"{0:012d}-{15:012d}.parquet"
