"""The share of results that have come to light, by their age."""

from __future__ import annotations

import numpy as np
import pytest

from recalljoin.quality.share_known import Shown
from tests.unit.quality.intervals import interval


@pytest.mark.parametrize(("tick", "known"), [(1000, 0.5), (0, 0.95)])
def test_near_the_end_of_a_long_tick_more_is_missing_than_on_average(
    tick: int, known: float
) -> None:
    # Of 1000 results 50 are found late, all within an age of 100. Of the 100 last ones in a tick
    # that are as long as 1000, half are missing; where there is no tick, 50 in 1000 are.
    shown = Shown(memory=10**6)
    late = [0] + [1, 0] * 50
    for n in range(1, 30):
        end = 1000 * n
        shown.observe(interval([950], late, join_time=end, base_time=end, tick_span=tick))
    assert shown.share(np.array([0]))[0] == pytest.approx(known, abs=0.05)
    assert shown.share(np.array([200]))[0] == pytest.approx(1.0, abs=0.01)
