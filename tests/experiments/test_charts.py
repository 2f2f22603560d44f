"""Figures: what stands on top of the charts does not lie on each other."""

from __future__ import annotations

import pytest

from recalljoin.experiments.charts import ChartGrid, add_title, from_zero, plot


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_title_legend_and_charts_are_one_below_the_other(columns: int) -> None:
    grid = ChartGrid([f"data {n}" for n in range(columns)], ["K (s)", "recall"], "time")
    for column in range(columns):
        for policy in ("slack", "max", "noneqsel", "percentile"):
            plot(grid.at(0, column), [1, 2], [3, 4], policy)
    figure = grid.done()
    add_title(figure, "Figure 6: a title that is as long as the titles of figures are")
    figure.draw_without_rendering()
    (legend,) = figure.legends
    title = legend.get_title().get_window_extent()
    entries = [text.get_window_extent() for text in legend.get_texts()]
    assert title.y0 >= max(each.y1 for each in entries) - 1
    assert title.y1 <= figure.bbox.y1
    lowest = min(each.y0 for each in entries)
    assert all(lowest >= grid.at(0, c).title.get_window_extent().y1 for c in range(columns))


def test_a_figure_without_a_legend_has_a_title_too() -> None:
    grid = ChartGrid(["data"], ["K (s)"], "time")
    figure = grid.done()
    add_title(figure, "Nothing yet")
    assert figure.get_suptitle() == "Nothing yet"


def test_an_axis_from_zero_has_room_for_the_marker_of_its_largest_value() -> None:
    axes = ChartGrid(["data"], ["K (s)"], "time").at(0, 0)
    plot(axes, [1, 2], [16.0, 37.0], "slack")
    from_zero(axes)
    low, high = axes.get_ylim()
    assert low == 0
    assert high > 38.5
