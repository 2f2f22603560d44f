"""How a run went, in a few lines for a person."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from recalljoin.query.durations import NANOSECONDS_PER, rounded

if TYPE_CHECKING:
    from recalljoin.experiments import Setup
    from recalljoin.quality.record import RunRecord


def percent(share: float) -> str:
    """A share in percent, with more digits the closer it is to 100 %.

    Examples
    --------
    >>> percent(1.0), percent(0.5), percent(0.99961)
    ('100 %', '50.0 %', '99.96 %')
    """
    if share == 1:
        return "100 %"
    return f"{100 * share:.2f} %" if share > 0.99 else f"{100 * share:.1f} %"


def output_console() -> Console:
    """Standard output: as wide as the terminal, and in a file wide enough not to fold lines."""
    return Console(width=None if sys.stdout.isatty() else 160)


def print_summary(record: RunRecord, setup: Setup, *, exact: bool) -> None:
    """Print the numbers of a run."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, text in lines_of(record, setup, exact=exact):
        table.add_row(name, text)
    output_console().print(table)


def lines_of(record: RunRecord, setup: Setup, *, exact: bool) -> list[tuple[str, str]]:
    """Name and text of each line that is told of a run."""
    numbers = record.to_json()
    period = rounded(record.period * NANOSECONDS_PER[record.unit] / NANOSECONDS_PER["ms"])
    arrival = "tuple by tuple"
    if setup.arrival_mode == "tick":
        cells = "1 cell" if setup.cells == 1 else f"{setup.cells} cells"
        arrival = f"in ticks of {setup.tick}, {cells}"
    n = len(record.measurements)
    if n:
        recall = (
            f"{record.mean_recall:.4f}, mean of {n:,} periods of {period}; "
            f"{percent(record.phi())} of them reach {record.target:g}, "
            f"{percent(record.phi(0.99))} reach {0.99 * record.target:g}"
        )
    else:
        recall = f"not measured: the join never came a whole period ({period}) far"
    k = numbers["k_ms"]
    slack = "never adapted: the recording is shorter than the interval"
    if k:
        slack = f"mean {rounded(numbers['avg_k_ms'])}; {rounded(min(k))} to {rounded(max(k))}"
    lines = [
        ("policy", f"{record.policy}, for a recall of {record.target:g}; {arrival}"),
        ("recall", recall),
        ("slack (K)", slack),
    ]
    if any(lead is not None for lead in numbers["lead_ms"]):
        lines.append(("wait", f"mean {rounded(numbers['avg_wait_ms'])}, for sources as well"))
    if numbers["latency_ms"] is not None:
        of = {name: rounded(value) for name, value in numbers["latency_ms"].items()}
        lines.append(
            (
                "latency",
                f"mean {of['mean']}; median {of['p50']}, 95 % {of['p95']}, 99 % {of['p99']}",
            )
        )
    true = max(record.n_true, 1)
    share = percent(record.n_produced / true)
    how = "" if exact else ", as far as they were counted"
    lost = f"{record.n_lost:,} counted as lost"
    results = f"{record.n_produced:,} of {record.n_true:,} true ones ({share}){how}; {lost}"
    if not record.n_true:
        results = "none, and there were no true ones"
    tuples = f"{record.n_tuples:,}, of them {record.n_late:,} late"
    refused = ", ".join(f"{n:,} {reason}" for reason, n in record.refused.items())
    lines += [
        ("results", results),
        *_nulls(record),
        ("tuples", tuples + (f"; refused: {refused}" if refused else "")),
    ]
    spent = numbers["adaptation_ms"]
    rate = record.n_tuples / record.seconds if record.seconds else 0.0
    time = f"{record.seconds:.2f} s in the join, {rate:,.0f} tuples/s; "
    time += f"choosing K took {spent['mean']:.2f} ms, at most {spent['max']:.1f} ms"
    return [*lines, ("time", time)]


def _nulls(record: RunRecord) -> list[tuple[str, str]]:
    """Rows without a partner, of a join that has such rows."""
    if not record.n_nulls or record.null_precision is None:
        return []
    right = percent(record.null_precision)
    return [("without partner", f"{record.n_nulls:,} rows, {right} of them right")]
