"""The model of a cluster, by hand, and where its tables are written."""

from __future__ import annotations

import pyarrow as pa
import pytest

from benchmarks.cluster import PARCEL, SECTION, model, with_tables
from benchmarks.cluster_run import PAPER, Ran, text_of
from benchmarks.measure import Report
from recalljoin.query.text import parse_query

ALONE = Ran(1000, 5, 900.0, 1.2, 0.2, 1.0, 0, 1, 1.0)


@pytest.mark.parametrize(
    ("query", "copies", "share"),
    [
        # Every tuple of a distance join goes to half of four cells, one of an equi-join to one.
        ("soccer x2", 2.0, 0.5),
        ("D_syn x3", 1.0, 0.25),
        # 1, 2, 2 and 4 copies of a tuple of the four streams.
        ("D_syn x4", 2.25, 2.25 / 4),
    ],
)
def test_copies_and_shares_of_the_papers_queries_in_four_cells(
    query: str, copies: float, share: float
) -> None:
    data = PAPER[query](1000)
    bound = parse_query(text_of(query)).bind({s: data.schema(s) for s in data.streams})
    found = model(bound, [100] * len(data.streams), 4)
    assert (found.copies, found.share, found.n_cells) == (copies, share, 4)
    # Half a second for work that took a second alone, and the batch without tuples.
    assert found.batch(ALONE, 0.3) == pytest.approx((0.3 + 1 / 4, 0.3 + share))


def test_bytes_are_those_of_the_tuples_and_of_a_parcel_for_each_cell() -> None:
    schema = pa.schema({"ts": pa.int64(), "k": pa.int32()})
    stated = parse_query("SELECT * FROM a [1 SEC], b [1 SEC] WHERE a.k < b.k")
    found = model(stated.bind({"a": schema, "b": schema}), [30, 10], 4)
    # Two copies of each, of 12 bytes and a place of 8.
    assert found.shuffled(40, n_tasks=3) == 40 * 2 * 20 + 3 * 4 * PARCEL


def test_tables_take_the_place_of_those_before() -> None:
    report = Report("New", ("a",), rows=[("1",)])
    text = with_tables(f"# Page\n\nText.\n\n{SECTION}\n\nOld.\n", [report])
    assert text.startswith(f"# Page\n\nText.\n\n{SECTION}\n\nMade by")
    assert "### New" in text
    assert "Old" not in text
