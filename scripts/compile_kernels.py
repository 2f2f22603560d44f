"""Calls every kernel once, so that the machine code is there when the first join asks for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from recalljoin import parse_query, replay
from recalljoin.datasets import SimulatedMatch, make_syn_x3, make_syn_x4
from recalljoin.engine.arrivals import arrivals_of
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.step import drain
from recalljoin.quality.adaptive import run_adaptive, true_results
from recalljoin.quality.policies import make_policy
from recalljoin.quality.settings import PolicySettings

MATCH = SimulatedMatch(duration=4000)

for dataset in (make_syn_x3(duration=4000), make_syn_x4(duration=4000), MATCH):
    tables = {name: dataset.table(name) for name in dataset.streams}
    query = replace(parse_query(dataset.query, arrival="arrival"), select="count(*)")
    bound = query.bind({name: table.schema for name, table in tables.items()})
    arrivals = arrivals_of(bound, tables)
    settings = replace(PolicySettings.of(bound), period=2000, interval=500)
    true_results(bound, arrivals)
    for policy in ("slack", "noneqsel"):
        run_adaptive(bound, arrivals, make_policy(policy, settings), settings)
    by_tick = make_policy("slack", settings)
    run_adaptive(bound, arrivals, by_tick, settings, arrival="tick", tick=100)
    # As Spark's cells do it: rows, folded.
    few = {name: table.slice(0, 20) for name, table in tables.items()}
    rows = replace(query, select="*").bind({name: table.schema for name, table in few.items()})
    cell = Pipeline(rows, EngineSettings(arrival="tick", folded=True, slack=True))
    arrived = arrivals_of(rows, few)
    drain(cell.push_ticks(arrived, np.zeros(len(arrived), dtype=np.int64), n_ticks=1, k=0))
    drain(cell.flush())

players = {name: MATCH.table(name).slice(0, 200) for name in MATCH.streams}
for tick in (None, 100):
    replay(MATCH.query, players, k=100, arrival="arrival", tick=tick).table()
