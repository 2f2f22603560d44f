"""``python -m benchmarks [NAME ...] [--write FILE]``: run benchmarks and print their tables."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from benchmarks import engine
from benchmarks.growth import growth
from benchmarks.measure import machine, wrapped
from benchmarks.spark_join import SECTION

BENCHMARKS = {
    "counting": engine.counting,
    "disorder": engine.disorder,
    "rows": engine.rows,
    "theta": engine.theta,
    "growth": growth,
}


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(BENCHMARKS)))
@click.option(
    "--write", type=click.Path(path_type=Path), help="Keep the tables in this Markdown file."
)
def main(names: tuple[str, ...], write: Path | None) -> None:
    """Run all benchmarks, or those named."""
    print(machine())
    reports = [BENCHMARKS[name]() for name in names or BENCHMARKS]
    if write is not None:
        today = datetime.now(UTC).date()
        made = (
            'Made by `make bench ARGS="--write docs/performance.md"`. Processor seconds of one '
            "core, best of several runs with compiled kernels; peers run in the same process."
        )
        head = f"# Performance\n\n{wrapped(made)}\n\n" + wrapped(f"Machine: {machine()}; {today}.")
        # What another benchmark has written stays.
        _, mark, other = write.read_text().partition(SECTION) if write.exists() else ("", "", "")
        tables = [report.markdown() for report in reports] + [mark + other.rstrip()] * bool(mark)
        write.write_text("\n\n".join([head, *tables]) + "\n")


if __name__ == "__main__":
    main()
