"""``recalljoin evaluate``: a query over recorded streams, scored against the true results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recalljoin.cli.inputs import duration_option, input_option, named_files, read_query

if TYPE_CHECKING:
    from recalljoin.experiments import Setup
    from recalljoin.quality import RunRecord

POLICIES = ("slack", "noneqsel", "eqsel", "max", "none", "percentile", "fixed")


@click.command()
@click.option(
    "--query",
    required=True,
    metavar="FILE_OR_TEXT",
    help="The query, or a file that holds it. It may end in WITH RECALL ... OVER ...; what is "
    "given below comes first.",
)
@input_option("Parquet or CSV file (or folder) of a stream; one for each stream of the query.")
@click.option(
    "--time", metavar="COLUMN", help="Event time: integer milliseconds or timestamps. [ts]"
)
@click.option(
    "--arrival",
    metavar="COLUMN",
    help="Time or global position of arrival; ties go by the order of --input, then by row. "
    "[`arrival` if every input has it; otherwise rows arrive in step]",
)
@click.option("--recall", type=float, help="Share of the true results to produce (Γ). [0.95]")
@duration_option("--period", "Recall is measured over it (P). [1min]")
@duration_option("--interval", "K is chosen anew after it (L). [1s]")
@duration_option("--granularity", "Step in which K is chosen (g). [10ms]")
@duration_option("--basic-window", "Pieces of windows in the model (b). [10ms]")
@click.option(
    "--policy", type=click.Choice(POLICIES), default="slack", show_default=True,
    help="What chooses K.",
)  # fmt: skip
@duration_option("--k", "K of the policy fixed, such as 300ms.")
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
@click.option("--json", "json_file", metavar="FILE", help="Write all numbers there; - for stdout.")
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
    setup = _setup(given)
    with running(debug=bool(ctx.find_root().params.get("debug"))) as spark:
        from recalljoin.experiments import evaluate as run

        with waiting("running the join"):
            record = run(
                text, files, setup,
                spark=spark,
                time=given["time"],
                arrival=given["arrival"],
                truth=given["truth"] == "exact",
                output=given["output"],
            )  # fmt: skip
    about = {"truth": given["truth"], "query": text, "inputs": files, "setup": setup.to_json()}
    _tell(record, setup, about, given)


def _tell(record: RunRecord, setup: Setup, about: dict[str, Any], given: dict[str, Any]) -> None:
    numbers = record.to_json() | about
    # A line for each number or list: easy on the eyes, and on whoever looks for one with grep.
    lines = [f"{json.dumps(k)}: {json.dumps(v, allow_nan=False)}" for k, v in numbers.items()]
    content = "{\n" + ",\n".join(lines) + "\n}"
    json_file = given["json_file"]
    if json_file == "-":
        click.echo(content)
        return
    if json_file is not None:
        Path(json_file).write_text(content + "\n", encoding="utf-8")
    from recalljoin.cli.summary import print_summary

    print_summary(record, setup, exact=about["truth"] == "exact")
    for what, where in (("numbers", json_file), ("results", given["output"])):
        if where is not None:
            click.echo(f"All {what}: {where}")


def _check(given: dict[str, Any]) -> None:
    """See that options go together, before anything is started."""
    output, json_file = given["output"], given["json_file"]
    if given["policy"] == "fixed" and given["k"] is None:
        message = "--policy fixed needs --k, the slack to use; for example --k 300ms"
        raise click.UsageError(message)
    if given["arrival_mode"] == "tuple" and given["cells"] > 1:
        message = "--cells needs --arrival-mode tick: several cells agree on ticks only"
        raise click.UsageError(message)
    if output is not None and given["mode"] != "rows":
        message = "--output takes the rows of the results, so it needs --mode rows"
        raise click.UsageError(message)
    if output is not None and Path(output).exists():
        message = f"{output!r} exists already; name a new folder"
        raise click.BadParameter(message, param_hint="--output")
    if json_file not in (None, "-") and not Path(json_file).absolute().parent.is_dir():
        message = f"there is no folder for {json_file!r}"
        raise click.BadParameter(message, param_hint="--json")
    if given["policy"] != "fixed" and given["k"] is not None:
        _note(f"--k is for --policy fixed; {given['policy']} chooses its own, and it is left out")
    if given["arrival_mode"] == "tuple":
        for option in ("tick", "batch"):
            if given[option] is not None:
                _note(f"--{option} is for --arrival-mode tick, and is left out")


def _setup(given: dict[str, Any]) -> Setup:
    from recalljoin.experiments import Setup

    names = ("recall", "period", "interval", "granularity", "basic_window", "policy", "mode")
    return Setup(
        **{name: given[name] for name in (*names, "arrival_mode", "cells", "batch")},
        k=given["k"] if given["policy"] == "fixed" else None,
        tick=given["tick"] or "10 ms",
    )


def _note(text: str) -> None:
    click.echo(f"note: {text}", err=True)
