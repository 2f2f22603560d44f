"""``recalljoin demo``: a streaming join to watch, and what other policies would have reached."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from recalljoin.cli.summary import output_console, percent
from recalljoin.errors import InvalidSetting
from recalljoin.query.durations import rounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from recalljoin.experiments.demo import LiveJoin, Look
    from recalljoin.quality.record import RunRecord

_MOST_BARS = 50


@click.command()
@click.option("--minutes", default=2.0, show_default=True, help="Length of the generated streams.")
@click.option("--seed", default=0, show_default=True, help="Seed of the generated streams.")
@click.option("--recall", default=0.95, show_default=True, help="Share of results to produce.")
@click.option(
    "--out", default="build/demo", show_default=True, metavar="DIR", help="Folder for the report."
)
@click.pass_context
def demo(ctx: click.Context, minutes: float, seed: int, recall: float, out: str) -> None:
    """Join a few minutes of disordered orders and payments on Spark, and watch it."""
    from recalljoin.cli.spark import running, waiting

    if minutes <= 0:
        message = f"must be more than 0, got {minutes:g}"
        raise click.BadParameter(message, param_hint="--minutes")
    console = output_console()
    with (
        running(debug=bool(ctx.find_root().params.get("debug"))) as spark,
        TemporaryDirectory() as folder,
    ):
        from recalljoin.experiments.demo import QUERY, LiveJoin, disordered_orders

        tables = disordered_orders(minutes, seed)
        n = sum(table.num_rows for table in tables.values())
        console.print(f"[bold]{n:,} orders and payments[/bold], {minutes:g} minutes, out of order")
        console.print(QUERY, highlight=False)
        console.print(f"WITH RECALL {recall:g} OVER 30 SEC\n", highlight=False)
        live = LiveJoin(spark, tables, Path(folder), recall=recall)
        watch(console, live)
        console.print("\n[bold]First results[/bold]")
        for row in live.results(3):
            console.print(row)
        console.print(
            "\n[bold]Policies over the same arrivals[/bold], tuple by tuple and not in batches"
        )
        with waiting("running them"):
            records = live.compare()
        console.print(comparison(records))
    label = f"{n:,} generated orders and payments, {minutes:g} minutes, seed {seed}"
    # Line breaks would cut the path in two.
    console.print(reported(records, out, label), highlight=False, soft_wrap=True)


def reported(records: dict[str, RunRecord], folder: str, label: str) -> str:
    """Write the report, and say where it is or why it could not be written."""
    try:
        from recalljoin.experiments.report import write_report

        page = write_report(records, folder, title="Policies over the same arrivals", label=label)
    except InvalidSetting as error:
        # The drawing library may not be installed; the demo ends without a report then.
        return f"No report: {error}"
    return f"Report: {page}"


def watch(console: Console, live: LiveJoin) -> None:
    """Show the join while it runs: on a terminal as a picture that moves, else as lines."""
    live.start()
    if not console.is_terminal:
        shown = 0
        for looks in live.looks():
            for look in looks[shown:]:
                console.print(line(look), highlight=False)
            shown = len(looks)
        return
    with Live(console=console, refresh_per_second=8) as picture:
        for looks in live.looks():
            picture.update(drawn(looks, n_batches=live.n_batches, recall=live.recall))


def line(look: Look) -> str:
    """One batch in one line."""
    return (
        f"batch {look.batch:3d}  K {rounded(look.k_ms):>7}  recall {_estimate(look.recall)}  "
        f"{look.produced:,} results, {look.lost:,} lost, {look.late:,} tuples late"
    )


def _estimate(recall: float | None) -> str:
    """A recall as the join estimates it while it runs; nothing while there is no result."""
    return "   -   " if recall is None else f"~{recall:.4f}"


def drawn(looks: Sequence[Look], *, n_batches: int, recall: float) -> Table | str:
    """The join so far."""
    from recalljoin.dashboard.watching import bars

    if not looks:
        return "the query is starting"
    last = looks[-1]
    table = Table.grid(padding=(0, 2))
    ks = [look.k_ms for look in looks[-_MOST_BARS:]]
    recalls = [look.recall for look in looks[-_MOST_BARS:] if look.recall is not None]
    # The bars show recall from a little below the target up to 1.
    low = 1 - 2 * (1 - recall)
    table.add_row("[bold]wait (K)[/bold]", f"{rounded(last.k_ms):>7}", bars(ks, 0, max(ks)))
    table.add_row("[bold]recall[/bold]", _estimate(last.recall), bars(recalls, low, 1.0))
    table.add_row("[bold]results[/bold]", f"{last.produced:,}", f"{last.lost:,} lost")
    table.add_row("[bold]tuples[/bold]", f"{last.arrived:,}", f"{last.late:,} late")
    done = min(len(looks), n_batches)
    bar = ProgressBar(total=n_batches, completed=done, width=40)
    table.add_row("[bold]batches[/bold]", f"{done}/{n_batches}", bar)
    return table


def comparison(records: dict[str, RunRecord]) -> Table:
    """Policies side by side."""
    from recalljoin.experiments.demo import POLICIES

    table = Table("policy", "waits for", box=None, pad_edge=False)
    for name in ("mean K", "mean latency", "recall", "target reached", "results"):
        table.add_column(name, justify="right")
    for policy, record in records.items():
        numbers = record.to_json()
        latency = numbers["latency_ms"]
        recall, reached = record.mean_recall, f"{percent(record.phi())} of the time"
        if not len(record.measurements):
            # The run is shorter than a period: only the recall of the whole run can be shown.
            recall, reached = record.n_produced / max(record.n_true, 1), "-"
        table.add_row(
            policy,
            POLICIES[policy],
            rounded(numbers["avg_k_ms"]),
            "-" if latency is None else rounded(latency["mean"]),
            f"{recall:.4f}",
            reached,
            f"{record.n_produced:,}",
        )
    return table
