"""A driver killed with signal 9 and started again leaves the output of one never killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.soak_crash import compare

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.timeout(1200)
def test_kills_at_random_points_change_neither_results_nor_slacks(tmp_path: Path) -> None:
    assert compare(tmp_path, kills=3) == 3
