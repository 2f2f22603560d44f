"""A driver killed with signal 9 and started again leaves the output it would have left.

One kill here; `make soak` does twenty of each case, and compares with a run nobody disturbs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.soak_crash import hunt

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.timeout(900)
def test_a_kill_of_an_eager_outer_join_with_late_rows_and_groups_is_not_seen(
    tmp_path: Path,
) -> None:
    assert hunt(tmp_path, "together", kills=1, n_ticks=6, seed=1) == 1


@pytest.mark.timeout(900)
def test_a_kill_of_a_join_of_a_join_is_not_seen_either(tmp_path: Path) -> None:
    assert hunt(tmp_path, "chained", kills=1, n_ticks=4, seed=2) == 1
