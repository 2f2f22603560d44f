"""Tuples that wait for a stream that is behind: how many may wait, and what becomes of them.

A stream that stands still holds the watermark, and all others fill the buffers. The control source
follows in the reports how much waits. When that is more than the limit, it says in the offset up to
which time all tuples are released, so that every cell, and every replay, does the same.

    watermark                       release                    latest time of any stream
        |---------- waiting -----------|-------- half the limit --------|

Tuples of the stream behind that come later than the release are late, and results lost with them
are counted as lost.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.errors import BufferFull
from recalljoin.query.sizes import n_bytes
from recalljoin.query.spelling import listed

if TYPE_CHECKING:
    from recalljoin.spark.report import Report

_LOG = logging.getLogger(__name__)

WhenFull = Literal["release", "stop"]

MAX_BUFFERED: Final = 20_000_000
"""How many tuples may wait, over all cells."""
BUFFER_MEMORY: Final = n_bytes("4 GB", name="buffer_memory")
"""How many bytes the tuples that wait may take, over all cells."""
_KEPT: Final = 0.5
"""Part of the limit that is left waiting, so that the next batches find room."""
_CALM: Final = 0.25
"""When less than this part of the limit waits, it is news if the limit is reached again."""
SILENT_BATCHES: Final = 3
"""A stream has stopped only if this many batches in a row had no tuple of it: if batches take long,
a stream may have none in a single batch."""


@dataclass(frozen=True, kw_only=True)
class WaitLimits:
    """How much may wait for a stream that is behind.

    Parameters
    ----------
    max_buffered
        How many tuples may wait; None for any number.
    buffer_memory
        How many bytes these tuples may take; None for any number.
    when_full
        ``"release"``: the oldest tuples are released early. ``"stop"``: the query stops.
    max_wait
        Milliseconds without a tuple after which a stream no longer holds others back; None for
        never.
    """

    max_buffered: int | None = MAX_BUFFERED
    buffer_memory: int | None = BUFFER_MEMORY
    when_full: WhenFull = "release"
    max_wait: int | None = None


GENEROUS: Final = WaitLimits()
"""The limits of a join that is told nothing else."""


class Waiting:
    """Follows how much waits, and for which stream.

    Parameters
    ----------
    limits
        How much may wait.
    """

    def __init__(self, limits: WaitLimits) -> None:
        self._limits = limits
        self._last: Report | None = None
        self._earliest = FOREVER
        self._seen_at: list[int] = []
        self._n_silent: list[int] = []
        self._n_full = 0
        self._said_full = False
        self._said_silent: set[str] = set()

    def observe(self, report: Report) -> None:
        """Take in a batch."""
        if not self._seen_at:
            self._seen_at = [report.clock] * len(report.streams)
            self._n_silent = [0] * len(report.streams)
        for s, n in enumerate(report.n_arrived):
            if n:
                self._seen_at[s], self._n_silent[s] = report.clock, 0
                self._say_back(report.streams[s])
            else:
                self._n_silent[s] += 1
        self._earliest = min(self._earliest, report.earliest)
        held = self._fill(report)
        self._n_full = self._n_full + 1 if held > 1 else 0
        # While a stream stands still, the buffers fill up again and again, which is said once.
        self._said_full &= held > _CALM
        self._last = report

    def release(self, now: int, *, bounded: bool) -> int | None:
        """Time up to which the next batch releases all tuples; None to release as usual.

        Parameters
        ----------
        now
            The driver's clock, in milliseconds since 1970.
        bounded
            Whether the run comes to an end; then a stream without tuples is at its end, and what
            waits for it stays in the state.

        Raises
        ------
        BufferFull
            When more waits than may wait, and the query is to stop then.
        """
        last = self._last
        if last is None or last.watermark == FOREVER or not last.n_buffered:
            return None
        times = []
        if self._n_full:
            self._say_full(last)
            # Tuples may not be spread evenly: then more is released from batch to batch.
            share = math.ldexp(_KEPT / self._fill(last), 1 - self._n_full)
            times.append(self._below_limit(last, share))
        if not bounded:
            times += self._without_silent(last, now)
        until = max(times, default=NEVER)
        return until if until > last.watermark else None

    def _fill(self, report: Report) -> float:
        """What waits, as a multiple of what may wait."""
        pairs = (
            (report.n_buffered, self._limits.max_buffered),
            (report.buffered_bytes, self._limits.buffer_memory),
        )
        return max((held / max(1, limit) for held, limit in pairs if limit is not None), default=0)

    def _below_limit(self, last: Report, share: float) -> int:
        """Time up to which to release, if tuples are spread evenly over the time they wait."""
        latest = max(last.local_times)
        begin = max(last.watermark, self._earliest - 1)
        return latest - int(max(0, latest - begin) * share)

    def _without_silent(self, last: Report, now: int) -> list[int]:
        """How far the watermark comes without streams that have had no tuple for too long."""
        wait = self._limits.max_wait
        if wait is None:
            return []
        silent = {
            s
            for s, (at, n) in enumerate(zip(self._seen_at, self._n_silent, strict=True))
            if now - at >= wait and n >= SILENT_BATCHES
        }
        others = [time for s, time in enumerate(last.local_times) if s not in silent]
        if not silent or not others or min(others) == NEVER:
            return []
        until = min(others) - last.k
        behind = [last.streams[s] for s in silent if last.local_times[s] < until]
        fresh = sorted(set(behind) - self._said_silent)
        if fresh:
            self._said_silent.update(fresh)
            _LOG.warning(
                "stream %s has had no tuple for longer than `max_wait`: other streams no longer "
                "wait for it. Its tuples are late if they come behind the watermark",
                listed(fresh),
            )
        return [until] if behind else []

    def _say_back(self, stream: str) -> None:
        if stream in self._said_silent:
            self._said_silent.remove(stream)
            _LOG.warning("stream `%s` has tuples again: other streams wait for it again", stream)

    def _say_full(self, last: Report) -> None:
        slowest = min(range(len(last.streams)), key=lambda s: last.local_times[s])
        held = f"{last.n_buffered} tuples ({last.buffered_bytes / 1e6:.0f} MB) wait"
        behind = f"stream `{last.streams[slowest]}` is the furthest behind"
        if self._limits.when_full == "stop":
            message = (
                f"{held}, more than `max_buffered` or `buffer_memory` allow, and when_full='stop' "
                f"asks to stop then; {behind}. Start the query again from its checkpoint with a "
                "larger limit, with `idle_after`, or with when_full='release'"
            )
            raise BufferFull(message)
        if self._said_full:
            return
        self._said_full = True
        _LOG.warning(
            "%s, more than `max_buffered` or `buffer_memory` allow: the oldest are released early; "
            "%s, and results with tuples of it that come now may be lost. They are counted as "
            "lost, and `released_early` in the progress counts the tuples",
            held,
            behind,
        )
