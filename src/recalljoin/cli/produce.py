"""``recalljoin produce``: recorded or generated streams into the sources of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from recalljoin.cli.generate import NAMES, make_dataset
from recalljoin.cli.inputs import duration_option, named_files, read_tables
from recalljoin.cli.run import jars_option

if TYPE_CHECKING:
    import pyarrow as pa

_EXAMPLE = """\b
Example:
  recalljoin produce job.toml --input o=orders.parquet --input p=payments.parquet --speed 10
"""


@click.command(epilog=_EXAMPLE)
@click.argument("job_file", metavar="JOB.toml")
@click.option(
    "--input", "inputs", multiple=True, metavar="NAME=FILE",
    help="Parquet or CSV file with the recording of a stream; one for each stream of the job.",
)  # fmt: skip
@click.option(
    "--generate", "name", type=click.Choice(NAMES), metavar="|".join(NAMES),
    help="Generate the streams instead, as `recalljoin generate` does.",
)  # fmt: skip
@duration_option("--duration", "Length of generated streams. [30min; soccer 23min]")
@click.option("--seed", default=0, show_default=True, help="Of generated streams.")
@click.option(
    "--speed", default="1", show_default=True, metavar="FACTOR|max",
    help="How many times faster than the rows arrived.",
)  # fmt: skip
@click.option(
    "--arrival", default="arrival", show_default=True, metavar="COLUMN",
    help="Time of arrival; without such a column, rows arrive at their event time.",
)  # fmt: skip
@click.option(
    "--time-unit", type=click.Choice(("s", "ms", "us", "ns")), default="ms", show_default=True,
    help="What integer times and arrivals count in.",
)  # fmt: skip
@click.option(
    "--key", "keys", multiple=True, metavar="NAME=COLUMN",
    help="Column of a stream that becomes the key of its messages in Kafka.",
)  # fmt: skip
@click.option("--partitions", default=3, show_default=True, help="Of topics that are created.")
@jars_option()
@click.pass_context
def produce(ctx: click.Context, /, **given: Any) -> None:
    """Replay recorded streams into the topics or folders that a job reads.

    Rows are written in the order of their arrival, as late and as disordered as they were, at
    their own pace or faster. Topics that are not there are created.
    """
    from recalljoin.cli.spark import require_spark, running

    speed = _speed(given["speed"])
    if given["partitions"] < 1:
        message = f"must be 1 or more, got {given['partitions']}"
        raise click.BadParameter(message, param_hint="--partitions")
    if bool(given["inputs"]) == bool(given["name"]):
        message = "name recordings with --input, or a data set with --generate"
        raise click.UsageError(message)
    require_spark()
    from recalljoin.jobs.job_file import read_job
    from recalljoin.jobs.produce import check_streams, prepare_topics, recorded, replay, seconds_of
    from recalljoin.jobs.run import settings_of
    from recalljoin.query.durations import rounded

    job = read_job(given["job_file"])
    keys = _keys(given["keys"])
    tables = _tables(given)
    check_streams(job, tables, keys)
    streams = {
        name: recorded(
            name, job.streams[name], table, arrival=given["arrival"], time_unit=given["time_unit"]
        )
        for name, table in tables.items()
    }
    total = sum(table.num_rows for table in tables.values())
    debug = bool(ctx.find_root().params.get("debug"))
    written = 0
    with running(debug=debug, settings=settings_of(job, given["jars"])) as spark:
        prepare_topics(spark, job, given["partitions"])
        seconds = seconds_of(streams, speed)
        # A row of the year 2200 would be waited for until then.
        takes = f", which takes {rounded(1000 * seconds)}" if speed is not None else ""
        click.echo(f"writing {total:,} rows of {len(streams)} streams{takes}")
        try:
            for so_far in replay(spark, job, streams, speed=speed, key=keys):
                written = so_far
        except KeyboardInterrupt:
            click.echo("stopped")
    click.echo(f"{written:,} rows are written")


def _speed(text: str) -> float | None:
    if text == "max":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        message = f"must be a number above 0, or max; got {text!r}"
        raise click.BadParameter(message, param_hint="--speed")
    return speed


def _keys(given: tuple[str, ...]) -> dict[str, str]:
    keys = {}
    for each in given:
        name, equals, column = each.partition("=")
        if not (name and equals and column):
            message = f"{each!r} is not of the form NAME=COLUMN"
            raise click.BadParameter(message, param_hint="--key")
        keys[name] = column
    return keys


def _tables(given: dict[str, Any]) -> dict[str, pa.Table]:
    if given["inputs"]:
        return read_tables(named_files(given["inputs"]))
    chosen = {"name": given["name"], "seed": given["seed"], "duration": given["duration"]}
    others = dict.fromkeys(("rate", "delay_step", "max_delay"))
    dataset = make_dataset({**others, **chosen})
    return {stream: dataset.table(stream) for stream in dataset.streams}
