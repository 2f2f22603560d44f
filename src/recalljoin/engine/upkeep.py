"""Upkeep of a pipeline: what nobody can ask for any more is forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recalljoin.engine.queues import held_ids, renumber
from recalljoin.engine.rings import NOW, TS
from recalljoin.engine.times import FOREVER, NEVER

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.pipeline import Pipeline


def clean_up(pipeline: Pipeline, next_forget: int) -> int:
    """Forget what nobody can ask for, at a cost in proportion to new tuples.

    Rows are forgotten once there are more than ``next_forget``; returns that number for the next
    call.
    """
    now = pipeline.join_time
    if pipeline.settings.arrival == "tick" and now != NEVER:
        # An instance may see no tuple for long while the streams go on elsewhere.
        pipeline.operator.windows.forget(min(now, FOREVER // 2))
    if len(pipeline.pending.ts) > 2 * pipeline.n_buffered + 4096:
        held, _ = held_ids(pipeline.disorder.queues)
        pipeline.pending = pipeline.pending.taken(held)
        renumber(pipeline.disorder.queues, held)
    n_rows = sum(payload.n_rows for payload in pipeline.payloads)
    in_use = pipeline.n_kept + pipeline.n_buffered
    if n_rows > next_forget:
        _forget_rows(pipeline)
        n_rows = sum(payload.n_rows for payload in pipeline.payloads)
        next_forget = n_rows + n_rows // 2 + 4096
    for c, keys in enumerate(pipeline.intake.keys):
        if keys.needs_sweep(in_use + len(pipeline.pending.ts)):
            keys.sweep(_codes_in_use(pipeline, c))
    return next_forget


def _codes_in_use(pipeline: Pipeline, c: int) -> Int64s:
    """Codes of one class that tuples in buffers and windows still have.

    A tuple that can be in no result may have a null key, whose code means nothing.
    """
    windows, pending = pipeline.operator.windows, pipeline.pending
    members = list(pipeline.query.classes[c].members)
    waiting = np.isin(pending.stream, members) & pending.joinable
    codes = [pending.codes[c, waiting]]
    for s in members:
        places = windows.places_of(s)
        joinable = windows.joinable_at(np.full(len(places), s, dtype=np.int8), places)
        codes.append(windows.codes_at(places[joinable])[c])
    return np.concatenate(codes)


def _forget_rows(pipeline: Pipeline) -> None:
    """Drop payload older than the oldest tuple that waits or is in a window."""
    windows, operator = pipeline.operator.windows, pipeline.operator
    waiting = pipeline.pending.taken(held_ids(pipeline.disorder.queues)[0])
    # Only conditions read rows that have left their windows, to count lost results; and a tuple
    # that has left without a partner is shown again when a partner comes.
    keep_retained = bool(operator.conditions) and pipeline.settings.lost
    keep_retained |= operator.verdicts is not None
    for s, payload in enumerate(pipeline.payloads):
        places = windows.places_of(s)
        if not keep_retained and len(places):
            records = windows.rings.records
            now = pipeline.join_time if operator.eager else records[places[-1], NOW]
            if now != NEVER:
                places = places[records[places, TS] >= now - pipeline.query.streams[s].window]
        rows = [waiting.row[waiting.stream == s], windows.rows_at(places)]
        oldest = min((int(part.min()) for part in rows if len(part)), default=payload.end)
        payload.forget_before(oldest)
