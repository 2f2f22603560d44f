"""The command itself: its options, its exit codes, and where the subcommands are."""

from __future__ import annotations

import sys
import traceback

import click

from recalljoin import __version__
from recalljoin.cli.advise import advise
from recalljoin.cli.completion import completion
from recalljoin.cli.dashboard import dashboard
from recalljoin.cli.demo import demo
from recalljoin.cli.doctor import doctor
from recalljoin.cli.evaluate import evaluate
from recalljoin.cli.experiment import experiment
from recalljoin.cli.generate import generate
from recalljoin.cli.grow import grow
from recalljoin.cli.inputs import input_option, named_files, read_query
from recalljoin.cli.produce import produce
from recalljoin.cli.record import record
from recalljoin.cli.run import run
from recalljoin.cli.spark import is_from_spark, root_cause
from recalljoin.errors import RecallJoinError


class _Commands(click.Group):
    """Turns the library's errors, and Spark's, into one message and exit code 1."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except Exception as error:
            message = _message_of(error)
            if message is None:
                raise
            if ctx.params.get("debug"):
                traceback.print_exc()
            click.echo(f"recalljoin: {message}", err=True)
            ctx.exit(1)


def _message_of(error: Exception) -> str | None:
    """The message for the user; None for an unforeseen error."""
    if isinstance(error, RecallJoinError):
        return str(error)
    if is_from_spark(error):
        story = "`recalljoin --debug ...` shows the whole story"
        return f"Spark failed: {root_cause(error)}\n  {story}"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{str(error.filename)!r} cannot be used: {error.strerror}"
    return None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="recalljoin")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def main(debug: bool) -> None:
    """Join disordered streams at the recall you ask for.

    Exit codes: 0 if all went well, 1 if something failed (the message says what), 2 if the command
    was called wrongly.
    """


@main.command()
@click.argument("query")
@input_option("Parquet, CSV or JSON lines file of a stream; one for each stream of the query.")
def explain(query: str, inputs: tuple[str, ...]) -> None:
    """Show how QUERY (text, or a file with it) is understood: keys, conditions, windows."""
    from recalljoin.query.explain import explain as explained

    files = named_files(inputs)
    click.echo(explained(read_query(query), files))


main.add_command(advise)
main.add_command(completion)
main.add_command(dashboard)
main.add_command(demo)
main.add_command(doctor)
main.add_command(evaluate)
main.add_command(experiment)
main.add_command(generate)
main.add_command(grow)
main.add_command(produce)
main.add_command(record)
main.add_command(run)

if __name__ == "__main__":
    sys.exit(main())
