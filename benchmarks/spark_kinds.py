"""Results at once and left outer joins beside Spark's own: speed and state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.inputs import Input
from benchmarks.measure import Report
from benchmarks.spark_systems import OTHERS, OURS, in_process, same_results

if TYPE_CHECKING:
    from pathlib import Path

INNER = (OURS, f"{OURS} eager", *OTHERS)
LEFT = (f"{OURS} left", f"{OURS} left eager", *(f"{system} left" for system in OTHERS))


def kinds(folder: Path, n: int) -> Report:
    """Whole runs of every kind, and what they keep."""
    report = Report(
        "On Spark: results at once, and left outer joins",
        ("system", "s", "times ordered", "results", "state MB", "on disk MB"),
        note=f"{n:,} tuples a stream in 10 batches, about one match a tuple, no disorder and no "
        "wait: the recall of all is 1. A left join has a row for each tuple without a partner as "
        "well; the last of them, whose time is not over at the end of the input, differ by the "
        "batch in which Spark moves its watermark.",
    )
    made = Input(n, 10)
    for systems in (INNER, LEFT):
        runs = [in_process(system, made, folder) for system in systems]
        same_results(runs, "n_pairs")
        for one in runs:
            report.add(
                one.system, f"{one.seconds:.1f}", f"{one.seconds / runs[0].seconds:.2f}",
                f"{one.n_results:,}", f"{one.state_bytes / 1e6:.1f}",
                f"{one.checkpoint_bytes / 1e6:.1f}",
            )  # fmt: skip
    return report
