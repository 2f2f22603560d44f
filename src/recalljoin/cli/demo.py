"""A small join on generated data, to see what waiting buys."""

from __future__ import annotations

from time import perf_counter

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from recalljoin.engine.replay import replay

QUERY = """SELECT o.id, o.amount, p.amount AS paid
FROM o [5 SEC], p [5 SEC]
WHERE o.id = p.order_id AND abs(o.amount - p.amount) < 1"""
_WAITS_MS = (0, 100, 300, 1000, 3000, 10000)


def disordered_orders(minutes: float, seed: int) -> dict[str, pa.Table]:
    """Orders and their payments, 100 a second each, some of them up to 10 s late."""
    rng = np.random.default_rng(seed)
    n = int(minutes * 6000)
    ordered = np.sort(rng.integers(0, int(minutes * 60_000), n))
    paid = ordered + rng.exponential(800, n).astype(np.int64)
    ids = np.array([f"order-{number:06d}" for number in range(n)])
    amount = rng.uniform(5, 50, n).round(2)

    def stream(ts: np.ndarray, columns: dict[str, object]) -> pa.Table:
        # Most arrive within a few milliseconds, some after a retry or two.
        retries = np.minimum(rng.geometric(0.75, n) - 1, 8)
        delay = rng.integers(0, 20, n) + np.where(retries > 0, 40 * 2**retries, 0)
        table = pa.table({"arrival": ts + delay, "ts": ts, **columns})
        return table.sort_by("arrival")

    return {
        "o": stream(ordered, {"id": ids, "amount": amount}),
        "p": stream(paid, {"order_id": ids, "amount": amount}),
    }


def run_demo(*, minutes: float, seed: int) -> None:
    """Generate, join with several waits, and print what came of it."""
    console = Console()
    console.print(f"[bold]Query[/bold]\n{QUERY}\n")
    inputs = disordered_orders(minutes, seed)
    n = sum(table.num_rows for table in inputs.values())
    console.print(f"{n:,} tuples of 2 streams, {minutes:g} minutes, out of order; generated.\n")
    table = Table("wait (K)", "recall", "produced", "lost", "late tuples", "seconds")
    for column in table.columns:
        column.justify = "right"
    first = None
    for wait in _WAITS_MS:
        start = perf_counter()
        joined = replay(QUERY, inputs, k=wait, arrival="arrival", retention="1 minute")
        results = joined.table()
        first = first if first is not None else results.slice(0, 3)
        table.add_row(
            f"{wait / 1000:g} s",
            f"{joined.recall:.4f}",
            f"{joined.produced:,}",
            f"{joined.lost:,}",
            f"{joined.late:,}",
            f"{perf_counter() - start:.2f}",
        )
    if first is not None:
        console.print("[bold]First results[/bold]")
        for row in first.to_pylist():
            console.print(row)
    console.print()
    console.print(table)
    console.print(
        "Every lost result was counted when its last member came too late, so the recall is "
        "measured, not estimated."
    )
