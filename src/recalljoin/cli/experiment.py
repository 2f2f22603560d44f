"""``recalljoin experiment``: the paper's figures and some more, run on Spark and reported."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console

    from recalljoin.experiments.spec import RunSpec

NAMES = (
    "fig6", "table2", "fig7", "fig8", "fig9", "fig10", "fig11",
    "k-over-time", "frontier", "jump", "latency", "scale-out", "recordings",
)  # fmt: skip


@click.command(
    epilog=f"Names: {', '.join(NAMES)}. Runs are kept in the folder and not made twice unless the "
    "code or a setting has changed; an interrupted command goes on where it was."
)
@click.argument("names", nargs=-1, required=True, metavar="NAME...|all")
@click.option("--quick", is_flag=True, help="A version of about 3 minutes for all of them.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True,
    help="Seed of all data sets.",
)  # fmt: skip
@click.option(
    "--out", default="build/experiments", show_default=True, metavar="DIR",
    help="Folder for runs, figures and the report.",
)  # fmt: skip
@click.option("--docs", metavar="FILE", help="Write the report as Markdown as well, such as "
              "docs/results.md; its figures go to a folder beside it.")  # fmt: skip
@click.option("--recordings", metavar="DIR", type=click.Path(exists=True, file_okay=False),
              help="Folder of the public recordings; by default the folder data in that named by "
              "RECALLJOIN_SHARED. Recordings that are not there are left out.")  # fmt: skip
@click.pass_context
def experiment(ctx: click.Context, /, **given: Any) -> None:
    """Run experiments, the paper's (fig6 ... fig11, table2) and others, and write a report."""
    from recalljoin.cli.spark import require_spark, running

    chosen = _chosen(given["names"])
    seed, out, docs = given["seed"], given["out"], given["docs"]
    if docs is not None and not Path(docs).absolute().parent.is_dir():
        message = f"there is no folder for {docs!r}"
        raise click.BadParameter(message, param_hint="--docs")
    require_spark()
    from recalljoin.experiments import scale as scales
    from recalljoin.experiments.catalogue import claims_of, page_of, rows_of, specs_of
    from recalljoin.experiments.recorded import find_recordings, usual_folder
    from recalljoin.experiments.report import write_docs, write_page
    from recalljoin.experiments.runner import run_specs
    from recalljoin.experiments.spec import code_version
    from recalljoin.experiments.store import RunStore

    scale = scales.quick(seed) if given["quick"] else scales.full(seed)
    if "recordings" in chosen:
        folder = given["recordings"]
        found, left_out = find_recordings(usual_folder() if folder is None else Path(folder))
        scale = replace(scale, recordings=found, recordings_left_out=left_out)
        if left_out:
            click.echo(left_out)
    specs = specs_of(chosen, scale)
    store = RunStore(Path(out) / "runs", code_version())
    missing = [spec for spec in specs if store.load(spec) is None]
    if specs:
        click.echo(announced(specs, missing))
    runs = {spec: run for spec in specs if (run := store.load(spec)) is not None}
    if missing:
        with (
            running(debug=bool(ctx.find_root().params.get("debug"))) as spark,
            shown(missing) as done,
        ):
            runs = run_specs(spark, specs, store, done=done)
    page = page_of(chosen, scale, runs, code=store.code)
    path = write_page(page, Path(out), rows_of(chosen, scale, runs))
    claims = claims_of(chosen, scale, runs)
    if claims:
        agree = sum(claim.holds for claim in claims)
        click.echo(f"{agree} of {len(claims)} statements of the paper are seen here as well")
    click.echo(f"Report: {path}")
    if docs is not None:
        write_docs(page, Path(docs))
        click.echo(f"As Markdown: {docs}")


def _chosen(names: Sequence[str]) -> tuple[str, ...]:
    unknown = [name for name in names if name not in (*NAMES, "all")]
    if unknown:
        message = f"there is no experiment {unknown[0]!r}; there are {', '.join(NAMES)} and all"
        raise click.BadParameter(message, param_hint="NAME")
    return NAMES if "all" in names else tuple(name for name in NAMES if name in names)


def announced(specs: Sequence[RunSpec], missing: Sequence[RunSpec]) -> str:
    """How much there is to do."""
    n_known = len(specs) - len(missing)
    known = f", {n_known} of them done before" if n_known else ""
    if not missing:
        return f"{len(specs)} runs, all done before"
    minutes = estimate(missing) / 60
    about = f"{minutes:.0f} minutes" if minutes >= 1.5 else "a minute"
    return f"{len(specs)} runs{known}; about {about} on a quiet machine"


def estimate(specs: Sequence[RunSpec]) -> float:
    """Seconds that runs take on the cores of this machine."""
    import os

    cores = os.cpu_count() or 1
    return sum(spec.seconds if spec.alone else spec.seconds / cores for spec in specs)


@contextmanager
def shown(specs: Sequence[RunSpec]) -> Iterator[Callable[[RunSpec], None]]:
    """Progress on standard error: a bar at a terminal, otherwise a line now and then."""
    from rich.console import Console

    console = Console(stderr=True)
    with bar(console, specs) if console.is_terminal else lines(specs) as done:
        yield done


@contextmanager
def bar(console: Console, specs: Sequence[RunSpec]) -> Iterator[Callable[[RunSpec], None]]:
    """A bar with the time left, estimated by how long runs take and not by their number."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    columns = (
        BarColumn(), TextColumn("{task.fields[runs]}/{task.fields[total_runs]} runs"),
        TimeElapsedColumn(), TextColumn("left"), TimeLeft(),
        TextColumn("{task.fields[latest]}"),
    )  # fmt: skip
    n_done = 0
    with Progress(*columns, console=console, speed_estimate_period=600) as progress:
        task = progress.add_task(
            "", total=estimate(specs), runs=0, total_runs=len(specs), latest=""
        )

        def done(spec: RunSpec) -> None:
            nonlocal n_done
            n_done += 1
            latest = f"{spec.data.title}, {spec.setup.policy}"
            progress.update(task, advance=estimate([spec]), runs=n_done, latest=latest)

        yield done


@contextmanager
def lines(specs: Sequence[RunSpec]) -> Iterator[Callable[[RunSpec], None]]:
    """A line after each tenth of the work."""
    import time

    began, whole = time.monotonic(), estimate(specs)
    spent, n_done, tenth = 0.0, 0, 0

    def done(spec: RunSpec) -> None:
        nonlocal spent, n_done, tenth
        spent += estimate([spec])
        n_done += 1
        now = int(10 * spent / whole + 1e-9)
        if now > tenth:
            tenth = now
            left = (time.monotonic() - began) * max(0.0, whole / spent - 1)
            click.echo(f"{n_done}/{len(specs)} runs, about {left:.0f} s left", err=True)

    yield done
