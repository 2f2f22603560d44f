"""``recalljoin evaluate``: a query over recorded streams, compared with the true results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recalljoin.cli.inputs import (
    column_options,
    duration_option,
    input_option,
    named_files,
    read_query,
    source_option,
    warn,
    warn_without_arrivals,
)
from recalljoin.cli.numbers import json_option, write_numbers
from recalljoin.cli.pictures import draw, picture_option

if TYPE_CHECKING:
    from recalljoin.experiments import Setup
    from recalljoin.quality.record import RunRecord

POLICIES = ("slack", "noneqsel", "eqsel", "max", "none", "percentile", "fixed")


@click.command()
@click.option(
    "--query",
    required=True,
    metavar="FILE_OR_TEXT",
    help="The query, or a file that holds it. It may end in WITH RECALL ... OVER ...; what is "
    "given below comes first.",
)
@input_option(
    "Parquet, CSV or JSON lines file (or folder) of a stream; one for each stream of the query."
)
@column_options
@source_option
@click.option("--recall", type=float, help="Share of the true results to produce (Γ). [0.95]")
@click.option(
    "--null-precision", type=float,
    help="Share of the rows without a partner that must be right, in an outer join. [the recall]",
)  # fmt: skip
@duration_option("--period", "Recall is measured over it (P). [1min]")
@duration_option("--interval", "K is chosen anew after it (L). [1s]")
@duration_option(
    "--granularity", "K is a multiple of it (g). [none; 10ms for eqsel, noneqsel, percentile]"
)
@duration_option("--basic-window", "Pieces of windows in the model (b). [10ms]")
@click.option(
    "--policy", type=click.Choice(POLICIES), default="slack", show_default=True,
    help="What chooses K.",
)  # fmt: skip
@duration_option("--k", "K of the policy fixed, such as 300ms.")
@duration_option("--initial-wait", "K until enough is known, as advise says. [period / 6]")
@duration_option("--min-wait", "Smallest K, whatever the recall. [0]")
@duration_option("--max-wait", "Longest wait, whatever the recall. [no limit]")
@click.option(
    "--mode", type=click.Choice(("count", "rows")), default="count", show_default=True,
    help="Count results, or make them as well.",
)  # fmt: skip
@click.option(
    "--arrival-mode", type=click.Choice(("tuple", "tick")), default="tuple", show_default=True,
    help="Tuples arrive one by one, or in slices of arrival time.",
)  # fmt: skip
@duration_option("--tick", "Length of such a slice. [10ms]")
@click.option("--cells", type=int, default=1, show_default=True, help="Operator instances.")
@duration_option(
    "--batch", "Length of a micro-batch; K adapts once in each. [5s with several cells]"
)
@json_option()
@picture_option()
@click.option("--output", metavar="DIR", help="Write the results there, as Parquet; --mode rows.")
@click.option(
    "--truth", type=click.Choice(("exact", "none")), default="exact", show_default=True,
    help="Find all true results beside the run, or go by those it counted itself.",
)  # fmt: skip
@click.pass_context
def evaluate(ctx: click.Context, /, **given: Any) -> None:
    """Run a query over recorded streams on Spark and score it.

    Every input is read in order of arrival. The results are counted, or written with --mode rows,
    while the policy chooses how long to wait (K); then recall, K and latency are told.
    """
    from recalljoin.cli.spark import require_spark, running, waiting

    text = read_query(given["query"])
    files = named_files(given["inputs"])
    _check(given)
    require_spark()
    warn_without_arrivals(files, given["arrival"])
    setup = _setup(given)
    with running(debug=bool(ctx.find_root().params.get("debug"))) as spark:
        from recalljoin.experiments import evaluate as run

        with waiting("running the join"):
            record = run(
                text, files, setup,
                spark=spark,
                time=given["time"],
                arrival=given["arrival"],
                source=given["source"],
                truth=given["truth"] == "exact",
                output=given["output"],
                max_ahead=given["max_ahead"],
                time_unit=given["time_unit"],
            )  # fmt: skip
    about = {"truth": given["truth"], "query": text, "inputs": files, "setup": setup.to_json()}
    _tell(record, setup, about, given)
    if not record.n_tuples:
        warn("the inputs hold no usable row: there was nothing to join")
    elif not record.n_true:
        warn(
            "the inputs hold no result at all, so nothing is known about recall; look at the "
            "condition and the windows (`recalljoin explain`), and at --time and --time-unit"
        )
    if record.n_true:
        _draw(record, setup, text, given)
    elif given["picture"] is not None:
        warn("there is no result to draw")


def _tell(record: RunRecord, setup: Setup, about: dict[str, Any], given: dict[str, Any]) -> None:
    json_file = given["json_file"]
    if write_numbers(record.to_json() | about, json_file):
        return
    from recalljoin.cli.summary import print_summary

    print_summary(record, setup, exact=about["truth"] == "exact")
    for what, where in (("numbers", json_file), ("results", given["output"])):
        if where is not None:
            click.echo(f"All {what}: {where}")


def _draw(record: RunRecord, setup: Setup, text: str, given: dict[str, Any]) -> None:
    if given["picture"] is None:
        return
    from recalljoin.cli.summary import lines_of
    from recalljoin.experiments.page import Table

    lines = lines_of(record, setup, exact=given["truth"] == "exact")
    draw(
        record, given["picture"],
        title="The wait and the recall of a run",
        text=(
            f"The query: `{' '.join(text.split())}`",
            "K is the wait in force: how long tuples are held back for late ones. Recall is the "
            "share of the true results of the last period that were produced.",
        ),
        table=Table(("of the run", ""), tuple(lines), words=True),
    )  # fmt: skip


def _check(given: dict[str, Any]) -> None:
    """See that options go together, before anything is started."""
    output = given["output"]
    if given["policy"] == "fixed" and given["k"] is None:
        message = "--policy fixed needs --k, the slack to use; for example --k 300ms"
        raise click.UsageError(message)
    if given["arrival_mode"] == "tuple" and given["cells"] > 1:
        message = "--cells needs --arrival-mode tick: several cells agree on ticks only"
        raise click.UsageError(message)
    if given["arrival_mode"] == "tuple" and given["source"] is not None:
        message = "--source needs --arrival-mode tick: sources are followed from tick to tick"
        raise click.UsageError(message)
    if output is not None and given["mode"] != "rows":
        message = "--output takes the rows of the results, so it needs --mode rows"
        raise click.UsageError(message)
    if output is not None and Path(output).exists():
        message = f"{output!r} exists already; name a new folder"
        raise click.BadParameter(message, param_hint="--output")
    if given["policy"] != "fixed" and given["k"] is not None:
        _note(f"--k is for --policy fixed; {given['policy']} chooses its own, and it is left out")
    if given["arrival_mode"] == "tuple":
        for option in ("tick", "batch"):
            if given[option] is not None:
                _note(f"--{option} is for --arrival-mode tick, and is left out")


def _setup(given: dict[str, Any]) -> Setup:
    from recalljoin.experiments import Setup

    names = (
        "recall", "period", "interval", "granularity", "basic_window", "min_wait", "max_wait",
        "initial_wait", "null_precision", "policy", "mode", "arrival_mode", "cells", "batch",
    )  # fmt: skip
    return Setup(
        **{name: given[name] for name in names},
        k=given["k"] if given["policy"] == "fixed" else None,
        tick=given["tick"] or "10 ms",
    )


def _note(text: str) -> None:
    click.echo(f"note: {text}", err=True)
