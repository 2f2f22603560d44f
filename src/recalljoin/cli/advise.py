"""``recalljoin advise``: how long to wait, judging from a recorded sample."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

from recalljoin.cli.inputs import (
    column_options,
    input_option,
    named_files,
    read_query,
    read_tables,
    source_option,
    warn_without_arrivals,
)
from recalljoin.cli.numbers import json_option, write_numbers
from recalljoin.cli.pictures import draw, picture_option

if TYPE_CHECKING:
    from recalljoin.quality.advice import Advice
    from recalljoin.query.durations import DurationLike, TimeUnit

_HEADER = ("recall", "K of recalljoin", "delay of withWatermark")


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

    Both for recalljoin (the wait K) and for Spark's own join (withWatermark). Spark's own inner
    join lets pairs out at once, and its delay says how long it keeps tuples; so does K with
    emit="eager". By default recalljoin holds results back for K, and lets them out in order.
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
    if picture is not None:
        from recalljoin.experiments.page import Table as PageTable

        draw(
            advice, picture,
            title=f"What a recall of {advice.recall:g} takes",
            text=(
                _counts(advice),
                "In the picture and the table: the K of recalljoin and the delay of withWatermark "
                f"that each recall needs. {_sense(advice)}",
            ),
            table=PageTable(_HEADER, tuple(tuple(row) for row in _rows(advice))),
        )  # fmt: skip


def _counts(advice: Advice) -> str:
    from recalljoin.query.durations import rounded

    late = rounded(advice.largest_delay_ms)
    return (
        f"{advice.n_tuples:,} tuples, {advice.n_results:,} results; the latest tuple came "
        f"{late} late."
    )


def _sense(advice: Advice) -> str:
    """What the two delays are, which look alike and are not."""
    from recalljoin.query.durations import rounded

    return (
        "Spark's own join lets pairs out at once; the delay says how long it keeps tuples beyond "
        f"their windows. recalljoin needs a wait (K) of {rounded(advice.k_ms)}, and changes it "
        "when delays change. By default it holds results back for K and lets them out in order of "
        'time; with `emit="eager"` it lets them out at once as well, and K says how long tuples '
        "are kept beyond their windows."
    )


def _rows(advice: Advice) -> list[list[str]]:
    from recalljoin.cli.summary import percent
    from recalljoin.quality.advice import RECALLS
    from recalljoin.query.durations import rounded

    rows = []
    for recall in sorted({*RECALLS, advice.recall}):
        delays = [curve.needed(recall) for curve in (advice.slack, advice.watermark)]
        rows.append([percent(recall), *("-" if d is None else rounded(d) for d in delays)])
    return rows


def _print(advice: Advice) -> None:
    from rich.table import Table

    from recalljoin.cli.summary import output_console, percent
    from recalljoin.query.durations import rounded

    console = output_console()
    console.print(f"{_counts(advice)}\n", highlight=False)
    table = Table(*_HEADER, box=None, pad_edge=False)
    for row in _rows(advice):
        table.add_row(*row, style="bold" if row[0] == percent(advice.recall) else None)
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
        f"\nFor {percent(advice.recall)} of the results, Spark's own join needs\n"
        f'  .withWatermark(time, "{math.ceil(advice.watermark_ms)} milliseconds")\n'
        f"on every stream. {_sense(advice)}",
        highlight=False,
        markup=False,
    )
