"""Several cells together do what one operator instance does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="experiments run on Spark")

from recalljoin.engine.arrivals import ticks_of
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.quality.adaptive import run_adaptive, run_replay
from recalljoin.quality.cell import Cell, Measures
from recalljoin.quality.policies import make_policy
from recalljoin.quality.replay import TickReplay
from recalljoin.quality.settings import PolicySettings
from recalljoin.spark.cells import make_grid
from recalljoin.spark.shares import owned_by, shares_of
from tests.experiments.bound import bound_arrivals
from tests.experiments.recordings import disordered

if TYPE_CHECKING:
    from recalljoin.quality.record import RunRecord

KEYED = "SELECT count(*) FROM a [2 SEC], b [1 SEC] WHERE a.key = b.key"
THETA = "SELECT count(*) FROM a [300 MS], b [200 MS] WHERE abs(a.id - b.id) < 10"


def run(text: str, policy: str, *, cells: int | None, **options: Any) -> RunRecord:
    """In ticks of 50 ms, K adapting every second; by one instance if ``cells`` is None."""
    query, arrivals = bound_arrivals(text, disordered())
    settings = replace(PolicySettings.of(query), recall=0.9, period=4000)
    maker = make_policy(policy, settings, **options)
    if cells is None:
        return run_adaptive(query, arrivals, maker, settings, arrival="tick", tick=50)
    engine = EngineSettings(arrival="tick", rows=False, slack=True, retention=4000)
    grid = make_grid(query, cells)
    assert grid.n_cells > 1 or cells == 1
    measures = Measures.of(settings)
    instances = [
        Cell(Pipeline(query, engine), measures, owned=owned_by(grid, n), whole=grid.n_cells == 1)
        for n in range(grid.n_cells)
    ]
    shares = shares_of(query, grid, arrivals, ticks_of(arrivals, 50))
    source = TickReplay(instances, arrivals, None, 50, batch=1000, shares=shares)
    return run_replay(source, maker, settings)


@pytest.mark.parametrize("cells", [1, 2, 3, 5])
@pytest.mark.parametrize("text", [KEYED, THETA])
def test_a_fixed_slack_gives_what_one_instance_gives(text: str, cells: int) -> None:
    one = run(text, "fixed", cells=None, k=150)
    many = run(text, "fixed", cells=cells, k=150)
    assert one.n_lost > 0
    for name in ("n_produced", "n_true", "n_lost", "n_late", "n_beyond", "n_tuples"):
        assert getattr(many, name) == getattr(one, name), name
    # Batches of a second end where the arrival clock has, intervals where the streams have.
    assert abs(len(many.k) - len(one.k)) <= 1
    assert many.mean_recall == pytest.approx(one.mean_recall, abs=0.01)
    assert one.latency is not None
    assert many.latency is not None
    assert many.latency.mean == pytest.approx(one.latency.mean, rel=0.02)


@pytest.mark.parametrize("policy", ["slack", "noneqsel", "percentile", "max"])
def test_every_policy_chooses_the_same_on_two_and_on_three_cells(policy: str) -> None:
    two, three = run(KEYED, policy, cells=2), run(KEYED, policy, cells=3)
    assert two.k.tolist() == three.k.tolist()
    assert len(set(two.k.tolist())) > 1
    assert two.n_produced == three.n_produced
    assert np.array_equal(two.recall, three.recall, equal_nan=True)
