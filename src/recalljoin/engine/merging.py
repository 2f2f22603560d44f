"""Results that tuples of several streams complete, brought into one order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recalljoin.engine.probe import Partials, empty_partials, merged

if TYPE_CHECKING:
    from collections.abc import Iterator


def in_order_of_roots(sources: list[Iterator[Partials]]) -> Iterator[Partials]:
    """Merge chunks of several sources, each ordered by root, into chunks ordered by root."""
    # For each source its present chunk, and how much of the chunk has gone out.
    heads: dict[int, tuple[Partials, int]] = {}
    for at, source in enumerate(sources):
        first = next(source, None)
        if first is not None:
            heads[at] = first, 0
    while heads:
        # Up to the earliest end of a chunk, no source can still bring a smaller root.
        bound = min(int(chunk.root[-1]) for chunk, _ in heads.values())
        ready: Partials | None = None
        for at, (chunk, begin) in list(heads.items()):
            end = int(np.searchsorted(chunk.root, bound, side="right"))
            if ready is None and begin == 0 and end == len(chunk.root):
                ready = chunk
            elif end > begin:
                ready = merged(chunk, begin, end, ready or empty_partials(len(chunk.members), 0))
            following = (chunk, end) if end < len(chunk.root) else None
            if following is None:
                fresh = next(sources[at], None)
                following = None if fresh is None else (fresh, 0)
            if following is None:
                del heads[at]
            else:
                heads[at] = following
        assert ready is not None
        yield ready
