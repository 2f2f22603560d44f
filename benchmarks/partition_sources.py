"""What it costs to follow partitions while nothing is wrong.

``python -m benchmarks.partition_sources [--data x3 ...] [--recall 0.95 ...] [--seeds 1]``

Tuples are dealt to the partitions of a topic in order of arrival, by key or in turn. Nothing in a
partition is in order by itself then, and no partition announces anything. Partitions are followed
in two ways: as sources that a job names, and as partitions that no job names are followed, which
are waited for only while they run apart.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click
import numpy as np
import pyarrow as pa

from benchmarks.choosing_k import aligned, markdown
from benchmarks.engine import prepare
from benchmarks.measure import machine
from benchmarks.source_clocks import FIRST, MUST_REACH
from benchmarks.source_clocks_data import SOURCED, with_sources
from recalljoin.datasets import make_syn_x3
from recalljoin.quality.adaptive import run_adaptive, true_results
from recalljoin.quality.policies import make_policy
from recalljoin.quality.settings import PolicySettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from recalljoin.engine.arrivals import Arrivals
    from recalljoin.query.bound_query import BoundQuery

PARTITIONS = 3
TICK = 100
"""Milliseconds."""
LENGTH = 15 * 60_000
"""Milliseconds of generated streams."""
KEYS = {"x3": "a1"} | {name: case.source for name, case in SOURCED.items()}
"""What a producer would take as the key of a message, by data."""
WAYS = ("by key", "in turn")
COLUMNS = (
    "data", "partitions", "recall", "wait without, ms", "Φ(Γ) %", "Φ(.99Γ) %", "as sources, ms",
    "Φ(Γ) %", "Φ(.99Γ) %", "if apart, ms", "Φ(Γ) %", "Φ(.99Γ) %",
)  # fmt: skip


def dealt(table: pa.Table, key: str, way: str) -> pa.Table:
    """The stream with the partition of each tuple."""
    place = np.arange(table.num_rows)
    if way == "by key":
        values = table[key].combine_chunks().dictionary_encode()
        # Multiplied, as a broker takes a hash: neighbours are not dealt in turn.
        place = (values.indices.to_numpy(zero_copy_only=False).astype(np.int64) * 2654435761) >> 16
    return table.append_column("part", pa.array(place % PARTITIONS))


def streams_of(name: str, seed: int, way: str) -> tuple[BoundQuery, Arrivals]:
    """The streams of one seed with their partitions; the query names no sources."""
    if name in SOURCED:
        query, tables = SOURCED[name].make(seed)
    else:
        data = make_syn_x3(seed, duration=LENGTH)
        query, tables = data.query, {stream: data.table(stream) for stream in data.streams}
    parts = {stream: dealt(table, KEYS[name], way) for stream, table in tables.items()}
    return prepare(f"{query} WITH RECALL 0.95 OVER 1 MINUTE", parts)


def measured(name: str, seed: int, way: str, recalls: Sequence[float]) -> Iterator[list[float]]:
    """Wait, Φ(Γ) and Φ(.99 Γ) at each recall, without sources and with partitions in two ways."""
    query, arrivals = streams_of(name, seed, way)
    truth = true_results(query, arrivals)
    start = int(arrivals.ts.min())
    for recall in recalls:
        found = []
        sourced = with_sources(query, "part")
        for bound, takes_leads in ((query, True), (sourced, True), (sourced, False)):
            settings = replace(PolicySettings.of(query), recall=recall, takes_leads=takes_leads)
            policy = make_policy("slack", settings)
            record = run_adaptive(
                bound, arrivals, policy, settings=settings, arrival="tick", tick=TICK,
                truth=truth, slack=False,
            )  # fmt: skip
            late = np.flatnonzero(record.join_time >= start + (1 + FIRST) * record.period)
            total, n = record.waits[late].sum(axis=0).tolist()
            shown = record.recall[late][record.counts[late]]
            found += [total / n, *(100 * float((shown >= s * recall).mean()) for s in (1, 0.99))]
        yield found


@click.command()
@click.option("--data", multiple=True, type=click.Choice(list(KEYS)), default=list(KEYS))
@click.option("--seeds", type=int, default=1, show_default=True)
@click.option(
    "--recall", "recalls", multiple=True, type=click.Choice([f"{r:g}" for r in MUST_REACH]),
    default=["0.9", "0.95", "0.99"],
)  # fmt: skip
@click.option("--table", is_flag=True, help="Print the table as Markdown.")
def main(*, data: tuple[str, ...], seeds: int, recalls: tuple[str, ...], table: bool) -> None:
    """Compare waits with and without following partitions, as the mean over seeds."""
    wanted = [float(recall) for recall in recalls]
    rows: list[tuple[str, ...]] = [COLUMNS]
    for name in data:
        for way in WAYS:
            runs = [list(measured(name, seed, way, wanted)) for seed in range(seeds)]
            for recall, found in zip(recalls, np.mean(runs, axis=0).tolist(), strict=True):
                cells = (f"{value:.0f}" if at % 3 == 0 else f"{value:.2f}"
                         for at, value in enumerate(found))  # fmt: skip
                rows.append((name, way, recall, *cells))
                print(*rows[-1], flush=True)
    print(markdown(rows) if table else f"{machine()}\n\n{aligned(rows)}")


if __name__ == "__main__":
    main()
