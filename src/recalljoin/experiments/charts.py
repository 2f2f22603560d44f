"""Charts in one style: a colour and a marker for each policy, axes with units, PNG and SVG."""

from __future__ import annotations

import re
from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING, Any

from recalljoin.errors import InvalidSetting

if find_spec("matplotlib") is None:
    _MESSAGE = "charts need matplotlib; call `pip install 'recalljoin[plot]'`"
    raise InvalidSetting(_MESSAGE)

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from recalljoin.engine.arrays import Float64s
    from recalljoin.experiments.run import Run

# The colours of Okabe and Ito, which colour-blind people can tell apart; the markers help where a
# chart is printed without colours.
COLOURS = {
    "slack": "#0072B2",
    "noneqsel": "#D55E00",
    "eqsel": "#E69F00",
    "percentile": "#009E73",
    "max": "#000000",
    "none": "#777777",
    "fixed": "#CC79A7",
}
MARKERS = {
    "slack": "o",
    "noneqsel": "s",
    "eqsel": "D",
    "percentile": "^",
    "max": "x",
    "none": "+",
    "fixed": "v",
}
NAMES = {
    "slack": "slack (ours)",
    "noneqsel": "NonEqSel (paper)",
    "eqsel": "EqSel (paper)",
    "percentile": "percentile of delays",
    "max": "Max-K-slack",
    "none": "No-K-slack",
    "fixed": "fixed K",
}
_OTHER_COLOURS = ("#56B4E9", "#F0E442", *COLOURS.values())
_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial"],
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.labelsize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "figure.facecolor": "white",
    # Letters stay letters, not outlines: files are smaller and can be searched.
    "svg.fonttype": "none",
    # A fixed salt: the same chart gives the same file.
    "svg.hashsalt": "recalljoin",
}
_MOST_STEPS = 500
_STRETCHES = 60
"""A swinging line is shown by this many stretches of time."""
_TITLE = 0.28
"""Height of a title in inches."""
_COLUMN, _ROW, _WIDTH = 2.7, 1.75, 8.6
"""Width and height in inches of one chart in a grid, and the least width of the grid: that of three
charts, so that letters are equally large in all figures of a page."""


class ChartGrid:
    """Charts side by side that share a legend.

    Parameters
    ----------
    columns
        Titles of the columns.
    rows
        Labels of the vertical axes.
    across
        Label of the horizontal axis.
    """

    def __init__(self, columns: Sequence[str], rows: Sequence[str], across: str) -> None:
        with mpl.rc_context(_STYLE):
            width = max(_COLUMN * len(columns) + 0.5, _WIDTH)
            self.figure = Figure((width, _ROW * len(rows) + 0.75), layout="constrained")
            self.axes = self.figure.subplots(len(rows), len(columns), sharex="col", squeeze=False)
            for axes, title in zip(self.axes[0], columns, strict=True):
                axes.set_title(title)
            for line, label in zip(self.axes, rows, strict=True):
                line[0].set_ylabel(label)
            for axes in self.axes[-1]:
                axes.set_xlabel(across)
            self.figure.align_ylabels()

    def at(self, row: int, column: int) -> Axes:
        """One of the charts."""
        axes: Axes = self.axes[row][column]
        return axes

    def done(self) -> Figure:
        """The figure, with one legend for all charts."""
        found: dict[str, Artist] = {}
        for axes in self.axes.flat:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                found.setdefault(label, handle)
        if found:
            with mpl.rc_context(_STYLE):
                self.figure.legend(
                    list(found.values()),
                    list(found),
                    loc="outside upper center",
                    ncols=min(len(found), 3 if len(self.axes[0]) < 3 else 5),
                )
        return self.figure


def add_title(figure: Figure, title: str) -> None:
    """Put a title on top of a figure, which grows by it.

    A legend outside the charts has the place of the figure's title, and so has it for its own.
    """
    figure.set_figheight(figure.get_figheight() + _TITLE)
    if figure.legends:
        figure.legends[0].set_title(title, prop=FontProperties(size=10))
    else:
        figure.suptitle(title, fontsize=10)


def from_zero(axes: Axes) -> None:
    """Let a vertical axis begin at 0, and end so far above the largest value that a marker fits."""
    axes.margins(y=0.12)
    axes.set_ylim(bottom=0)


def plot(
    axes: Axes,
    x: Iterable[float],
    y: Iterable[float],
    policy: str,
    *,
    line: str = "-",
    label: str | None = None,
) -> None:
    """A line with a marker at each of its few points."""
    axes.plot(
        list(x), list(y), linestyle=line,
        color=COLOURS[policy], marker=MARKERS[policy], label=label or NAMES[policy],
    )  # fmt: skip


def over_time(
    columns: Mapping[str, Mapping[str, Run]],
    *,
    target: float | None,
    marks: Sequence[float] = (),
    with_k: bool = True,
    seconds: tuple[float, float] = (0.1, 10),
) -> Figure:
    """K and recall over time: a column for each recording, with a line for each named run.

    Parameters
    ----------
    columns
        Title of each column, and its runs by name. Policies keep their colour.
    target
        Recall asked for, drawn as a line.
    marks
        Minutes at which something happens.
    with_k
        Show K above recall.
    seconds
        Smallest and largest power of ten on the axis of K, in seconds.
    """
    rows = ["K (s)", "recall"] if with_k else ["recall"]
    grid = ChartGrid(list(columns), rows, "time (min)")
    for column, runs in enumerate(columns.values()):
        for number, (name, run) in enumerate(runs.items()):
            colour = COLOURS.get(name, _OTHER_COLOURS[number % len(_OTHER_COLOURS)])
            style: dict[str, Any] = {"color": colour, "label": NAMES.get(name, name)}
            series = [run.k_over_time()] if with_k else []
            for row, line in enumerate([*series, run.recall_over_time()]):
                # The model's K swings from one interval to the next: as a line it were a block
                # that hides all other lines.
                swings = row == 0 and with_k and name in ("eqsel", "noneqsel")
                _step(grid.at(row, column), *line, as_band=swings, style=style)
        for row in range(len(rows)):
            for mark in marks:
                grid.at(row, column).axvline(mark, color="#999999", linestyle=":", linewidth=1)
        if with_k:
            from_zero_in_powers(grid.at(0, column), *seconds)
        if target is not None:
            grid.at(-1, column).axhline(
                target, color="#555555", linestyle="--", linewidth=0.9, label=f"Γ = {target:g}"
            )
    return grid.done()


def _step(
    axes: Axes, minutes: Float64s, values: Float64s, *, as_band: bool, style: dict[str, Any]
) -> None:
    if as_band and len(minutes) > 2 * _STRETCHES:
        minutes, below, values, above = swing(minutes, values)
        axes.fill_between(
            minutes, below, above, step="post", color=style["color"], alpha=0.2, linewidth=0
        )
    # As vectors, this many steps would make files of megabytes.
    many = len(minutes) > _MOST_STEPS
    axes.step(minutes, values, where="post", linewidth=1.2, rasterized=many, **style)


def swing(minutes: Float64s, values: Float64s) -> tuple[Float64s, ...]:
    """Where a swinging line mostly is, in stretches of equally many values.

    Returns
    -------
    tuple of arrays
        Beginning of each stretch; below, median and above: a tenth of the values of the stretch
        lies below the first and a tenth above the last.

    Examples
    --------
    >>> swings = np.tile([0.0, 1.0, 9.0], 240)
    >>> begins, below, median, above = swing(np.arange(720.0), swings)
    >>> len(begins), float(below[0]), float(median[0]), float(above[0])
    (60, 0.0, 1.0, 9.0)
    """
    stretches = np.array_split(np.arange(len(values)), _STRETCHES)
    shares = [np.quantile(values[each], (0.1, 0.5, 0.9)) for each in stretches]
    return (minutes[[each[0] for each in stretches]], *np.array(shares).T)


def from_zero_in_powers(axes: Axes, smallest: float = 0.1, largest: float = 10) -> None:
    """Let the vertical axis show K in seconds: 0, and powers of ten in equal steps."""
    powers = [smallest]
    while powers[-1] < largest / 2:
        powers.append(10 * powers[-1])
    axes.set_yscale("symlog", linthresh=smallest)
    axes.set_yticks([0, *powers], ["0", *(f"{power:g}" for power in powers)])
    axes.set_ylim(0, 4 * largest)


def sweep(
    columns: Mapping[str, Callable[[str, float], tuple[Run, float]]],
    *,
    policies: Sequence[str],
    values: Sequence[float],
    across: str,
    log: bool = False,
    reference: Mapping[str, Run] | None = None,
) -> Figure:
    """Mean K and fulfilment over a parameter, a line for each policy.

    Parameters
    ----------
    columns
        Title of each column, and a function from policy and value to the run and its target.
    policies
        Policies, one for each line.
    values
        Values of the parameter; shown evenly spaced unless ``log``.
    across
        Name of the parameter.
    log
        Show the values on a logarithmic scale.
    reference
        For each column a run without target whose mean K is drawn as a horizontal line.
    """
    grid = ChartGrid(list(columns), ["mean K (s)", "Φ(Γ) (%)", "Φ(.99 Γ) (%)"], across)
    places = list(values) if log else list(range(len(values)))
    for column, (title, find) in enumerate(columns.items()):
        for policy in policies:
            found = [find(policy, value) for value in values]
            plot(grid.at(0, column), places, [run.mean_k for run, _ in found], policy)
            for row, share in ((1, 1.0), (2, 0.99)):
                phi = [100 * run.phi(target, share=share) for run, target in found]
                plot(grid.at(row, column), places, phi, policy)
        if reference is not None:
            grid.at(0, column).axhline(
                reference[title].mean_k, color=COLOURS["max"], linestyle="--", linewidth=1,
                label=NAMES["max"],
            )  # fmt: skip
        from_zero(grid.at(0, column))
        for row in (1, 2):
            grid.at(row, column).set_ylim(-4, 104)
        axes = grid.at(2, column)
        if log:
            axes.set_xscale("log")
        axes.set_xticks(places, [f"{value:g}" for value in values])
        axes.minorticks_off()
    return grid.done()


def worded(figure: Figure, kind: str) -> bytes:
    """A figure as the content of a file of kind ``"svg"`` or ``"png"``."""
    content = BytesIO()
    with mpl.rc_context(_STYLE):
        # Metadata about when and by whom it was drawn would make equal charts different files.
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type")) if kind == "svg" else None
        figure.savefig(content, format=kind, dpi=144, metadata=nothing)
    return slim(content.getvalue()) if kind == "svg" else content.getvalue()


def slim(svg: bytes) -> bytes:
    """The same picture in a smaller file: no line break after each point, coordinates to 0.01.

    The text in the picture stays as it is.

    Examples
    --------
    >>> slim(b'<!DOCTYPE svg PUBLIC ""><text x="38.724615">0.999</text>')
    b'<text x="38.72">0.999</text>'
    """
    svg = re.sub(rb"<!DOCTYPE[^>]*>\s*", b"", svg)
    svg = re.sub(rb"\n +", b"\n", svg).replace(b" \n", b" ")
    return re.sub(rb"<[^>]*>", lambda tag: re.sub(rb"(\d\.\d\d)\d+", rb"\1", tag[0]), svg)
