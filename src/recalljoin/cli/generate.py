"""``recalljoin generate``: the paper's streams, and a simulated match, as Parquet."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from recalljoin.cli.inputs import duration_option

if TYPE_CHECKING:
    from recalljoin.datasets import Dataset

NAMES = ("x3", "x4", "soccer")
_SENSORS = 16
# The first character, \b, tells click to keep the line breaks.
_EXAMPLE = """\b
Example:
  recalljoin generate x3 --out x3 --duration 5min
  recalljoin evaluate --query x3/query.sql --input s1=x3/s1.parquet \\
    --input s2=x3/s2.parquet --input s3=x3/s3.parquet --recall 0.95
"""


@click.command(epilog=_EXAMPLE)
@click.argument("name", type=click.Choice(NAMES), metavar="|".join(NAMES))
@click.option("--out", required=True, metavar="DIR", help="Folder to write to.")
@click.option("--seed", default=0, show_default=True, help="Other seeds give other rows.")
@duration_option("--duration", "Length of the streams. [30min; soccer 23min]", needs_unit=True)
@click.option("--rate", type=float, help="Tuples a second in each stream. [100; soccer about 326]")
@duration_option("--delay-step", "x3, x4: distance between two delays. [100ms]")
@duration_option("--max-delay", "x3, x4: largest delay. [20s]")
@click.option("--partitions", type=int, help="Files for each stream; the rows stay the same.")
@click.pass_context
def generate(ctx: click.Context, /, **given: Any) -> None:
    """Generate streams with Spark, seeded, as Parquet in order of arrival.

    x3 and x4 are the synthetic streams of the paper's Section VI; soccer simulates a match with
    late sensors. Beside the streams is the query that joins them.
    """
    from recalljoin.cli.spark import running, waiting

    dataset = make_dataset(given)
    if given["partitions"] is not None and given["partitions"] < 1:
        message = f"must be 1 or more, got {given['partitions']}"
        raise click.BadParameter(message, param_hint="--partitions")
    with running(debug=bool(ctx.find_root().params.get("debug"))) as spark:
        from recalljoin.experiments.generation import QUERY_FILE, write_dataset

        with waiting("writing"):
            paths = write_dataset(spark, dataset, given["out"], partitions=given["partitions"])
            n = sum(spark.read.parquet(str(path)).count() for path in paths.values())
    kind = "simulated; " if given["name"] == "soccer" else ""
    click.echo(f"{dataset.name} ({kind}seed {given['seed']}): {n:,} tuples")
    for stream, path in paths.items():
        click.echo(f"  {stream}  {path}")
    click.echo(f"  query  {next(iter(paths.values())).parent / QUERY_FILE}")


def make_dataset(given: dict[str, Any]) -> Dataset:
    """The data set that the options of a command describe."""
    from recalljoin.datasets import SimulatedMatch, make_syn_x3, make_syn_x4

    changes: dict[str, Any] = {
        option: _milliseconds(given[option])
        for option in ("duration", "delay_step", "max_delay")
        if given[option] is not None
    }
    rate = given["rate"]
    if rate is not None and rate <= 0:
        message = f"must be more than 0, got {rate}"
        raise click.BadParameter(message, param_hint="--rate")
    if given["name"] == "soccer":
        for option in ("delay_step", "max_delay"):
            if option in changes:
                message = f"--{option.replace('_', '-')} is for x3 and x4, not for soccer"
                raise click.UsageError(message)
        if rate is not None:
            changes["sample_every"] = max(1, round(1000 * _SENSORS / rate))
        return SimulatedMatch(seed=given["seed"], **changes)
    make = make_syn_x3 if given["name"] == "x3" else make_syn_x4
    if rate is not None:
        changes["gap"] = max(1, round(1000 / rate))
    return replace(make(given["seed"]), **changes)


def _milliseconds(length: str | int) -> int:
    from recalljoin.query.durations import in_unit, nanoseconds

    return in_unit(nanoseconds(length, name="duration"), "ms")
