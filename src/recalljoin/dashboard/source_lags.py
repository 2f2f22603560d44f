"""Sources of a join: how far the slowest one is behind, and which ones have held the join up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from recalljoin.engine.source_clocks import MOST
from recalljoin.spark.source_figures import held_for, lags_within, source_lag, source_lags

if TYPE_CHECKING:
    from recalljoin.spark.clocks import Clock
    from recalljoin.spark.report import Report

_MOST: Final = 20
"""Sources that are listed at most, those that held the join longest."""


class SourceLags:
    """What the batches so far say about sources; nothing where streams have none."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[int, float, int]] = {}
        self._now: dict[str, Any] | None = None

    def observe(self, report: Report, clock: Clock) -> dict[str, float | None]:
        """Take in a batch; returns how far its sources are behind, and the lead, in seconds."""
        if report.n_sources is None:
            return {}
        behind, held = (
            None if length is None else clock.ms(length) / 1000
            for length in (source_lag(report), held_for(report))
        )
        lead = None if report.lead is None else clock.ms(report.lead) / 1000
        within = {name: clock.ms(length) / 1000 for name, length in lags_within(report).items()}
        name = report.held_by
        if held is not None and name is not None:
            n, longest, _ = self._held.get(name, (0, 0.0, 0))
            self._held[name] = n + 1, max(longest, held), report.batch
        self._now = {
            "n": report.n_sources,
            "others": report.n_sources >= MOST,
            "slowest": name,
            "behind": behind,
            "lead": lead,
            "held_by": None if held is None else name,
            "held_for": held,
            "within": within or None,
            "furthest": [
                {
                    "name": each.name,
                    "stream": each.stream,
                    "behind": clock.ms(each.behind) / 1000,
                    "lag": None if each.lag_ms is None else each.lag_ms / 1000,
                }
                for each in source_lags(report)
            ],
        }
        told = {f"source_{name}": length for name, length in within.items()}
        return {"source_behind": behind, "lead": lead, **told}

    def now(self) -> dict[str, Any] | None:
        """How sources are now, and which have held the join; None where streams have none."""
        if self._now is None:
            return None
        longest = sorted(self._held.items(), key=lambda each: -each[1][1])[:_MOST]
        held = [
            {"name": name, "batches": n, "longest": most, "last": last}
            for name, (n, most, last) in longest
        ]
        return self._now | {"held": held}
