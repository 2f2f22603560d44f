"""The best fixed K in hindsight: found with real runs, coarse to fine, and kept in files."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.choosing_k_data import CASES, recording
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.quality.adaptive import run_replay
from recalljoin.quality.cell import Cell, Measures
from recalljoin.quality.policies import make_policy
from recalljoin.quality.replay import Replay, TickReplay, TupleReplay
from recalljoin.quality.settings import PolicySettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from recalljoin.quality.record import RunRecord

MUST_REACH = {0.9: 0.95, 0.95: 0.95, 0.99: 0.95, 0.999: 0.9}
"""Share of the measurements that must reach each recall."""
BEGIN = 3
"""Measurements count after so many periods."""
STEP = 1.02
"""Ratio of two neighbouring slacks that are tried."""

Counts = list[int]
"""Measurements that count, then how many of them reach each recall of `MUST_REACH`."""


def counting(record: RunRecord, start: int) -> NDArray[np.bool_]:
    """The adaptation points after the first periods."""
    return record.clock >= start + BEGIN * record.period


def count_fixed(name: str, seed: int, k: int) -> Counts:
    """Measurements under one K."""
    case, made = CASES[name], recording(name, seed)
    settings = PolicySettings.of(made.query)
    # Lost results are not counted one by one, since all true ones are known.
    pipeline = Pipeline(made.query, EngineSettings(arrival=case.arrival, rows=False, lost=False))
    cell = Cell(pipeline, Measures.of(settings))
    source: Replay
    if case.tick is None:
        source = TupleReplay(cell, made.arrivals, None)
    else:
        source = TickReplay([cell], made.arrivals, None, case.tick)
    policy = make_policy("fixed", settings, k=k)
    record = run_replay(source, policy, settings, truth=made.truth)
    measured = record.recall[counting(record, int(made.arrivals.ts[0])) & record.counts]
    return [len(measured), *(int((measured >= recall).sum()) for recall in MUST_REACH)]


def describe(name: str, seed: int) -> tuple[float, int]:
    """99th percentile of the delays, and the largest of them."""
    delays = recording(name, seed).delays
    return float(np.percentile(delays, 99)), int(delays.max())


@dataclass
class Kept:
    """What is known of fixed slacks on one case; lives in a file between runs."""

    name: str
    folder: Path
    counts: dict[str, Counts] = field(default_factory=dict)
    """By ``"seed/K"``."""
    delays: dict[str, tuple[float, int]] = field(default_factory=dict)
    """By seed, as `describe` gives them."""

    def __post_init__(self) -> None:
        """Read what was found before."""
        self.file = self.folder / f"{self.name.replace(' ', '-')}-{CASES[self.name].digest()}.json"
        self._read()

    def _read(self) -> None:
        if self.file.exists():
            found = json.loads(self.file.read_text())
            self.counts, self.delays = found["counts"] | self.counts, found["delays"] | self.delays

    def write(self) -> None:
        """Keep it for the next run, with what others have found meanwhile."""
        self._read()
        self.folder.mkdir(parents=True, exist_ok=True)
        unfinished = self.file.with_suffix(f".{os.getpid()}.part")
        unfinished.write_text(json.dumps({"counts": self.counts, "delays": self.delays}))
        unfinished.replace(self.file)


class Search:
    """Looks for the smallest K that is enough, for several recalls, over the same seeds.

    Parameters
    ----------
    kept
        What is known already.
    seeds
        Whose measurements are pooled.
    mapped
        ``map``, or that of a pool of processes.
    """

    def __init__(
        self, kept: Kept, seeds: Sequence[int], mapped: Callable[..., Iterable[Any]]
    ) -> None:
        self.kept, self.seeds, self.mapped = kept, list(seeds), mapped
        name = kept.name
        missing = [seed for seed in self.seeds if str(seed) not in kept.delays]
        found = list(mapped(describe, [name] * len(missing), missing))
        kept.delays |= {str(seed): delays for seed, delays in zip(missing, found, strict=True)}
        largest = max(kept.delays[str(seed)][1] for seed in self.seeds) + 1
        # Every whole millisecond at first, then in steps of two per cent.
        grid = STEP ** np.arange(np.ceil(np.log(largest) / np.log(STEP)) + 1)
        self.grid = np.unique(np.concatenate(([0, largest], np.round(grid)))).astype(int)
        self.grid = self.grid[self.grid <= largest]

    @property
    def p99_delay(self) -> float:
        """99th percentile of the delays, the mean of the seeds'."""
        return float(np.mean([self.kept.delays[str(seed)][0] for seed in self.seeds]))

    def best(self, recall: float) -> int:
        """The smallest K that reaches ``recall`` often enough."""
        # A few seeds tell roughly where it lies; all of them are then asked around there.
        low, high = -1, len(self.grid) - 1
        few = self.seeds[:2]
        if len(few) < len(self.seeds):
            guess = self._bisect(recall, few, low, high, within=2)
            reach = 2
            while low < guess - reach and self._enough(recall, self.seeds, guess - reach):
                high, guess, reach = guess - reach, guess - reach, 2 * reach
            low = max(low, guess - reach)
            while guess + reach < high and not self._enough(recall, self.seeds, guess + reach):
                low, guess, reach = guess + reach, guess + reach, 2 * reach
            high = min(high, guess + reach)
        return int(self.grid[self._bisect(recall, self.seeds, low, high, within=1)])

    def _bisect(self, recall: float, seeds: list[int], low: int, high: int, *, within: int) -> int:
        """Where the grid becomes enough; it is not at ``low`` and is at ``high``."""
        while high - low > within:
            middle = (low + high) // 2
            if self._enough(recall, seeds, middle):
                high = middle
            else:
                low = middle
        return high

    def _enough(self, recall: float, seeds: list[int], place: int) -> bool:
        k = int(self.grid[place])
        missing = [seed for seed in seeds if f"{seed}/{k}" not in self.kept.counts]
        n = len(missing)
        found = list(self.mapped(count_fixed, [self.kept.name] * n, missing, [k] * n))
        self.kept.counts |= {f"{s}/{k}": counts for s, counts in zip(missing, found, strict=True)}
        if missing:
            self.kept.write()
        counts = np.sum([self.kept.counts[f"{seed}/{k}"] for seed in seeds], axis=0)
        reached = int(counts[1 + list(MUST_REACH).index(recall)])
        return reached >= MUST_REACH[recall] * int(counts[0])
