"""Rows kept as Arrow until nobody can ask for them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from recalljoin.engine.payload import Payload

NESTED = pa.schema(
    {
        "n": pa.int64(),
        "tags": pa.list_(pa.string()),
        "point": pa.struct({"x": pa.float64(), "y": pa.list_(pa.int8())}),
        "kind": pa.dictionary(pa.int8(), pa.string()),
        "map": pa.map_(pa.string(), pa.int32()),
    }
)


def rows(first: int, n: int) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "n": i,
                "tags": None if i % 5 == 0 else [str(i), "t"],
                "point": {"x": i / 2, "y": [i % 7, None]},
                "kind": f"k{i % 3 + i // 10}",
                "map": [("a", i)],
            }
            for i in range(first, first + n)
        ],
        schema=NESTED,
    )


@given(
    steps=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 12)), max_size=40), data=st.data()
)
def test_rows_are_found_by_their_numbers_whatever_came_and_went(
    steps: list[tuple[int, int]], data: st.DataObject
) -> None:
    payload = Payload(pa.schema({"n": pa.int64()}))
    oldest = end = 0
    for n_new, n_old in steps:
        payload.append(pa.table({"n": range(end, end + n_new), "other": [0] * n_new}))
        end += n_new
        oldest = min(end, oldest + n_old)
        payload.forget_before(oldest)
        assert payload.end == end
        assert payload.first <= oldest
        assert payload.n_rows == end - payload.first
        asked = (
            data.draw(st.lists(st.integers(oldest, end - 1), max_size=5)) if end > oldest else []
        )
        wanted = np.array(asked, dtype=np.int64)
        assert payload.take(wanted).column("n").to_pylist() == asked
        assert payload.column("n", wanted).to_pylist() == asked
    kept = payload.to_table()
    assert kept["n"].to_pylist() == list(range(payload.first, end))


def test_nested_values_survive() -> None:
    payload = Payload(NESTED)
    for first in range(0, 40, 10):
        payload.append(rows(first, 10))
    wanted = [33, 0, 7, 7, 19]
    expected = rows(0, 40).take(wanted)
    taken = payload.take(np.array(wanted))
    assert taken.schema == payload.schema
    assert taken.to_pylist() == expected.to_pylist()
    for name in NESTED.names:
        found = payload.column(name, np.array(wanted))
        assert found.to_pylist() == expected[name].to_pylist()
        assert found.type == payload.schema.field(name).type


def test_dictionaries_of_many_batches_may_have_more_values_than_their_index_can_count() -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    payload = Payload(pa.schema({"k": kind}))
    words = [[f"{b}-{i}" for i in range(50)] for b in range(10)]
    for part in words:
        payload.append(pa.table({"k": pa.array(part).dictionary_encode().cast(kind)}))
    assert payload.take(np.array([499, 0])).column("k").to_pylist() == ["9-49", "0-0"]


def test_small_appends_are_merged_so_that_there_are_few_batches() -> None:
    payload = Payload(pa.schema({"n": pa.int64()}))
    for n in range(3000):
        payload.append(pa.table({"n": [n]}))
    assert len(payload._batches) <= 24
    assert payload.take(np.array([0, 1500, 2999])).column("n").to_pylist() == [0, 1500, 2999]


def test_memory_follows_the_rows_that_are_kept() -> None:
    payload = Payload(pa.schema({"text": pa.string()}))
    for n in range(200):
        payload.append(pa.table({"text": [f"{n:01000d}"] * 100}))
        payload.forget_before(100 * max(0, n - 4))
        assert payload.n_rows <= 2000
    assert sum(batch.nbytes for batch in payload._batches) < 3_000_000


def test_a_payload_goes_on_where_another_left_off() -> None:
    first = Payload(pa.schema({"n": pa.int64()}))
    first.append(pa.table({"n": range(100)}))
    first.forget_before(60)
    second = Payload(first.schema)
    second.restore(first.first, first.to_table())
    for payload in (first, second):
        payload.append(pa.table({"n": [100, 101]}))
    rows_asked = np.array([101, 60, 99])
    assert second.take(rows_asked).equals(first.take(rows_asked))
    assert (second.first, second.end) == (first.first, 102)


def test_nothing_can_be_asked_of_an_empty_payload() -> None:
    payload = Payload(NESTED)
    none = np.empty(0, dtype=np.int64)
    assert payload.take(none).schema == payload.schema
    assert len(payload.column("tags", none)) == 0
    assert payload.to_table().num_rows == 0
