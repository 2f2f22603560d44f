"""Snapshot and restore of a pipeline, as Arrow.

A snapshot is an Arrow table of named parts, each an Arrow table itself, with the layout's version
in its metadata. Indexes are not written: they follow from the tuples, which are put back in the
order they came. A restored pipeline goes on exactly as the written pipeline would have.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from recalljoin.engine.pending import Pending
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.progress import Remembered
from recalljoin.engine.queues import empty_queues, held_ids, push_all, with_room
from recalljoin.engine.rings import BASE, NOW, ORDER, TS, Sequence
from recalljoin.errors import InvalidSetting, StateVersionError, undamaged

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.settings import EngineSettings
    from recalljoin.query.bound_query import BoundQuery

VERSION = 3
"""Layout of the snapshots that are written; snapshots of another layout are refused."""
_VERSION_KEY = b"recalljoin.state.version"
_CHECKSUM_KEY = b"recalljoin.state.checksum"


def snapshot(pipeline: Pipeline) -> pa.Buffer:
    """The whole state of a pipeline between two arrivals.

    Raises
    ------
    InvalidSetting
        When results leave at once or tuples without a partner matter: what is noted on tuples then
        follows from the ticks (:mod:`recalljoin.engine.chunks`).
    """
    if len(pipeline.operator.windows.notes):
        message = "an eager, outer, semi or anti join has no snapshot; keep the chunks of its ticks"
        raise InvalidSetting(message)
    parts = {
        "identity": pa.table({"identity": [_identity(pipeline.query, pipeline.settings)]}),
        "clocks": _clocks(pipeline),
        "waiting": _waiting(pipeline),
        "kept": _kept(pipeline),
    }
    for c, keys in enumerate(pipeline.intake.keys):
        if keys.interned is not None:
            parts[f"keys {c}"] = keys.interned.to_table()
    for s, payload in enumerate(pipeline.payloads):
        first = pa.table({"first": [payload.first], "end": [payload.end]})
        parts[f"rows {s}"] = payload.to_table()
        parts[f"numbers {s}"] = first
    content = [_to_ipc(table).to_pybytes() for table in parts.values()]
    schema = pa.schema(
        [("part", pa.string()), ("content", pa.large_binary())],
        metadata={_VERSION_KEY: str(VERSION).encode(), _CHECKSUM_KEY: _checksum(content)},
    )
    return _to_ipc(pa.table({"part": list(parts), "content": content}, schema=schema))


def restore(
    query: BoundQuery, content: pa.Buffer | bytes, settings: EngineSettings | None = None
) -> Pipeline:
    """A pipeline that goes on where the written pipeline left off.

    Tuples are kept as long as the written pipeline kept them last, whatever the settings'
    ``retention``.

    Raises
    ------
    StateVersionError
        When the bytes are no snapshot, or have a layout that this version cannot read.
    InvalidSetting
        When the snapshot belongs to another query or was written with other settings.
    """
    with undamaged("the snapshot of a join"):
        return _restored(query, _parts_of(content), settings)


def _restored(
    query: BoundQuery, parts: dict[str, pa.Table], settings: EngineSettings | None
) -> Pipeline:
    pipeline = Pipeline(query, settings)
    written = parts["identity"]["identity"][0].as_py()
    if written != _identity(query, pipeline.settings):
        message = (
            "the snapshot belongs to another query or other settings; it was written for\n"
            f"  {written}\nand cannot be read for\n  {_identity(query, pipeline.settings)}"
        )
        raise InvalidSetting(message)
    _restore_clocks(pipeline, parts["clocks"])
    new_codes = _restore_keys(pipeline, parts)
    _restore_waiting(pipeline, parts["waiting"], new_codes)
    _restore_kept(pipeline, parts["kept"], new_codes)
    for s, payload in enumerate(pipeline.payloads):
        if payload.schema.names:
            payload.restore(parts[f"numbers {s}"]["first"][0].as_py(), parts[f"rows {s}"])
    return pipeline


def _identity(query: BoundQuery, settings: EngineSettings) -> str:
    """What must be the same for a state to mean the same."""
    # The retention may change while a pipeline runs, so the state itself holds it.
    settings = replace(settings, retention=None)
    streams = ", ".join(
        f"{s.name}[{s.window} {query.unit}] {query.time_text(s)}" for s in query.streams
    )
    classes = [sorted((s, repr(e)) for s, e in c.members.items()) for c in query.classes]
    residual = [repr(conjunct.expression) for conjunct in query.residual]
    schemas = [str(s.columns.remove_metadata()) for s in query.streams]
    outputs = query.select if query.select is None else [o.name for o in query.select]
    return (
        f"{streams}; {classes}; {residual}; {outputs}; {settings}; {query.counts_only}; {schemas}"
    )


def _checksum(parts: list[bytes]) -> bytes:
    total = 0
    for part in parts:
        total = zlib.crc32(part, total)
    return str(total).encode()


def _to_ipc(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _from_ipc(content: pa.Buffer | bytes) -> pa.Table:
    table = pa.ipc.open_stream(content).read_all()
    # Arrow believes what damaged bytes say about lengths, and would read beyond its memory.
    table.validate(full=True)
    return table


def _parts_of(content: pa.Buffer | bytes) -> dict[str, pa.Table]:
    outer = _from_ipc(content)
    version = (outer.schema.metadata or {}).get(_VERSION_KEY, b"none").decode()
    if version != str(VERSION):
        message = (
            f"the snapshot has layout version {version}, this release reads version {VERSION}; "
            "restore it with the release that wrote it, or start anew"
        )
        raise StateVersionError(message)
    # Numbers of places go to compiled code, which does not check them.
    written = outer.schema.metadata.get(_CHECKSUM_KEY)
    if written is not None and written != _checksum(outer["content"].to_pylist()):
        message = "the snapshot of a join is damaged: its checksum is another; start anew"
        raise StateVersionError(message)
    return {
        name: _from_ipc(part.as_buffer())
        for name, part in zip(outer["part"].to_pylist(), outer["content"], strict=True)
    }


def _clocks(pipeline: Pipeline) -> pa.Table:
    remembered = pipeline.remembered
    return pa.table(
        {
            "local_tuple": pipeline.tuples.local_times,
            "local_tick": pipeline.progress.local_times,
            "n_arrived": pipeline.n_arrived,
            "sync_time": np.full(pipeline.m, pipeline.tuples.clocks[0]),
            "join_time": np.full(pipeline.m, pipeline.tuples.clocks[1]),
            "base_time": np.full(pipeline.m, pipeline.progress.base_time),
            "front": np.full(pipeline.m, pipeline.progress.front),
            "watermark": np.full(pipeline.m, pipeline.progress.watermark),
            "n_received": np.full(pipeline.m, pipeline.operator.n_received),
            "exact": np.full(pipeline.m, pipeline.operator.exact),
            "retention": np.full(pipeline.m, remembered.retention),
            "since": np.full(pipeline.m, remembered.since),
        }
    )


def _restore_clocks(pipeline: Pipeline, table: pa.Table) -> None:
    columns = {name: table[name].to_numpy().copy() for name in table.column_names}
    pipeline.tuples.local_times = columns["local_tuple"]
    pipeline.tuples.clocks[:] = columns["sync_time"][0], columns["join_time"][0]
    pipeline.progress.local_times = columns["local_tick"]
    pipeline.progress.base_time = int(columns["base_time"][0])
    pipeline.progress.front = int(columns["front"][0])
    pipeline.progress.watermark = int(columns["watermark"][0])
    pipeline.n_arrived = columns["n_arrived"]
    pipeline.operator.n_received = int(columns["n_received"][0])
    pipeline.operator.exact = bool(columns["exact"][0])
    pipeline.operator.windows.remembered = Remembered(
        int(columns["retention"][0]), int(columns["since"][0])
    )


def _waiting(pipeline: Pipeline) -> pa.Table:
    ids, queue = held_ids(pipeline.disorder.queues)
    waiting = pipeline.pending.taken(ids)
    columns = {
        name: getattr(waiting, name)
        for name in ("stream", "ts", "row", "delay", "base", "joinable")
    }
    columns["queue"] = queue
    return pa.table(columns | _numbered(waiting.codes, waiting.values))


def _restore_waiting(pipeline: Pipeline, table: pa.Table, new_codes: dict[int, Int64s]) -> None:
    columns = {name: table[name].to_numpy() for name in table.column_names}
    codes, values = _from_numbered(columns, pipeline, new_codes)
    pipeline.pending = Pending(
        columns["stream"], columns["ts"], columns["row"], columns["delay"], columns["base"],
        columns["joinable"], np.zeros(table.num_rows, dtype=np.int64), codes, values,
    )  # fmt: skip
    queues = with_room(empty_queues(len(pipeline.disorder.queues.state)), table.num_rows)
    push_all(queues, columns["queue"], columns["ts"])
    pipeline.disorder.queues = queues


def _kept(pipeline: Pipeline) -> pa.Table:
    windows = pipeline.operator.windows
    places_by_stream = [windows.places_of(s) for s in range(pipeline.m)]
    stream = np.concatenate(
        [np.full(len(p), s, dtype=np.int8) for s, p in enumerate(places_by_stream)]
    )
    places = np.concatenate(places_by_stream)
    order = np.argsort(windows.rings.records[places, ORDER], kind="stable")
    places = places[order]
    records = windows.rings.records[places]
    columns = {
        "stream": stream[order],
        "ts": records[:, TS],
        "order": records[:, ORDER],
        "base": records[:, BASE],
        "now": records[:, NOW],
        "row": windows.rows_at(places),
        "joinable": windows.joinable_at(stream[order], places),
    }
    return pa.table(columns | _numbered(windows.codes_at(places), windows.values[:, places]))


def _restore_kept(pipeline: Pipeline, table: pa.Table, new_codes: dict[int, Int64s]) -> None:
    columns = {name: table[name].to_numpy() for name in table.column_names}
    codes, values = _from_numbered(columns, pipeline, new_codes)
    windows = pipeline.operator.windows
    ts, now = columns["ts"], columns["now"]
    sequence = Sequence(
        columns["stream"], ts, now, columns["base"], columns["base"], columns["row"], ts < now,
        columns["joinable"], codes,
    )  # fmt: skip
    windows.make_room(np.bincount(sequence.stream, minlength=pipeline.m))
    records = windows.remember(sequence, columns["order"])
    windows.values[:, records] = values


def _numbered(codes: Int64s, values: np.ndarray) -> dict[str, np.ndarray]:
    named = {f"code {c}": np.ascontiguousarray(column) for c, column in enumerate(codes)}
    return named | {f"value {v}": column for v, column in enumerate(values)}


def _from_numbered(
    columns: dict[str, np.ndarray], pipeline: Pipeline, new_codes: dict[int, Int64s]
) -> tuple[Int64s, np.ndarray]:
    n = len(columns["ts"])
    codes = np.zeros((len(pipeline.query.classes), n), dtype=np.int64)
    for c, equality in enumerate(pipeline.query.classes):
        codes[c] = columns[f"code {c}"]
        if c in new_codes:
            mine = np.isin(columns["stream"], list(equality.members)) & columns["joinable"]
            codes[c, mine] = new_codes[c][codes[c, mine]]
    values = np.zeros((pipeline.intake.n_values, n))
    for v in range(pipeline.intake.n_values):
        values[v] = columns[f"value {v}"]
    return codes, values


def _restore_keys(pipeline: Pipeline, parts: dict[str, pa.Table]) -> dict[int, Int64s]:
    """Intern the keys again; the result maps old codes to new ones."""
    found = {}
    for c, keys in enumerate(pipeline.intake.keys):
        if keys.interned is not None:
            table = parts[f"keys {c}"]
            old = table["code"].to_numpy()
            new = keys.interned.encode(table["key"].combine_chunks())
            mapping = np.zeros(int(old.max(initial=-1)) + 1, dtype=np.int64)
            mapping[old] = new
            found[c] = mapping
    return found
