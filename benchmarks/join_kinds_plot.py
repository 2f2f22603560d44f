"""The figure of docs/join-kinds.md: ``python -m benchmarks.join_kinds_plot docs/figures``.

Ten tuples go through a left join twice, and the figure shows when each of its rows leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure

from recalljoin.engine.arrivals import arrivals_of
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.step import drain
from recalljoin.experiments.charts import COLOURS
from recalljoin.query.model import Query, Stream

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from recalljoin.query.kinds import Emit

BLUE, ORANGE, GREY = (COLOURS[name] for name in ("slack", "noneqsel", "none"))
WINDOW, K, END = 4, 2, 18


@dataclass(frozen=True)
class Event:
    """A tuple: its name, its order's number, and when it happened and arrived."""

    name: str
    order: int
    ts: int
    arrival: int


ORDERS = (
    Event("o1", 1, 1, 1), Event("o2", 2, 3, 3), Event("o3", 3, 4, 4), Event("o4", 4, 6, 6),
    Event("o5", 5, 14, 14),
)  # fmt: skip
PAYMENTS = (
    Event("p1", 1, 2, 2), Event("p6", 6, 7, 7), Event("p3", 3, 5, 9), Event("p5", 5, 15, 15),
    Event("p4", 4, 8, 17),
)  # fmt: skip


@dataclass(frozen=True)
class Left:
    """A row that has left: its members, and the tick in which it left."""

    order: str
    payment: str | None
    tick: int

    @property
    def label(self) -> str:
        """The row as the figure names it."""
        return f"({self.order}, {self.payment or 'null'})"


def rows(emit: Emit) -> tuple[list[Left], list[str]]:
    """When each row of the left join leaves, and the orders whose null was false."""
    streams = [Stream(name, window=WINDOW, arrival="arrival") for name in ("o", "p")]
    query = Query(streams=streams, condition="o.order = p.order", how="left", emit=emit)
    tables = {"o": _table(ORDERS), "p": _table(PAYMENTS)}
    bound = query.bind({name: table.schema for name, table in tables.items()})
    arrivals = arrivals_of(bound, tables)
    pipeline = Pipeline(bound, EngineSettings(arrival="tick", retention=20))
    assert arrivals.arrival is not None
    left, false = [], []
    for tick in range(END + 1):
        begin, end = (int(at) for at in np.searchsorted(arrivals.arrival, (tick, tick + 1)))
        part = arrivals.slice(begin, end)
        ticks = np.zeros(end - begin, dtype=np.int64)
        batches, step = drain(pipeline.push_ticks(part, ticks, n_ticks=1, k=K))
        for row in (row for batch in batches for row in batch.to_pylist()):
            left.append(Left(row["o"]["name"], row["p"] and row["p"]["name"], tick))
        assert step.told is not None
        false += step.told.false_rows[0].column("name").to_pylist()
    return left, false


def _table(events: tuple[Event, ...]) -> pa.Table:
    return pa.table(
        {
            "ts": [e.ts for e in events],
            "arrival": [e.arrival for e in events],
            "order": [e.order for e in events],
            "name": [e.name for e in events],
        }
    )


def timeline_figure() -> Figure:
    """Ten tuples at their arrival, and below the rows when they leave."""
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axis = figure.subplots()
    lanes = {"orders": 3.0, "payments": 2.0, 'emit="ordered"': 1.0, 'emit="eager"': 0.0}
    for lane, events, colour in (("orders", ORDERS, BLUE), ("payments", PAYMENTS, ORANGE)):
        for number, event in enumerate(events):
            axis.plot(event.arrival, lanes[lane], "o", color=colour)
            # From when the tuple happened to when it arrived.
            if event.ts < event.arrival:
                below = lanes[lane] - 0.1 * (number - 1)
                axis.hlines(below, event.ts, event.arrival, color=colour, lw=1)
                axis.vlines([event.ts, event.arrival], below, lanes[lane], color=colour, lw=1)
            axis.annotate(
                f"{event.name} ({event.ts})",
                (event.arrival, lanes[lane]),
                xytext=(0, 7),
                textcoords="offset points",
                ha="center",
                fontsize=8,
            )
    for emit in ("ordered", "eager"):
        _draw_rows(axis, lanes[f'emit="{emit}"'], *rows(emit))
    axis.set_yticks(list(lanes.values()), list(lanes))
    axis.set_ylim(-0.6, 3.6)
    axis.set_xlim(0, END + 0.5)
    axis.set_xlabel("time of arrival (s); a tuple's own time is in brackets")
    axis.set_xticks(range(0, END + 1, 2))
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(left=False)
    return figure


def _draw_rows(axis: Axes, height: float, left: list[Left], false: list[str]) -> None:
    place, before = 0, -END
    for row in left:
        # Labels of rows that leave one after the other stand above each other.
        place = place + 1 if row.tick - before < 3 else 0
        before = row.tick
        is_false = row.payment is None and row.order in false
        axis.plot(row.tick, height, "s", ms=5, color=GREY)
        axis.annotate(
            row.label + (" false" if is_false else ""),
            (row.tick, height),
            xytext=(0, 7 + 10 * place),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            color="tab:red" if is_false else "black",
        )


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
def main(folder: Path) -> None:
    """Draw the figure into FOLDER."""
    timeline_figure().savefig(folder / "join-kinds.svg", metadata={"Date": None})
    print(folder / "join-kinds.svg")


if __name__ == "__main__":
    main()
