"""Pictures of a join, of an advice and of an evaluation, for notebooks and files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recalljoin.errors import InvalidSetting
from recalljoin.quality.advice import Advice
from recalljoin.quality.record import RunRecord
from recalljoin.quality.replayed import Replayed
from recalljoin.query.durations import NANOSECONDS_PER, rounded

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from recalljoin.dashboard.followed import FollowedJoin

_MOST = 2000
_GREY, _RED = "#555555", "#C01F2E"
_BLUE, _ORANGE, _GREEN = "#0072B2", "#D55E00", "#009E73"


class Picture:
    """A picture that notebooks show and that can be saved; made by :func:`recalljoin.plot`."""

    def __init__(self, figure: Figure, title: str) -> None:
        self.figure = figure
        self.title = title

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file whose name ends in ``.svg`` or ``.png``.

        Raises
        ------
        InvalidSetting
            When the name ends otherwise.
        """
        from recalljoin.experiments.charts import worded  # noqa: PLC0415 - needs matplotlib

        kind = Path(path).suffix.removeprefix(".").lower()
        if kind not in ("svg", "png"):
            message = f"a picture is saved as '.svg' or '.png', got {os.fspath(path)!r}"
            raise InvalidSetting(message)
        Path(path).write_bytes(worded(self.figure, kind))

    def _repr_svg_(self) -> str:
        from recalljoin.experiments.charts import worded  # noqa: PLC0415 - needs matplotlib

        return worded(self.figure, "svg").decode()

    def __repr__(self) -> str:
        return f"<Picture {self.title}; .save('picture.svg') writes it, .figure is matplotlib's>"


def plot(source: Any) -> Picture:
    """Draw a join, an advice or an evaluation.

    Parameters
    ----------
    source
        An :class:`~recalljoin.Advice`: recall against the wait. What ``evaluate`` or a replay with
        a recall gives: the wait and recall over time. A StreamingQuery, what
        :func:`recalljoin.open` gives, or the folder of a control log: the join so far.

    Returns
    -------
    Picture
        Shown by notebooks as it is; ``save(path)`` writes it.

    Raises
    ------
    InvalidSetting
        When there is nothing to draw, or matplotlib is not installed.
    """
    if isinstance(source, Advice):
        return _of_advice(source)
    if isinstance(source, Replayed):
        if source.adaptation is None:
            message = "a replay with a fixed wait has nothing to draw; give it a `recall`"
            raise InvalidSetting(message)
        source = source.adaptation
    if isinstance(source, RunRecord):
        return _of_record(source)
    from recalljoin.dashboard.watching import followed  # noqa: PLC0415 - loads Spark's part

    return _of_join(followed(source))


def _of_advice(advice: Advice) -> Picture:
    from recalljoin.experiments.charts import ChartGrid  # noqa: PLC0415 - needs matplotlib

    grid = ChartGrid([""], ["recall"], "K, or delay (s)")
    axes = grid.at(0, 0)
    for curve, label, colour in (
        (advice.slack, "K of recalljoin", _BLUE),
        (advice.watermark, "delay of withWatermark", _ORANGE),
    ):
        seconds = [ms / 1000 for ms in curve.delay_ms]
        axes.step(seconds, curve.recall, where="post", color=colour, label=label)
    axes.axhline(
        advice.recall, color=_GREY, linestyle="--", linewidth=0.9, label=f"recall {advice.recall:g}"
    )
    axes.plot([advice.k_ms / 1000], [advice.recall], "o", color=_BLUE)
    axes.plot([advice.watermark_ms / 1000], [advice.recall], "o", color=_ORANGE)
    # Beyond what the rarest results need there is nothing to see.
    longest = max(advice.slack.needed(1.0) or 0, advice.watermark_ms, advice.k_ms)
    axes.set_xlim(0, max(longest, 1) * 1.05 / 1000)
    axes.set_ylim(top=1.01)
    _roomy(grid.figure)
    return Picture(grid.done(), f"of the waits that a recall of {advice.recall:g} needs")


def _of_record(record: RunRecord) -> Picture:
    from recalljoin.experiments.charts import ChartGrid  # noqa: PLC0415 - needs matplotlib

    if not len(record.k):
        message = "the recording is shorter than an interval, so there is nothing to draw"
        raise InvalidSetting(message)
    second = NANOSECONDS_PER["s"] / NANOSECONDS_PER[record.unit]
    minutes = (record.clock - record.clock[0]) / second / 60
    grid = ChartGrid([record.policy], ["K (s)", "recall"], "time of the streams (min)")
    grid.at(0, 0).step(minutes, record.k / second, where="post", color=_BLUE)
    grid.at(0, 0).set_ylim(bottom=0)
    axes = grid.at(1, 0)
    recall = np.where(record.counts, record.recall, np.nan)
    _against_target(axes, minutes, recall, np.full(len(recall), record.target), "recall")
    _roomy(grid.figure)
    period = rounded(record.period / second * 1000)
    return Picture(grid.done(), f"of a run of {record.policy}, recall over {period}")


def _of_join(join: FollowedJoin) -> Picture:
    from recalljoin.experiments.charts import ChartGrid  # noqa: PLC0415 - needs matplotlib

    columns: dict[str, Any] = {
        name: np.array(values, dtype=np.float64)
        for name, values in join.series(most=_MOST)["columns"].items()
    }
    if not len(columns["batch"]):
        message = f"`control_log` {join.log.shown!r} holds no batch yet, so nothing can be drawn"
        raise InvalidSetting(message)
    planned = columns["planned"]
    has_clock = not np.isnan(planned).all()
    x = (planned - np.nanmin(planned)) / 60 if has_clock else columns["batch"]
    grid = ChartGrid(
        [join.name], ["K (s)", "recall", "a second"], "time (min)" if has_clock else "batch"
    )
    grid.at(0, 0).step(x, columns["k"], where="post", color=_BLUE)
    grid.at(0, 0).set_ylim(bottom=0)
    axes = grid.at(1, 0)
    axes.plot(x, columns["recall"], color="#56B4E9", linestyle=":", label="provisional recall")
    _against_target(axes, x, columns["recall_settled"], columns["target"], "settled recall")
    with np.errstate(divide="ignore", invalid="ignore"):
        for name, label, colour in (
            ("arrived", "tuples", _ORANGE),
            ("produced", "results", _GREEN),
            ("lost", "lost results", _RED),
        ):
            rate = np.where(columns["span"] > 0, columns[name] / columns["span"], np.nan)
            grid.at(2, 0).plot(x, rate, color=colour, label=label, linewidth=1)
    grid.at(2, 0).set_ylim(bottom=0)
    _roomy(grid.figure)
    return Picture(grid.done(), f"of the join {join.name}, {len(x)} points")


def _against_target(axes: Axes, x: Any, recall: Any, target: Any, label: str) -> None:
    axes.plot(x, recall, color=_BLUE, label=label)
    missed = recall < target
    if missed.any():
        axes.plot(x[missed], recall[missed], ".", color=_RED, label="below the target")
    if not np.isnan(target).all():
        axes.plot(x, target, color=_GREY, linestyle="--", linewidth=0.9, label="target")
    axes.set_ylim(top=1.01)


def _roomy(figure: Figure) -> None:
    width, height = figure.get_size_inches()
    figure.set_size_inches(max(width, 7.5), max(height, 3.2))
