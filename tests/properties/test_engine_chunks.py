"""A pipeline that is rebuilt from chunks goes on as if nothing had happened."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from recalljoin.engine.chunks import Chunk, is_over, last_in_window, needed_at, rebuild
from recalljoin.engine.step import drain
from tests.effort import FEW
from tests.properties.engine_runs import Account, EngineRun, Script, taken_as, through_engine
from tests.properties.engine_scripts import scripts


class Rebuilt(EngineRun):
    """Pushes tick by tick; what is kept between ticks is chunks and clocks."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self.to_come = [list(numbers) for numbers in self.numbers]
        self.chunks: list[tuple[Chunk, list[list[int]]]] = []
        """Each with the numbers of its tuples, stream by stream."""
        self.n_trimmed = 0

    def account_with(self, rebuilds: frozenset[int]) -> Account:
        """Run to the end, rebuilding after some ticks."""
        ticks = np.array([e.tick for e in self.script.case.arrivals], dtype=np.int64)
        begins = [begin for begin, _ in self.script.pieces]
        for n in range(self.script.length):
            for piece, begin in enumerate(begins):
                if begin == n:
                    self.remember(piece)
            first, last = (int(i) for i in np.searchsorted(ticks, (n, n + 1)))
            part = self.arrivals.slice(first, last)
            times = tuple(part.ts[part.stream == s] for s in range(self.script.case.m))
            before = self.pipeline.clocks
            self.take(*drain(self.push_ticks(n, n + 1)))
            taken = [numbers[: len(ts)] for numbers, ts in zip(self.to_come, times, strict=True)]
            self.to_come = [
                numbers[len(ts) :] for numbers, ts in zip(self.to_come, times, strict=True)
            ]
            self.chunks.append((Chunk(part.tables, times, before), taken))
            if n in rebuilds:
                self._rebuild()
        self.take(*drain(self.pipeline.flush()))
        return self.told

    def _rebuild(self) -> None:
        now, remembered = self.pipeline.clocks, self.pipeline.remembered
        bound, settings = self.script.bound, self.script.settings
        self.chunks = [
            self._trimmed(chunk, numbers, now.watermark)
            for chunk, numbers in self.chunks
            if not is_over(last_in_window(bound, chunk), remembered.retention, now.watermark)
        ]
        chunks = [chunk for chunk, _ in self.chunks]
        self.pipeline = rebuild(bound, settings, chunks, now, remembered)
        # Rows are numbered as they come in the chunks that are left, which need not be the last.
        for s, to_come in enumerate(self.to_come):
            kept = [number for _, numbers in self.chunks for number in numbers[s]]
            self.numbers[s] = kept + to_come

    def _trimmed(
        self, chunk: Chunk, numbers: list[list[int]], watermark: int
    ) -> tuple[Chunk, list[list[int]]]:
        """Every other chunk without the tuples nobody can need."""
        self.n_trimmed += 1
        if self.n_trimmed % 2:
            return chunk, numbers
        masks = needed_at(self.script.bound, self.pipeline.retention, chunk, watermark)
        tables = tuple(
            table.filter(pa.array(mask)) for table, mask in zip(chunk.tables, masks, strict=True)
        )
        times = tuple(ts[mask] for ts, mask in zip(chunk.times, masks, strict=True))
        left = [
            [number for number, is_needed in zip(of_stream, mask, strict=True) if is_needed]
            for of_stream, mask in zip(numbers, masks, strict=True)
        ]
        return Chunk(tables, times, chunk.before), left


@given(script=scripts("tick", remembers=True), data=st.data())
def test_rebuilding_from_chunks_after_any_ticks_changes_nothing(
    script: Script, data: st.DataObject
) -> None:
    rebuilds = data.draw(st.frozensets(st.integers(0, max(0, script.length - 1))))
    with taken_as(script):
        rebuilt = Rebuilt(script).account_with(rebuilds)
    whole = through_engine(script)
    assert rebuilt.events == whole.events
    assert (rebuilt.lost, rebuilt.slack) == (whole.lost, whole.slack)
    assert rebuilt.clocks[-1] == whole.clocks[-1]


@FEW
@given(script=scripts("tick"))
def test_a_pipeline_rebuilt_after_every_tick_keeps_no_more_than_one_that_went_on(
    script: Script,
) -> None:
    with taken_as(script):
        run = Rebuilt(script)
        run.account_with(frozenset(range(script.length)))
        went_on = EngineRun(script)
        went_on.account()
    assert run.pipeline.n_kept <= went_on.pipeline.n_kept
