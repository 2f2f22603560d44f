"""Takes the tuples whose time is not to be believed out of what a cell is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from recalljoin.engine.ahead import FAR_AHEAD
from recalljoin.engine.arrivals import times_of
from recalljoin.spark.packing import REASON, from_bytes, needed_schema, owned_in, table_of, to_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recalljoin.query import BoundQuery
    from recalljoin.spark.ahead import AheadRule
    from recalljoin.spark.delivery import Delivery


def refuse_far_ahead(
    rule: AheadRule | None,
    query: BoundQuery,
    delivery: Delivery,
    *,
    local_times: Sequence[int],
    confirmed: list[int],
    clock: int,
    owns: Sequence[bool],
) -> None:
    """Refuse the tuples of a batch whose time is absurdly far ahead of their stream.

    Parameters
    ----------
    rule
        Which tuples these are; None refuses none.
    query
        The bound query.
    delivery
        What the cell is given; the tuples are taken out and counted as refused.
    local_times
        How far the streams had come before.
    confirmed
        What the rule remembers of each stream; brought up to date.
    clock
        The driver's clock as it was known last, in milliseconds since 1970; 0 for not at all.
    owns
        For each stream whether its tuples count in this cell, where they do not say so themselves.
    """
    spans = {s: each for s, each in enumerate(delivery.spans) if each}
    if rule is None or not spans:
        return
    if delivery.control is not None:
        clock = delivery.control.clock
    for s, verdict in rule.judge(spans, local_times, confirmed, clock or None).items():
        confirmed[s] = verdict.confirmed
        if verdict.limit is not None:
            _take_out(query, delivery, s, verdict.limit, owns=owns[s])
            delivery.n_arrived[s] -= verdict.n_refused
            delivery.marks[s] = verdict.mark
            delivery.refused[s][FAR_AHEAD] = verdict.n_refused


def _take_out(query: BoundQuery, delivery: Delivery, s: int, limit: int, *, owns: bool) -> None:
    """Refuse the tuples of stream ``s`` from ``limit`` on."""
    bodies: list[bytes] = []
    schema = needed_schema(query, s)
    for body in delivery.bodies[s]:
        table = from_bytes(body)
        ts, _ = times_of(table.column(query.streams[s].time), query.unit, query.time_unit)
        ahead = ts >= limit
        if not ahead.any():
            bodies.append(body)
            continue
        if not ahead.all():
            bodies.append(to_bytes(table.filter(pa.array(~ahead)).combine_chunks()))
        # Of the copies of a tuple, the one that counts is written down.
        owned = owned_in(table)
        mine = ahead & (np.full(len(ts), owns) if owned is None else owned)
        if mine.any():
            rows = table.select(schema.names).filter(pa.array(mine))
            reasons = pa.array([FAR_AHEAD] * rows.num_rows)
            delivery.refused_rows[s].append(rows.append_column(REASON, reasons))
    of_streams = list(delivery.bodies)
    of_streams[s] = tuple(bodies)
    delivery.bodies = tuple(of_streams)
    tables = list(delivery.tables)
    tables[s] = table_of(query, s, bodies)
    delivery.tables = tuple(tables)
