"""``recalljoin grow``: the state of a stopped join, divided over another number of groups."""

from __future__ import annotations

import click


@click.command()
@click.argument("checkpoint")
@click.option(
    "--groups", type=click.IntRange(min=1), required=True,
    help="Groups over which the cells of the join are going to be divided: its executors.",
)  # fmt: skip
@click.option(
    "--output", required=True, metavar="DIR|none",
    help="The folder that the query writes files to; `none` if its sink is another, as Kafka.",
)  # fmt: skip
@click.pass_context
def grow(ctx: click.Context, checkpoint: str, groups: int, output: str) -> None:
    """Divide the state in CHECKPOINT over other groups, for a cluster of another size.

    The query must have been stopped. Afterwards start it with as many `groups`, and with as many
    `cells` as you like: results go on where they ended.
    """
    from recalljoin.cli.spark import require_spark, running, waiting

    require_spark()
    from recalljoin.spark.partitions import grow as divide

    debug = bool(ctx.find_root().params.get("debug"))
    with running(debug=debug) as spark, waiting("dividing the state"):
        has_changed = divide(
            spark, checkpoint, groups=groups, output=None if output == "none" else output
        )
    click.echo(
        f"the state is divided over {groups} groups; start the query with groups={groups}"
        if has_changed
        else f"the state is divided over {groups} groups already"
    )
