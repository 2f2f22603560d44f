"""What is told of sources after a batch: the furthest behind by name, and how far all of them are.

A join may have five sources or ten thousand, and a report is written in every batch. So as many
sources are named as fit into a few thousand bytes, and a few clocks stand for all: half of the
sources have come as far as the first of these clocks, 90 % as far as the second, and so on.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from recalljoin.engine.arrays import Int64s

MOST_TOLD = 400
"""Sources that are told by name at most."""
MOST_BYTES = 20_000
"""Bytes that names and clocks may take in a report, before they are packed, mostly to a third."""
LONGEST_NAME = 80
"""Characters of a name that are told; what is longer ends with three dots."""
PERCENT = (50, 90, 99)
"""For each of these shares of all sources it is told how far they have come at least."""


class SourceName(NamedTuple):
    """How people know a source."""

    name: str | None
    """Content of the column with the source, as text; None where it is null."""
    stream: int | None
    """Number of the source's stream; None where an earlier release did not note it."""

    @property
    def shown(self) -> str | None:
        """The name, cut short if it is very long."""
        if self.name is None or len(self.name) <= LONGEST_NAME:
            return self.name
        return self.name[: LONGEST_NAME - 1] + "…"


class ToldSource(NamedTuple):
    """A source in a report."""

    name: str | None
    clock: int
    stream: int | None


def told_by_name(
    numbers: Iterable[int], clocks: Iterable[int], names: Mapping[int, SourceName]
) -> tuple[ToldSource, ...]:
    """The first sources of some, as many as a report has room for."""
    found: list[ToldSource] = []
    n_bytes = 0
    for number, clock in zip(numbers, clocks, strict=True):
        who = names.get(number)
        if who is None:
            continue
        told = ToldSource(who.shown, clock, who.stream)
        n_bytes += len(json.dumps(told)) + len(", ")
        if len(found) == MOST_TOLD or n_bytes > MOST_BYTES:
            break
        found.append(told)
    return tuple(found)


def reached_by(clocks: Int64s) -> tuple[int, ...]:
    """For each share of :data:`PERCENT`, the clock that so many sources have reached at least.

    Parameters
    ----------
    clocks
        Clocks of all sources, in ascending order.
    """
    n = len(clocks)
    return tuple(int(clocks[n - -(-n * percent // 100)]) for percent in PERCENT) if n else ()


def packed(content: Any) -> str:
    """Values that JSON can hold as a short text."""
    return base64.b64encode(zlib.compress(json.dumps(content).encode(), level=1)).decode()


def unpacked(text: str) -> Any:
    """From :func:`packed`."""
    return json.loads(zlib.decompress(base64.b64decode(text)))
