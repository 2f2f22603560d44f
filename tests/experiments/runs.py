"""Records of real runs over a small recording, made without Spark."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from recalljoin.engine.arrivals import arrivals_of
from recalljoin.quality.adaptive import run_adaptive
from recalljoin.quality.policies import make_policy
from recalljoin.quality.settings import PolicySettings
from recalljoin.query.quality import Quality
from recalljoin.query.text import parse_query
from tests.experiments.recordings import QUERY, disordered

if TYPE_CHECKING:
    from recalljoin.quality.record import RunRecord


@cache
def record_of(policy: str, recall: float = 0.9) -> RunRecord:
    """A run over 20 s of two streams, with a period of 5 s."""
    tables = disordered()
    query = replace(parse_query(QUERY), quality=Quality(recall=recall, period="5 s"))
    columns = {name: table.drop_columns("arrival") for name, table in tables.items()}
    bound = query.bind({name: table.schema for name, table in columns.items()})
    settings = PolicySettings.of(bound)
    return run_adaptive(bound, arrivals_of(bound, columns), make_policy(policy, settings), settings)
