"""Stretches of batches: what is kept of batches that are long over, by minute, hour and day.

Counts of a stretch are sums over its batches, so that sums over a whole run stay what they are. A
stretch of a minute keeps what its batches have shown by time, too: recall can still be measured
with losses that are found later, and a policy can learn from it. Longer stretches keep totals, and
the recall that was known when they were made.
"""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.errors import StateVersionError
from recalljoin.spark.report import Report, one_after_the_other

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from recalljoin.spark.figures import Figures

LAYOUT = 1
"""Layout of the stretches that are written, and the only layout that can be read."""
Level = Literal["minute", "hour", "day", "older"]
WIDTHS: dict[Level, int] = {"minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
"""Milliseconds of the driver's clock that a stretch covers at most."""
_LOWEST = ("recall_settled", "recall_settled_at_least", "recall_settled_at_most")
_ZIPPED = 31
"""Tells zlib that there is the head of a gzip file."""


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Consecutive batches put together."""

    level: Level
    first: int
    """Number of its first batch; the report has that of the last."""
    n_batches: int
    """Batches that were reported; a batch whose report was lost does not count."""
    began: int
    """The driver's clock when its first batch was planned, in milliseconds since 1970."""
    began_at: int
    """The watermark after its first batch."""
    k_lowest: int
    k_highest: int
    report: Report
    """Sums over all batches, and of all else what was after the last batch."""
    figures: Figures = field(default_factory=dict)
    """Recall and precision of nulls: as of the last batch, and the lowest that had settled."""

    @classmethod
    def of(cls, report: Report, figures: Figures) -> Stretch:
        """A stretch of one batch."""
        ks = [report.k, *(k for _, k in report.adaptations)]
        return cls(
            level="minute",
            first=report.batch,
            n_batches=1,
            began=report.clock,
            began_at=report.watermark,
            k_lowest=min(ks),
            k_highest=max(ks),
            report=report,
            figures=figures,
        )

    @property
    def last(self) -> int:
        """Number of its last batch."""
        return self.report.batch

    @property
    def has_times(self) -> bool:
        """Whether it tells by time what was produced and lost."""
        return self.level == "minute"

    def goes_on_with(self, other: Stretch) -> bool:
        """Whether a later stretch belongs to the same minute, hour or day."""
        if self.level == "older":
            return True
        width = WIDTHS[self.level]
        if self.began // width != other.began // width:
            return False
        if not self.has_times:
            return True
        # In a hurry a minute may hold days of event time, and each time has its own counts.
        one, two = self.report, other.report
        begin, end = self.began_at, two.watermark
        is_short = NEVER in (begin, end) or FOREVER in (begin, end) or end - begin <= one.period
        same = (one.period, one.profile.bucket, one.profile.granularity)
        return is_short and same == (two.period, two.profile.bucket, two.profile.granularity)

    def then(self, other: Stretch) -> Stretch:
        """With a later stretch of the same level."""
        figures = self.figures | other.figures
        for name in _LOWEST:
            known = [
                value
                for each in (self, other)
                if (value := each.figures.get(name)) is not None
            ]  # fmt: skip
            figures[name] = min(known, default=None)
        return replace(
            self,
            n_batches=self.n_batches + other.n_batches,
            k_lowest=min(self.k_lowest, other.k_lowest),
            k_highest=max(self.k_highest, other.k_highest),
            report=one_after_the_other(self.report, other.report),
            figures=figures,
        )

    def with_figures(self, figures: Figures) -> Stretch:
        """With figures that are known better now."""
        known = replace(self, figures=self.figures | figures)
        if "packed" in self.__dict__:
            known.__dict__["packed"] = self.packed
        return known

    def as_level(self, level: Level) -> Stretch:
        """As a stretch of a longer level, with totals only."""
        report = replace(
            self.report, profile=self.report.profile.totals(), adaptations=(), heavy=()
        )
        return replace(self, level=level, report=report)

    @cached_property
    def packed(self) -> bytes:
        """The report as one line of a gzip file, which may stand among others."""
        return gzip.compress(self.report.to_json().encode() + b"\n", 1, mtime=0)

    def head(self) -> dict[str, Any]:
        """All but the report, as JSON."""
        names = ("level", "first", "n_batches", "began", "began_at", "k_lowest", "k_highest")
        return {name: getattr(self, name) for name in (*names, "figures")}


def put_together(stretches: Iterable[Stretch]) -> Iterator[Stretch]:
    """Stretches of one level with those put together that belong together."""
    before: Stretch | None = None
    for each in stretches:
        if before is not None and before.goes_on_with(each):
            before = before.then(each)
            continue
        if before is not None:
            yield before
        before = each
    if before is not None:
        yield before


@dataclass(frozen=True, kw_only=True)
class Rolled:
    """All stretches of a control log, and what the policy had learnt when they were made."""

    until: int
    """The last batch that is in a stretch."""
    stretches: tuple[Stretch, ...]
    """In their order, the longer levels first."""
    learned: dict[str, Any] | None = None
    """State of the policy, with the number of the batch up to which it had learnt, and for which
    settings."""

    @property
    def with_times(self) -> list[Stretch]:
        """Those from which recall can be measured."""
        return [each for each in self.stretches if each.has_times]

    @property
    def since(self) -> int:
        """The watermark before the first stretch from which recall can be measured."""
        coarse = [each.report for each in self.stretches if not each.has_times]
        return coarse[-1].watermark if coarse else NEVER

    @property
    def n_bytes(self) -> int:
        """Size of the reports."""
        return sum(len(each.packed) for each in self.stretches)

    def to_bytes(self) -> bytes:
        """As a gzip file of lines: a head, and the report of each stretch."""
        head = {
            "layout": LAYOUT,
            "until": self.until,
            "learned": self.learned,
            "stretches": [each.head() for each in self.stretches],
            "sizes": [len(each.packed) for each in self.stretches],
        }
        first = gzip.compress(json.dumps(head).encode() + b"\n", 1, mtime=0)
        return first + b"".join(each.packed for each in self.stretches)

    @classmethod
    def from_bytes(cls, content: bytes) -> Rolled:
        """From :meth:`to_bytes`.

        Raises
        ------
        ValueError
            When something is missing.
        StateVersionError
            When another release has written it in another layout.
        """
        unzipped = zlib.decompressobj(_ZIPPED)
        try:
            head = json.loads(unzipped.decompress(content))
            if head["layout"] != LAYOUT:
                message = (
                    f"the control log is rolled up in layout {head['layout']}, this release reads "
                    f"layout {LAYOUT}; go on with the release that wrote it, or give the query a "
                    "new `control_log`, where K is learned anew"
                )
                raise StateVersionError(message)
            rest = unzipped.unused_data
            if len(rest) != sum(head["sizes"]):
                message = "cut short"
                raise ValueError(message)
            stretches = []
            for told, size in zip(head["stretches"], head["sizes"], strict=True):
                report = Report.from_json(gzip.decompress(rest[:size]).decode())
                stretches.append(Stretch(**told, report=report))
                stretches[-1].__dict__["packed"] = rest[:size]
                rest = rest[size:]
            return cls(until=head["until"], stretches=tuple(stretches), learned=head["learned"])
        except (OSError, EOFError, zlib.error, TypeError, KeyError, AttributeError) as error:
            message = str(error) or type(error).__name__
            raise ValueError(message) from error


NOTHING_ROLLED = Rolled(until=-1, stretches=())
"""Of a log in which every batch still has its own report."""
