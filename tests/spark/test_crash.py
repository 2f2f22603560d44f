"""A driver killed with signal 9 and started again leaves the output it would have left.

One kill here; `make soak` does twenty, and compares with a run nobody disturbs as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.soak_crash import hunt

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.timeout(900)
def test_a_kill_at_a_random_point_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    assert hunt(tmp_path, kills=1, n_ticks=6) == 1


@pytest.mark.timeout(900)
def test_a_kill_of_an_outer_join_whose_results_leave_at_once_is_not_seen_either(
    tmp_path: Path,
) -> None:
    assert hunt(tmp_path, kills=1, n_ticks=8, seed=1, kind=("left", "eager")) == 1
