"""``recalljoin run``: a job file, from its sources to its sink."""

from __future__ import annotations

import signal
from collections.abc import Callable
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from types import FrameType

    from recalljoin.jobs.run import Look

_F = TypeVar("_F", bound=Callable[..., Any])


def jars_option() -> Callable[[_F], _F]:
    """The option ``--jars``, for commands that may need Spark's connector to Kafka."""
    return click.option(
        "--jars",
        metavar="DIR|LIST",
        envvar="RECALLJOIN_JARS",
        help="Spark's connector to Kafka: a folder of jars, or jars with commas between them; also "
        "RECALLJOIN_JARS. [Spark fetches the connector of its version]",
    )


@click.command()
@click.argument("job_file", metavar="JOB.toml")
@jars_option()
@click.option(
    "--dashboard", "shows", is_flag=True,
    help="Show the join on a local web page; `recalljoin dashboard` has more options for it.",
)  # fmt: skip
@click.pass_context
def run(ctx: click.Context, job_file: str, jars: str | None, *, shows: bool) -> None:
    """Run the streaming join that a job file describes, until it is stopped.

    The file names the query, where its streams come from, and where results go: Kafka, folders, or
    any format of Spark. Started again, the job goes on from its checkpoint.
    """
    from recalljoin.cli.spark import require_spark, running

    require_spark()
    from recalljoin.dashboard.server import Dashboard
    from recalljoin.jobs.job_file import read_job
    from recalljoin.jobs.run import looks, settings_of, start
    from recalljoin.spark.control_log import ControlLog

    job = read_job(job_file)
    debug = bool(ctx.find_root().params.get("debug"))
    ended = Event()
    board = None
    try:
        with running(debug=debug, settings=settings_of(job, jars)) as spark:
            query = start(spark, job)
            click.echo(f"the job runs; checkpoint {job.checkpoint}")
            if shows:
                # Another dashboard may have the usual port.
                board = Dashboard([ControlLog(job.control_log)], port=0).start()
                click.echo(f"the dashboard is at {board.address}")

            def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a handler's
                ended.set()

            # An exception in the middle of a call to Java would leave the bridge to it broken.
            before = {each: signal.signal(each, end) for each in (signal.SIGINT, signal.SIGTERM)}
            try:
                for look in looks(query, job, is_over=ended.is_set):
                    click.echo(line(look))
            finally:
                for each, handler in before.items():
                    signal.signal(each, handler)
    except Exception as error:
        if ended.is_set():
            # Whoever ends a service may end its Java process at the same time.
            return
        hidden = job.secrets.hide(str(error))
        if hidden == str(error):
            raise
        # The message has a value of the environment in it, and so may everything in its chain.
        raise click.ClickException(hidden) from None
    finally:
        if board is not None:
            board.stop()
        if ended.is_set():
            click.echo("stopped; started again, the job goes on from its checkpoint")


def line(look: Look) -> str:
    """One batch in one line.

    Examples
    --------
    >>> from recalljoin.jobs.run import Look
    >>> line(Look(7, 1200.0, 0.9512, arrived=4000, refused=2, late=31, results=1800))
    'batch 7: 4,000 tuples, 31 late, 2 refused; 1,800 results; K 1.2 s, recall ~0.9512'
    """
    from recalljoin.query.durations import rounded

    refused = f", {look.refused:,} refused" if look.refused else ""
    recall = "" if look.recall is None else f", recall ~{look.recall:.4f}"
    return (
        f"batch {look.batch}: {look.arrived:,} tuples, {look.late:,} late{refused}; "
        f"{look.results:,} results; K {rounded(look.k_ms)}{recall}"
    )
