"""``recalljoin advise``: how long to wait, judging from a recorded sample."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

from recalljoin.cli.inputs import (
    column_options,
    draw,
    input_option,
    named_files,
    picture_option,
    read_query,
    read_tables,
    source_option,
    warn_without_arrivals,
)
from recalljoin.cli.numbers import json_option, write_numbers

if TYPE_CHECKING:
    from recalljoin.quality.advice import Advice
    from recalljoin.query.durations import DurationLike, TimeUnit


@click.command()
@click.option(
    "--query", required=True, metavar="FILE_OR_TEXT", help="The query, or a file that holds it."
)
@input_option(
    "Parquet, CSV or JSON lines file with a sample of a stream; one for each stream of the query."
)
@column_options
@source_option
@click.option("--recall", type=float, help="Share of the true results wanted. [0.95]")
@json_option()
@picture_option()
def advise(
    *,
    query: str,
    inputs: tuple[str, ...],
    time: str | None,
    arrival: str | None,
    source: str | None,
    time_unit: TimeUnit,
    max_ahead: DurationLike | None,
    recall: float | None,
    json_file: str | None,
    picture: str | None,
) -> None:
    """Show what recall each delay would give, and the delay that is needed.

    Both for recalljoin (the slack K) and for a plain join of Spark (withWatermark).
    """
    from recalljoin.quality.advice import advise as advice_of

    files = named_files(inputs)
    warn_without_arrivals(files, arrival)
    advice = advice_of(
        read_query(query),
        read_tables(files),
        recall=recall,
        time=time,
        arrival=arrival,
        source=source,
        max_ahead=max_ahead,
        time_unit=time_unit,
    )
    if not write_numbers(advice.to_json(), json_file):
        _print(advice)
    draw(advice, picture)


def _print(advice: Advice) -> None:
    from rich.table import Table

    from recalljoin.cli.summary import output_console, percent
    from recalljoin.quality.advice import RECALLS
    from recalljoin.query.durations import rounded

    console = output_console()
    console.print(
        f"{advice.n_tuples:,} tuples, {advice.n_results:,} results; the latest tuple came "
        f"{rounded(advice.largest_delay_ms)} late.\n",
        highlight=False,
    )
    table = Table("recall", "recalljoin waits (K)", "withWatermark delay", box=None, pad_edge=False)
    for recall in sorted({*RECALLS, advice.recall}):
        waits = [curve.needed(recall) for curve in (advice.slack, advice.watermark)]
        cells = [percent(recall), *("-" if w is None else rounded(w) for w in waits)]
        table.add_row(*cells, style="bold" if recall == advice.recall else None)
    console.print(table)
    if advice.null_precision is not None:
        console.print(
            f"\nOf the rows without a partner, {percent(advice.null_precision)} are right if "
            f"recalljoin waits {rounded(advice.k_ms)}.",
            highlight=False,
        )
    if advice.sources is not None:
        lead = advice.sources.lead_ms
        stops = "for no source" if lead is None else f"for a source {rounded(lead)} behind"
        console.print(
            f"\nWith sources, recalljoin stops {stops} and waits {rounded(advice.sources.k_ms)} "
            f"besides: {rounded(advice.sources.wait_ms)} on average.",
            highlight=False,
        )
    console.print(
        f"\nFor {percent(advice.recall)} of the results, a plain Spark join needs\n"
        f'  .withWatermark(time, "{math.ceil(advice.watermark_ms)} milliseconds")\n'
        f"on every stream. recalljoin waits {rounded(advice.k_ms)} for them, and adapts when "
        "that changes.",
        highlight=False,
        markup=False,
    )
