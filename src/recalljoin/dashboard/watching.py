"""A join in a few lines that follow it: in a terminal, or in the output of a notebook's cell."""

from __future__ import annotations

import importlib
import math
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.live import Live
from rich.table import Table

from recalljoin.dashboard.followed import FollowedJoin
from recalljoin.errors import InvalidSetting
from recalljoin.query.durations import rounded
from recalljoin.query.html_table import html_table
from recalljoin.spark.control_log import ControlLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql.streaming.query import StreamingQuery

    from recalljoin.spark.join_log import JoinLog

_BARS: Final = "▁▂▃▄▅▆▇█"
_MOST_BARS: Final = 40

Source = Any
"""A StreamingQuery, an opened join, or the folder of a control log."""


def followed(source: str | os.PathLike[str] | StreamingQuery | JoinLog) -> FollowedJoin:
    """A join to be shown, with all that is in its log by now."""
    if isinstance(source, str | os.PathLike):
        join = FollowedJoin(ControlLog(os.fspath(source)))
        if not join.log.is_of_a_join():
            message = (
                f"`control_log` {join.log.shown!r} holds nothing that a join has written; give the "
                "folder that the join was given as `control_log`"
            )
            raise InvalidSetting(message)
    else:
        # Only a query, or what was opened with Spark, needs Spark here.
        from recalljoin.spark.join_log import JoinLog, open  # noqa: PLC0415

        opened = source if isinstance(source, JoinLog) else open(source)
        join = FollowedJoin(ControlLog(opened.control_log))
    join.catch_up()
    return join


def watch(
    source: str | os.PathLike[str] | StreamingQuery | JoinLog,
    *,
    every: float = 1.0,
    seconds: float | None = None,
) -> None:
    """Show a join while it runs, in a terminal or in a notebook.

    Parameters
    ----------
    source
        The StreamingQuery, what :func:`recalljoin.open` gives, or the folder of a control log.
    every
        Seconds between two looks.
    seconds
        For how long to watch; by default until the query has ended, or somebody interrupts.

    Raises
    ------
    InvalidSetting
        When no join has written to the folder, or the query has no join in it.
    """
    until = math.inf if seconds is None else time.monotonic() + seconds
    try:
        join = _found(source, every=every, until=until)
        if join is not None:
            looks = _looks(join, source, every=every, until=until)
            _in_notebook(looks) if _notebook() is not None else _in_terminal(looks)
    except KeyboardInterrupt:
        return


def _found(source: Source, *, every: float, until: float) -> FollowedJoin | None:
    """The join of a source, which a query names from the end of its first batch on."""
    while True:
        try:
            return followed(source)
        except InvalidSetting:
            if not getattr(source, "isActive", False):
                raise
        if time.monotonic() > until:
            return None
        time.sleep(min(every, 0.2))


def _looks(
    join: FollowedJoin, source: Source, *, every: float, until: float
) -> Iterator[list[tuple[str, str, str]]]:
    while True:
        # Asked before the look, so that the last look is after the end.
        goes_on = getattr(source, "isActive", True)
        join.catch_up()
        yield lines(join)
        if not goes_on or join.now().get("has_ended"):
            return
        if time.monotonic() + every > until:
            return
        time.sleep(every)


def lines(join: FollowedJoin) -> list[tuple[str, str, str]]:
    """A join in a few lines: what is shown, how it is now, and how it was."""
    now = join.now()
    if now["fault"]:
        return [("fault", now["fault"], "")]
    if "batch" not in now:
        return [("join", "no batch yet", "")]
    columns = join.series()["columns"]
    target = now["target"]
    low = 0.0 if target is None else max(0.0, 1 - 2 * (1 - target))
    recall = "-" if now["recall"] is None else f"{now['recall']:.4f}"
    asked = "" if target is None else f"target {target:g}"
    if now["below_target"]:
        asked += ", missed now"
    totals = now["totals"]
    found = [
        ("wait (K)", rounded(1000 * now["k"]), _bars_of(columns["k"], 0.0, None)),
        ("recall", recall, f"{_bars_of(columns['recall'], low, 1.0)}  {asked}"),
        ("results", f"{totals['produced']:,}", f"{totals['lost']:,} lost"),
        ("tuples", f"{totals['arrived']:,}", f"{totals['late']:,} late, {now['buffered']:,} wait"),
    ]
    for stream in now["streams"]:
        state = "stalled" if stream["name"] == now["stalled"] else "idle" * stream["idle"]
        behind = "-" if stream["behind"] is None else rounded(1000 * stream["behind"])
        rate = "" if stream["rate"] is None else f"{stream['rate']:,.0f} tuples/s "
        found.append((f"stream {stream['name']}", f"{behind} behind", rate + state))
    found += _of_sources(now["sources"])
    state = "ended" if now["has_ended"] else now["phase"] or ""
    return [*found, ("batch", f"{now['batch']}", state)]


def _of_sources(sources: dict[str, Any] | None) -> list[tuple[str, str, str]]:
    """How many sources there are, and the one that is furthest behind or holds the join up."""
    if sources is None:
        return []
    spread, within = "", sources["within"]
    if within is not None:
        half, most = (rounded(1000 * within[name]) for name in ("p50", "p99"))
        spread = f"half at most {half} behind, 99 % at most {most}"
    found = [("sources", f"{sources['n']:,}", spread)]
    name, behind, why = sources["held_by"], sources["held_for"], "the join waits for it"
    if name is None and sources["furthest"]:
        first = sources["furthest"][0]
        of = "" if first["stream"] is None else f", of stream {first['stream']}"
        name, behind, why = first["name"], first["behind"], f"furthest of all{of}"
    if name is not None:
        found.append((f"source {name}", f"{rounded(1000 * behind)} behind", why))
    return found


def _in_terminal(looks: Iterator[list[tuple[str, str, str]]]) -> None:
    console = Console()
    if not console.is_terminal:
        # Into a file goes a line whenever something has changed, not a picture that moves.
        before = ""
        for look in looks:
            text = "  ".join(f"{name} {now}" for name, now, _ in look)
            if text != before:
                console.print(text, highlight=False, soft_wrap=True)
            before = text
        return
    with Live(console=console, refresh_per_second=8) as picture:
        for look in looks:
            table = Table.grid(padding=(0, 2))
            for name, now, before in look:
                table.add_row(f"[bold]{name}[/bold]", now, before)
            picture.update(table)


def _in_notebook(looks: Iterator[list[tuple[str, str, str]]]) -> None:
    show = _notebook()
    assert show is not None
    handle: Any = None
    for look in looks:
        content = {"text/html": html_table("recalljoin", look), "text/plain": _as_text(look)}
        if handle is None:
            handle = show(content, raw=True, display_id=True)
        else:
            handle.update(content, raw=True)


def _as_text(look: list[tuple[str, str, str]]) -> str:
    wide, wider = (max(len(row[at]) for row in look) for at in (0, 1))
    return "\n".join(f"{a:{wide}}  {b:{wider}}  {c}".rstrip() for a, b, c in look)


def _notebook() -> Callable[..., Any] | None:
    """The function that shows things in a notebook; None elsewhere."""
    shell = sys.modules.get("IPython")
    kernel = None if shell is None else shell.get_ipython()
    if kernel is None or not hasattr(kernel, "kernel"):
        return None
    # Not a dependency: it is there where a notebook is.
    found: Callable[..., Any] = importlib.import_module("IPython.display").display
    return found


def _bars_of(values: Sequence[float | None], low: float, high: float | None) -> str:
    newest = [value for value in values[-_MOST_BARS:] if value is not None]
    return bars(newest, low, max(newest, default=1.0) if high is None else high)


def bars(values: Sequence[float], low: float, high: float) -> str:
    """Values as a row of bars.

    Examples
    --------
    >>> bars([0, 1, 2, 8], 0, 8)
    '▁▂▃█'
    """
    span = (high - low) or 1
    places = (round((value - low) / span * (len(_BARS) - 1)) for value in values)
    return "".join(_BARS[min(max(place, 0), len(_BARS) - 1)] for place in places)
