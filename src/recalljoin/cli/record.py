"""``recalljoin record``: the topics of a job as recordings."""

from __future__ import annotations

from pathlib import Path

import click

from recalljoin.cli.run import jars_option


@click.command()
@click.argument("job_file", metavar="JOB.toml")
@click.option("--out", required=True, metavar="DIR", help="Folder to write to.")
@jars_option()
@click.pass_context
def record(ctx: click.Context, job_file: str, out: str, jars: str | None) -> None:
    """Write the topics that a job reads as Parquet, for `recalljoin evaluate`.

    The column `arrival` is the time at which Kafka took a message. Beside the streams is the query.
    """
    from recalljoin.cli.spark import require_spark, running, waiting

    require_spark()
    from recalljoin.jobs.job_file import read_job
    from recalljoin.jobs.record import record as write
    from recalljoin.jobs.run import settings_of

    job = read_job(job_file)
    debug = bool(ctx.find_root().params.get("debug"))
    with running(debug=debug, settings=settings_of(job, jars)) as spark:
        Path(out).mkdir(parents=True, exist_ok=True)
        with waiting("reading topics"):
            paths = write(spark, job, Path(out))
    for stream, path in paths.items():
        click.echo(f"  {stream}  {path}")
    click.echo(f"  query  {Path(out) / 'query.sql'}")
