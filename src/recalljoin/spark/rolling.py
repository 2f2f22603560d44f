"""Keeps a control log bounded: old reports are put together, then rolled up by minute and hour.

    reports/   a file a cell      history/   64 batches a file      rolled/   stretches, one file
    the newest 72 to 200     ->   4 to 8 files, 16 MB at most  ->   240 minutes, 8 MB at most
    batches                       (and those just rolled up)        168 hours, 366 days, all before

The planner of batches does this from the reports it has seen, once in 64 batches. It writes the new
place first and removes the old one a round later, a few reports a batch. When it is killed in
between, reports are in two places and are read once; the next round removes them.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from recalljoin.spark.figures import settled_figures
from recalljoin.spark.row_files import put_rows_together
from recalljoin.spark.stretch import NOTHING_ROLLED, Level, Rolled, Stretch, put_together

if TYPE_CHECKING:
    from collections.abc import Callable

    from recalljoin.spark.control_log import ControlLog
    from recalljoin.spark.figures import Figures
    from recalljoin.spark.report import Report

BATCHES_A_FILE = 64
"""So many batches are put into one file of the history."""
NEWEST = 8
"""The newest batches are left out: they may be run again, and would report again."""
LEAST_FILES, MOST_FILES = 4, 8
"""When there are more files than the most, all but the newest few are rolled up."""
REMOVED_AT_ONCE = 3
"""Batches whose loose reports are removed in one round; all of a file at once would take long."""
HISTORY_BYTES = 16_000_000
"""Most bytes of these files; more are rolled up, all but the newest file."""
MINUTES, MINUTE_BYTES = 240, 8_000_000
"""Most stretches of a minute, and how many bytes they may take."""
HOURS, DAYS = 168, 366
"""Most stretches of an hour and of a day; what is older is one stretch."""


class Rolling:
    """Puts away the reports that the planner of batches has seen.

    Parameters
    ----------
    log
        The control log.
    """

    def __init__(self, log: ControlLog) -> None:
        self._log = log
        self._rolled = NOTHING_ROLLED
        # Reports after the stretches, in order, with the figures as of their batch.
        self._seen: list[tuple[Report, Figures]] = []
        # Last batch and size of the files of the history that are not rolled up.
        self._files: list[tuple[int, int]] = []
        self._filed_until = -1
        # Batches whose loose reports are to be removed.
        self._done: list[int] = []

    def begin(self) -> Rolled:
        """Read what is rolled up already; every report after that must be added."""
        self._rolled = self._log.rolled()
        self._files = [
            (last, size) for last, size in self._log.files() if last > self._rolled.until
        ]
        self._filed_until = max((last for last, _ in self._files), default=self._rolled.until)
        return self._rolled

    def add(self, report: Report, figures: Figures) -> None:
        """Take in a batch, with the recall as it was measured then."""
        self._seen.append((report.shortened, figures))

    def put_away(self, learned: Callable[[], dict[str, Any] | None]) -> None:
        """Put reports together, and roll old ones up, if there are enough.

        Parameters
        ----------
        learned
            Asked for what the policy has learnt from all reports added.
        """
        for batch in self._done[:REMOVED_AT_ONCE]:
            self._log.forget_report(batch)
        del self._done[:REMOVED_AT_ONCE]
        # Newest first.
        loose = list(
            takewhile(lambda each: each[0].batch > self._filed_until, reversed(self._seen))
        )
        if len(loose) < BATCHES_A_FILE + NEWEST:
            return
        filed = [replace(report, figures=figures) for report, figures in reversed(loose[NEWEST:])]
        self._files.append((filed[-1].batch, self._log.put_together(filed)))
        self._done = [batch for batch in self._log.reported() if batch <= self._filed_until]
        # Rows of batches that were put together in the round before: they are surely listed by now.
        put_rows_together(self._log, self._filed_until)
        self._filed_until = filed[-1].batch
        n_kept = LEAST_FILES
        if sum(size for _, size in self._files) > HISTORY_BYTES:
            n_kept = 1
        elif len(self._files) <= MOST_FILES:
            return
        if len(self._files) > n_kept:
            self._roll_up(self._files[-n_kept - 1][0], learned())

    def _roll_up(self, until: int, learned: dict[str, Any] | None) -> None:
        before = self._rolled
        minutes = before.with_times
        reports = [each.report for each in minutes] + [report for report, _ in self._seen]
        settled = list(settled_figures(reports, before.since))
        minutes = [each.with_figures(known) for each, known in zip(minutes, settled, strict=False)]
        batches = [
            Stretch.of(report, figures | known)
            for (report, figures), known in zip(self._seen, settled[len(minutes) :], strict=True)
            if report.batch <= until
        ]
        minutes = list(put_together([*minutes, *batches]))
        coarse = [each for each in before.stretches if not each.has_times]
        n_bytes = sum(len(each.packed) for each in minutes)
        while len(minutes) > MINUTES or (n_bytes > MINUTE_BYTES and len(minutes) > 1):
            oldest = minutes.pop(0)
            n_bytes -= len(oldest.packed)
            coarse.append(oldest.as_level("hour"))
        rolled = Rolled(until=until, stretches=(*shortened(coarse), *minutes), learned=learned)
        self._log.write_rolled(rolled)
        self._log.forget_history(before.until)
        self._rolled = rolled
        self._seen = [each for each in self._seen if each[0].batch > until]
        self._files = [each for each in self._files if each[0] > until]


def shortened(stretches: list[Stretch]) -> list[Stretch]:
    """Stretches of hours and longer ones, put together until there are few enough."""
    found: list[Stretch] = []
    moved: list[Stretch] = []
    limits: list[tuple[Level, Level, int]] = [("hour", "day", HOURS), ("day", "older", DAYS)]
    for level, longer, most in limits:
        mine = [each for each in stretches if each.level == level] + moved
        together = list(put_together(mine))
        n_moved = max(0, len(together) - most)
        moved = [each.as_level(longer) for each in together[:n_moved]]
        found = together[n_moved:] + found
    oldest = [each for each in stretches if each.level == "older"] + moved
    return list(put_together(oldest)) + found
