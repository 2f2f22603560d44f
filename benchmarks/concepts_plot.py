"""The figure of docs/concepts.md: ``python -m benchmarks.concepts_plot docs/figures``.

Ten tuples of two streams, when each happened and when it arrived, and what a wait of two seconds
does to the results.
"""

from __future__ import annotations

from pathlib import Path

import click
import pyarrow as pa
from matplotlib.figure import Figure

import recalljoin as rj
from recalljoin.experiments.charts import COLOURS

BLUE, ORANGE, GREY = (COLOURS[name] for name in ("slack", "noneqsel", "none"))
# Seconds at which each tuple happened and arrived.
CLICKS = {"ada": (1, 1), "bob": (3, 3), "cid": (4, 4), "eve": (6, 6), "gus": (11, 11)}
ORDERS = {"ada": (2, 2), "bob": (4, 7), "cid": (5, 12), "eve": (6, 6), "hal": (10, 10)}
QUERY = "SELECT c.user FROM c [5 SEC], o [5 SEC] WHERE c.user = o.user"


def tables() -> dict[str, pa.Table]:
    """The two streams, in milliseconds."""
    return {
        name: pa.table(
            {
                "user": list(stream),
                "ts": [1000 * at for at, _ in stream.values()],
                "arrival": [1000 * at for _, at in stream.values()],
            }
        ).sort_by("arrival")
        for name, stream in (("c", CLICKS), ("o", ORDERS))
    }


def found(k: str) -> set[str]:
    """Users whose pair is found with a wait."""
    run = rj.replay(QUERY, tables(), k=k, arrival="arrival")
    return set(run.table()["user"].to_pylist())


def figure() -> Figure:
    """Both streams as lanes: a tuple stands where it happened, its arrow ends where it arrived."""
    picture = Figure(figsize=(9, 3.6), layout="constrained")
    axes = picture.subplots()
    hasty, patient = found("0 ms"), found("2 seconds")
    for lane, (name, stream, colour) in enumerate(
        (("orders", ORDERS, ORANGE), ("clicks", CLICKS, BLUE))
    ):
        for user, (at, arrived) in stream.items():
            axes.plot(at, lane, "o", color=colour, markersize=9)
            axes.annotate(
                user,
                (at, lane),
                xytext=(0, 9 if lane else -18),
                textcoords="offset points",
                ha="center",
            )
            if arrived > at:
                below = lane - 0.25 - 0.2 * (user == "cid")
                path = {"arrowstyle": "->", "color": GREY, "connectionstyle": "angle,angleB=0"}
                axes.annotate("", (arrived, below), (at, lane - 0.16), arrowprops=path)
                axes.text(arrived + 0.1, below, f"{arrived - at} s late", va="center", color=GREY)
        axes.text(-0.4, lane, name, ha="right", va="center", color=colour, fontweight="bold")
    for user, (at, _) in CLICKS.items():
        if user in ORDERS:
            how = "-" if user in hasty else "--" if user in patient else ":"
            axes.plot((at, ORDERS[user][0]), (0.93, 0.07), how, color=GREY, linewidth=1)
    axes.plot([], [], "-", color=GREY, label="found without any wait")
    axes.plot([], [], "--", color=GREY, label="found with a wait of 2 s")
    axes.plot([], [], ":", color=GREY, label="lost with a wait of 2 s")
    axes.set(xlim=(0, 13), ylim=(-0.7, 1.4), yticks=[], xlabel="seconds")
    axes.spines[["left", "top", "right"]].set_visible(False)
    axes.legend(loc="upper right", frameon=False, ncols=3)
    return picture


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
def main(folder: Path) -> None:
    """Draw the figure."""
    figure().savefig(folder / "concepts.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
