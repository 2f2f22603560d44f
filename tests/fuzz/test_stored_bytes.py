"""State and control log with damaged bytes: read as they were, or refused by an error of ours."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from recalljoin.engine.state import restore, snapshot
from recalljoin.errors import RecallJoinError
from recalljoin.spark.cell_state import decode_chunk, read_meta
from recalljoin.spark.control_log import ControlLog
from recalljoin.spark.progress import progress_table
from tests.effort import FEW
from tests.fuzz.mutations import damaged
from tests.spark.local_cells import DictStore, LocalJoin
from tests.spark.test_control import BOUND, NO_LIMIT, control_of, reader, ticks
from tests.unit.engine.inputs import bound
from tests.unit.engine.test_state import ROWS, pushed


@cache
def log_and_cells() -> tuple[Path, LocalJoin]:
    """The control log of a few batches, and the cells with their state."""
    folder = Path(tempfile.mkdtemp(prefix="recalljoin-fuzz-"))
    source = reader(folder)
    join = LocalJoin(BOUND, 2, folder)
    offset = source.initialOffset()
    for tables in ticks(4):
        after = source.latestOffset(offset, NO_LIMIT)
        join.batch(tables, control=control_of(source, offset, after))
        offset = after
    log = ControlLog(str(folder))
    log.write_versions(())
    return folder, join


@given(st.data())
def test_a_snapshot_is_restored_as_it_was_or_refused(data: st.DataObject) -> None:
    query = bound()
    first = pushed(query, ROWS)
    content = snapshot(first).to_pybytes()
    with suppress(RecallJoinError):
        again = restore(query, data.draw(damaged(content)))
        assert again.n_buffered == first.n_buffered
        assert again.n_kept == first.n_kept


@given(st.data())
def test_a_chunk_is_read_as_it_was_or_refused(data: st.DataObject) -> None:
    _, join = log_and_cells()
    store = data.draw(st.sampled_from(join.stores))
    content = data.draw(st.sampled_from(sorted(store.chunks.values())))
    with suppress(RecallJoinError):
        again = decode_chunk(BOUND, data.draw(damaged(content)))
        assert again.chunk.tables == decode_chunk(BOUND, content).chunk.tables


@given(st.data())
def test_the_small_part_of_a_state_is_read_or_refused(data: st.DataObject) -> None:
    _, join = log_and_cells()
    store = join.stores[0]
    assert store.meta is not None
    text = data.draw(damaged(store.meta.encode())).decode(errors="replace")
    with suppress(RecallJoinError):
        read_meta(DictStore(text), join.plan.identity, len(BOUND.streams))


@FEW
@given(st.data())
def test_a_control_log_with_a_damaged_file_is_read_or_refused(data: st.DataObject) -> None:
    whole, _ = log_and_cells()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "log"
        shutil.copytree(whole, folder)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        for _ in range(data.draw(st.integers(1, 2))):
            file = data.draw(st.sampled_from(files))
            file.write_bytes(data.draw(damaged(file.read_bytes())))
        log = ControlLog(str(folder))
        for read in (
            lambda: progress_table(log),
            log.read_versions,
            log.last_report,
            lambda: log.own("6f0c9a1e-58ad-4a0f-9d5c-3a7b1c2d3e4f"),
            lambda: log.claim("somebody"),
            lambda: reader(folder).latestOffset(reader(folder).initialOffset(), NO_LIMIT),
            log.rolled,
        ):
            with suppress(RecallJoinError):
                read()
