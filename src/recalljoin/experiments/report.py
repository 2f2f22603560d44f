"""Reports on disk: a page, its figures as SVG and PNG, and the runs as JSON and Parquet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from recalljoin.experiments.charts import NAMES, add_title, over_time, worded
from recalljoin.experiments.page import Page, Section, Table, as_html, as_markdown
from recalljoin.experiments.run import Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from matplotlib.figure import Figure

    from recalljoin.quality.record import RunRecord

PAGE = "index.html"


def write_report(
    records: Mapping[str, RunRecord],
    folder: str | Path,
    *,
    title: str = "Runs over the same arrivals",
    label: str = "",
) -> Path:
    """Write a report of a few runs: K and recall over time, and a table.

    Parameters
    ----------
    records
        The runs by name. A run that is named after its policy has the policy's usual colour.
    folder
        Folder of the report, made if needed; files of an earlier report are overwritten.
    title, label
        Heading of the page, and a remark below it on where the numbers are from.

    Returns
    -------
    Path
        The page, a file that needs no other files.
    """
    runs = {name: Run.of(record) for name, record in records.items()}
    targets = {float(run.numbers["target"]) for run in runs.values()}
    figure = over_time({"": runs}, target=targets.pop() if len(targets) == 1 else None)
    section = illustrated(
        "over-time",
        "Wait and recall over time",
        figure,
        text=(
            "K is the wait in force: how long tuples are held back for late ones. Recall is the "
            "share of the true results of the last period that were produced; Γ is the recall "
            "asked for. In the table, Φ(Γ) is the share of measurements that reach Γ, and "
            "Φ(.99 Γ) of those that reach 99 % of it.",
        ),
        table=table_of(runs),
    )
    page = Page(title, label, (), (section,))
    return write_page(page, Path(folder), [{"name": name} | r.numbers for name, r in runs.items()])


def illustrated(
    name: str,
    title: str,
    figure: Figure | None,
    *,
    text: tuple[str, ...] = (),
    table: Table | None = None,
    notes: tuple[str, ...] = (),
) -> Section:
    """A section with its figure drawn; the figure has the section's title, as it is a file too."""
    if figure is None:
        return Section(name, title, text, table=table, notes=notes)
    add_title(figure, title)
    svg, png = worded(figure, "svg"), worded(figure, "png")
    return Section(name, title, text, svg, png, table, notes)


def table_of(runs: Mapping[str, Run]) -> Table:
    """The usual numbers of runs."""
    header = ("run", "mean K (s)", "mean latency (s)", "p99 (s)", "mean recall", "Φ(Γ)", "Φ(.99 Γ)",
              "results", "late tuples")  # fmt: skip
    rows = tuple(
        (
            NAMES.get(name, name),
            f"{run.mean_k:.3f}",
            _number(run.latency(), ".3f"),
            _number(run.latency("p99"), ".3f"),
            f"{run.mean_recall:.4f}",
            percent(run.phi()),
            percent(run.phi(share=0.99)),
            f"{run.numbers['produced']:,}",
            f"{run.numbers['late']:,}",
        )
        for name, run in runs.items()
    )
    return Table(header, rows)


def percent(share: float) -> str:
    """A share of measurements.

    Examples
    --------
    >>> percent(1.0), percent(0.9731)
    ('100.0 %', '97.3 %')
    """
    return f"{100 * share:.1f} %"


def write_page(page: Page, folder: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write a page, its figures as files, and the runs it is made from."""
    write_figures(page, folder / "figures", png=True)
    rows = list(rows)
    (folder / "records.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    pq.write_table(pa.Table.from_pylist([_flat(row) for row in rows]), folder / "records.parquet")
    path = folder / PAGE
    path.write_text(as_html(page), encoding="utf-8")
    return path


def write_docs(page: Page, path: Path) -> None:
    """Write a page as Markdown, its figures in a folder beside it."""
    write_figures(page, path.parent / "figures", png=False)
    path.write_text(as_markdown(page, figures="figures"), encoding="utf-8")


def write_figures(page: Page, folder: Path, *, png: bool) -> None:
    """Write the figures of a page."""
    folder.mkdir(parents=True, exist_ok=True)
    for section in page.whole():
        if section.svg is not None:
            (folder / f"{section.name}.svg").write_bytes(section.svg)
        if png and section.png is not None:
            (folder / f"{section.name}.png").write_bytes(section.png)


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of numbers, text or lists of numbers; an entry of a nested mapping has a dotted name.

    Examples
    --------
    >>> _flat({"a": 1, "b": {"c": 2.0, "d": {}}})
    {'a': 1, 'b.c': 2.0}
    """
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{inner}": v for inner, v in _flat(value).items()}
        else:
            flat[name] = value
    return flat


def _number(value: float, form: str) -> str:
    return "-" if value != value else f"{value:{form}}"  # noqa: PLR0124 - not a number
