"""What a user feels: the fixed cost of a batch, the start, a second core, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.inputs import Input
from benchmarks.measure import Report
from benchmarks.spark_systems import (
    AS_OURS,
    EMPTY,
    FLOOR,
    JOINS,
    OTHERS,
    OURS,
    SHAPE,
    in_process,
    same_results,
)

if TYPE_CHECKING:
    from pathlib import Path

SMALL = 1_000
"""Tuples of a stream in a batch, where only the batch counts."""
WARM_UPS = 20
"""Batches after which the JVM has compiled what runs in every batch."""
PARTS = ("latestOffset", "queryPlanning", "addBatch", "walCommit", "commitOffsets")


def a_batch(folder: Path, n_batches: int) -> Report:
    """Batches with hardly any tuples in them, beside queries that join nothing."""
    report = Report(
        "On Spark: a batch of 2,000 tuples",
        ("system", "ms a batch", *PARTS, "to the floor", "to Spark's better store"),
        note=f"Milliseconds, medians over the later half of {n_batches} batches. The floor is "
        f"`groupBy().count()` with one RocksDB partition. `{SHAPE}` has the stages of our join, in "
        f"Python as well: Spark's own part in them. `{AS_OURS.strip()}`: Spark with the one "
        "setting besides that ours changes, by which checkpoints on a local disk are written "
        "faster. Targets: at most 1.3 times the floor and at most 0.65 times Spark's own join, "
        "as Spark runs when nothing is set.",
    )
    made = Input(SMALL * n_batches, n_batches)
    as_ours = [f"{system}{AS_OURS}" for system in (FLOOR, *OTHERS)]
    runs = {system: in_process(system, made, folder) for system in (*EMPTY, *JOINS, *as_ours)}
    same_results(runs[system] for system in JOINS)
    floor = runs[FLOOR].median_batch
    best = min(runs[system].median_batch for system in OTHERS)
    for system, one in runs.items():
        report.add(
            system, f"{one.median_batch * 1000:.0f}", *(f"{one.parts[p]:.0f}" for p in PARTS),
            f"{one.median_batch / floor:.2f}", f"{one.median_batch / best:.2f}",
        )  # fmt: skip
    return report


def start(folder: Path, n_in_window: int) -> Report:
    """From the start of a query to its first committed batch; and again from its checkpoint."""
    report = Report(
        "On Spark: the start",
        ("system", "first start (s)", "restart (s)", "state on disk (MB)"),
        note="Seconds from `start()` until the first batch is committed, in a new process whose "
        "session is up. The restart goes on from the checkpoint, with all tuples in the windows. "
        f"`{SHAPE}` has the stages of our join and no tuples in its state. Target: no longer than "
        "Spark's own join.",
    )
    # A window that holds all tuples, and two batches more after the restart.
    made = Input(n_in_window, 6, window=60_000)
    for system in (*JOINS, SHAPE):
        work = folder / f"work-{system}"
        first = in_process(system, made, folder, work=work, files=5)
        again = in_process(system, made, folder, work=work)
        megabytes = f"{again.checkpoint_bytes / 1e6:.0f}"
        report.add(system, f"{first.start:.1f}", f"{again.start:.1f}", megabytes)
    return report


def two_cores(folder: Path, n: int) -> Report:
    """Ours on one core and on two."""
    report = Report(
        "On Spark: a second core",
        ("cores", "tuples", "s", "times one core"),
        note="Ours, 10 batches, all but the first. Target: 1.6 times.",
    )
    made = Input(n, 10)
    runs = [in_process(OURS, made, folder, cores=cores) for cores in (1, 2)]
    for cores, one in enumerate(runs, 1):
        report.add(
            cores, f"{one.n_tuples:,}", f"{one.seconds:.1f}", f"{runs[0].seconds / one.seconds:.2f}"
        )
    return report


def whole_runs(folder: Path, n: int) -> Report:
    """A query that has been running for a while."""
    report = Report(
        "On Spark: whole runs of a query that is running",
        ("streams", "batches", *(f"{system} (s)" for system in JOINS), "times", "target"),
        note=f"{n:,} tuples a stream, about one match a tuple and stream, after {WARM_UPS} small "
        "batches that are not timed. `times`: how much faster ours is than Spark's better store. "
        "The table of peers has the same from the second batch on.",
    )
    for n_streams, n_batches, target in ((2, 10, 3), (2, 40, 1.8), (3, 10, 5), (3, 40, 3.5)):
        made = Input(n, n_batches, n_streams=n_streams, n_warm_up=WARM_UPS)
        runs = [in_process(system, made, folder, timeout=900) for system in JOINS]
        same_results(runs)
        ours, *others = (one.seconds for one in runs)
        report.add(
            n_streams, n_batches, *(f"{one.seconds:.1f}" for one in runs),
            f"{min(others) / ours:.2f}", target,
        )  # fmt: skip
    return report


def memory(folder: Path) -> Report:
    """What a join of two small streams holds in its Python processes."""
    report = Report(
        "On Spark: memory of Python processes",
        ("system", "MB"),
        note="At the end of a join of two small streams; the driver's Python apart, shared pages "
        "in parts. Before workers loaded only what they need: 1,700 MB. Target: half of that.",
    )
    for system in (*EMPTY[1:2], OURS):
        one = in_process(system, Input(SMALL * 8, 8), folder)
        report.add(system, f"{one.python_bytes / 1e6:.0f}")
    return report
