"""Snapshots: what they hold, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.slack_bins import slack_bin
from recalljoin.engine.state import restore, snapshot
from recalljoin.engine.step import Step, drain
from recalljoin.errors import InvalidSetting, StateVersionError
from tests.unit.engine.inputs import bound, rows_of

if TYPE_CHECKING:
    from recalljoin.query.bound_query import BoundQuery


def pushed(
    query: BoundQuery, rows: list[tuple[Any, ...]], settings: EngineSettings | None = None
) -> Pipeline:
    pipeline = Pipeline(query, settings)
    drain(pipeline.push(rows_of(query, rows), k=5))
    return pipeline


ROWS = [(1, 0, 1), (2, 1, 1), (1, 20, 1), (2, 20, 2), (1, 3, 2), (1, 22, 2), (2, 30, 2)]


def test_a_snapshot_is_arrow_with_a_version() -> None:
    content = snapshot(pushed(bound(), ROWS))
    outer = pa.ipc.open_stream(content).read_all()
    assert outer.schema.metadata[b"recalljoin.state.version"] == b"3"
    assert outer.column_names == ["part", "content"]


def test_bytes_and_buffers_are_read_alike() -> None:
    query = bound()
    content = snapshot(pushed(query, ROWS))
    for form in (content, content.to_pybytes()):
        again = restore(query, form)
        assert snapshot(again).equals(snapshot(restore(query, content)))


def test_a_restored_pipeline_knows_what_the_first_one_knew() -> None:
    query = bound()
    first = pushed(query, ROWS)
    second = restore(query, snapshot(first))
    for name in ("n_buffered", "n_kept", "join_time", "base_time"):
        assert getattr(second, name) == getattr(first, name), name
    assert second.local_times.tolist() == first.local_times.tolist()
    assert second.n_arrived.tolist() == first.n_arrived.tolist()


def test_a_snapshot_of_nothing_is_one() -> None:
    query = bound()
    again = restore(query, snapshot(Pipeline(query)))
    assert drain(again.flush())[1].n_produced == 0


def with_version(content: pa.Buffer, version: bytes | None) -> bytes:
    outer = pa.ipc.open_stream(content).read_all()
    metadata = None if version is None else {b"recalljoin.state.version": version}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, outer.schema.with_metadata(metadata)) as writer:
        writer.write_table(outer.replace_schema_metadata(metadata))
    written: bytes = sink.getvalue().to_pybytes()
    return written


def test_an_unknown_version_is_refused_with_both_named() -> None:
    query = bound()
    content = with_version(snapshot(Pipeline(query)), b"7")
    with pytest.raises(StateVersionError) as caught:
        restore(query, content)
    assert str(caught.value) == (
        "the snapshot has layout version 7, this release reads version 3; "
        "restore it with the release that wrote it, or start anew"
    )


def test_arrow_of_another_kind_is_refused() -> None:
    query = bound()
    with pytest.raises(StateVersionError, match="layout version none, this release reads"):
        restore(query, with_version(snapshot(Pipeline(query)), None))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        b"\x00" * 100,
        b"\xff\xff\xff\xff\x10\x00\x00\x00" + b"\x07" * 40,
        b"PAR1" * 10,
    ],
)
def test_garbage_is_refused(content: bytes) -> None:
    with pytest.raises(StateVersionError, match="the snapshot of a join is damaged"):
        restore(bound(), content)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_a_snapshot_that_was_cut_off_is_refused(share: float) -> None:
    query = bound()
    content = snapshot(pushed(query, ROWS)).to_pybytes()
    with pytest.raises(StateVersionError):
        restore(query, content[: int(share * len(content))])


OTHERS = {
    "windows": bound(windows=(10, 11)),
    "condition": bound("s1.a = s2.a AND s1.n < s2.n"),
    "keys": bound("s1.a = s2.a + 1"),
    "streams": bound("s1.a = s2.a", windows=(10, 10, 10)),
    "types": bound(types={"a": pa.int32()}),
    "columns": bound(types={"a": pa.int64(), "b": pa.int64()}),
    "counting": bound(select="count(*)"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_snapshot_of_another_query_is_refused(name: str) -> None:
    content = snapshot(pushed(bound(), ROWS))
    with pytest.raises(InvalidSetting, match="belongs to another query or other settings"):
        restore(OTHERS[name], content)


def test_a_snapshot_without_columns_that_are_now_asked_for_is_refused() -> None:
    content = snapshot(pushed(bound(select="s1.a"), ROWS))
    with pytest.raises(InvalidSetting, match="belongs to another query or other settings"):
        restore(bound(select="s1.a, s2.n"), content)


@pytest.mark.parametrize(
    "settings",
    [
        EngineSettings(arrival="tick"),
        EngineSettings(rows=False),
        EngineSettings(lost=False),
        EngineSettings(slack=True),
    ],
)
def test_a_snapshot_with_other_settings_is_refused(settings: EngineSettings) -> None:
    query = bound()
    with pytest.raises(InvalidSetting, match="belongs to another query or other settings"):
        restore(query, snapshot(pushed(query, ROWS)), settings)


def histogram(steps: list[Step]) -> dict[tuple[int, int], int]:
    found: dict[tuple[int, int], int] = {}
    for step in steps:
        for fate, at in zip(*(part.tolist() for part in np.nonzero(step.slack)), strict=True):
            found[fate, at] = found.get((fate, at), 0) + int(step.slack[fate, at])
    return found


@pytest.mark.parametrize("rewritten", [False, True])
def test_slacks_of_members_received_before_the_snapshot_are_counted_in_full(
    rewritten: bool,
) -> None:
    # s2:5 comes when the base time is at 101, and passes at once, long before s1:30, which waits:
    # their result needs a slack of 101 - 30.
    query = bound(windows=(50, 50))
    settings = EngineSettings(slack=True)
    rows = [
        *[(1, 0, 0), (2, 0, 0), (2, 10, 0), (1, 10, 0), (1, 30, 0), (1, 120, 0)],
        *[(2, 100, 0), (2, 101, 0), (2, 5, 0), (2, 102, 0), (1, 130, 0)],
    ]
    slack = [0, 0, 0, 0, 1000, 1000, 0, 0, 0, 0, 100]
    pipeline = Pipeline(query, settings)
    arrivals = rows_of(query, rows)
    steps = []
    for i, k in enumerate(slack):
        steps.append(drain(pipeline.push(arrivals.slice(i, i + 1), k=k))[1])
        if rewritten:
            pipeline = restore(query, snapshot(pipeline), settings)
    steps.append(drain(pipeline.flush())[1])
    assert histogram(steps)[0, slack_bin(101, 30)] == 1


def test_null_keys_in_a_restored_window_do_not_disturb_the_sweep_of_keys() -> None:
    query = bound("s1.t = s2.t", windows=(1, 10**6), types={"t": pa.string()}, select="count(*)")
    settings = EngineSettings(rows=False, retention=0)
    pipeline = Pipeline(query, settings)

    def push(rows: list[tuple[Any, ...]]) -> None:
        drain(pipeline.push(rows_of(query, rows), k=0))

    push([(1, i, f"k{i}") for i in range(9000)] + [(2, i, "b") for i in range(0, 9000, 1000)])
    push([(1, 9000 + i, "z") for i in range(9000)] + [(2, 18_000, "z")])
    push([(1, 18_002, "y"), (2, 18_001, None), (2, 18_002, "z"), (1, 18_003, "z")])
    pipeline = restore(query, snapshot(pipeline), settings)
    for first in range(18_004, 28_004, 100):
        push([(1, first + i, f"q{first + i}") for i in range(100)] + [(2, first + 99, "z")])
    interned = pipeline.intake.keys[0].interned
    assert interned is not None
    assert interned.n_entries < 6000


def test_integers_too_large_for_programs_are_remembered() -> None:
    # Once met, conditions are evaluated on columns; after a restore as well.
    query = bound("s1.a < s2.a", windows=(10, 10))
    pipeline = pushed(query, [(1, 0, 2**53 + 1), (1, 100, 0), (2, 100, 0)])
    assert not pipeline.operator.exact
    assert not restore(query, snapshot(pipeline)).operator.exact


def test_payload_and_numbers_go_on_where_they_were() -> None:
    query = bound(windows=(5, 5))
    pipeline = Pipeline(query)
    results = []
    rows = [(s, ts, ts % 2) for ts in range(0, 60) for s in (1, 2)]
    arrivals = rows_of(query, rows)
    for i in range(0, len(rows), 7):
        batches, _ = drain(pipeline.push(arrivals.slice(i, i + 7), k=3))
        results += [row for batch in batches for row in batch.to_pylist()]
        pipeline = restore(query, snapshot(pipeline))
    batches, _ = drain(pipeline.flush())
    results += [row for batch in batches for row in batch.to_pylist()]
    expected = {(a, b) for a in range(60) for b in range(60) if abs(a - b) <= 5 and a % 2 == b % 2}
    assert {(row["s1"]["ts"], row["s2"]["ts"]) for row in results} == expected
    assert len(results) == len(expected)
    for row in results:
        assert rows[row["s1"]["n"]] == (1, row["s1"]["ts"], row["s1"]["a"])
        assert rows[row["s2"]["n"]] == (2, row["s2"]["ts"], row["s2"]["a"])


def test_settings_made_anew_with_the_same_values_are_the_same() -> None:
    query = bound()
    settings = EngineSettings(slack=True, retention=9)
    content = snapshot(pushed(query, ROWS, settings))
    again = restore(query, content, replace(settings))
    assert again.settings == settings
    assert snapshot(again) == content


def test_a_restored_pipeline_remembers_as_long_as_the_one_that_was_written_did_last() -> None:
    query = bound()
    pipeline = pushed(query, ROWS, EngineSettings(retention=3))
    pipeline.remember_for(70)
    again = restore(query, snapshot(pipeline), EngineSettings(retention=9))
    assert again.remembered == pipeline.remembered
    assert again.retention == 70
