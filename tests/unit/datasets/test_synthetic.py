"""D_syn x3 and x4: rows do not depend on blocks, distributions are the paper's."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recalljoin.datasets import Q_X3, Q_X4, Synthetic, make_syn_x3, make_syn_x4
from recalljoin.datasets.synthetic import zipf_cdf
from recalljoin.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

MINUTE = 60_000


def delays(table: pa.Table) -> NDArray[np.int64]:
    difference: NDArray[np.int64] = table["arrival"].to_numpy() - table["ts"].to_numpy()
    return difference


def test_the_paper_s_streams_have_its_schemas_sizes_and_queries() -> None:
    x3, x4 = make_syn_x3(), make_syn_x4()
    assert [x3.schema(name).names[2:] for name in x3.streams] == [["a1"]] * 3
    assert [x4.schema(name).names[2:] for name in x4.streams] == [
        ["a1", "a2", "a3"],
        ["a1"],
        ["a2"],
        ["a3"],
    ]
    assert x3.rows == x4.rows == 180_000  # 30 minutes of 100 tuples a second
    assert (x3.query, x4.query) == (Q_X3, Q_X4)
    assert [spec.delay_skew for spec in x3.specs] == [2.0, 3.0, 3.0]
    assert [spec.delay_skew for spec in x4.specs] == [3.0, 3.0, 3.0, 4.0]


def test_the_clock_is_raised_before_each_tuple_and_is_the_same_in_all_streams() -> None:
    dataset = make_syn_x3(duration=1_000)
    for name in dataset.streams:
        assert dataset.table(name)["arrival"].to_pylist() == list(range(100_010, 101_001, 10))


@pytest.mark.parametrize("block_rows", [1, 777, 100_000])
def test_the_size_of_blocks_does_not_change_the_rows(block_rows: int) -> None:
    # Skews that change every few rows, so that changes fall within and between blocks.
    dataset = replace(make_syn_x4(5, duration=20_000, block_rows=512), change_every=(50, 500))
    assert len(dataset.skew_changes("s4", "a3")) > 20
    other = replace(dataset, block_rows=block_rows)
    for name in dataset.streams:
        assert other.table(name).equals(dataset.table(name))


def test_a_shorter_run_is_the_beginning_of_a_longer_one() -> None:
    long, short = make_syn_x3(2, duration=15 * MINUTE), make_syn_x3(2, duration=11 * MINUTE)
    for name in long.streams:
        assert short.table(name).equals(long.table(name).slice(0, short.rows))


def test_the_same_seed_gives_the_same_rows_and_another_seed_others() -> None:
    first, again, other = (make_syn_x3(seed, duration=MINUTE).table("s1") for seed in (4, 4, 5))
    assert first.equals(again)
    for column in ("ts", "a1"):
        assert first[column] != other[column]


def test_streams_and_attributes_are_drawn_independently() -> None:
    table = make_syn_x4(duration=MINUTE).table("s1")
    assert table["a1"] != table["a2"]
    dataset = make_syn_x3(duration=MINUTE)
    assert dataset.table("s2")["ts"] != dataset.table("s3")["ts"]
    # Same seed, same delay skew, same position: still not the same stream.
    assert dataset.table("s2")["ts"] != make_syn_x4(duration=MINUTE).table("s2")["ts"]
    # Were delays and values drawn from one sequence, no delay would go with the smallest values.
    smallest = dataset.table("s2")["a1"].to_numpy() == 1
    prompt = delays(dataset.table("s2")) == 0
    assert abs(prompt[smallest].mean() - prompt.mean()) < 0.06  # 1 160 rows, sd 0.011


def test_zipf_is_what_it_says() -> None:
    # Weights 1, 1/4, 1/9: sum 49/36.
    assert zipf_cdf(3, 2.0) == pytest.approx([36 / 49, 45 / 49, 1.0])
    assert zipf_cdf(4, 0.0) == pytest.approx([0.25, 0.5, 0.75, 1.0])


# Shares of delay 0: 1 / sum of r**-z over r = 1 .. 201.
#   z = 2: pi**2 / 6 - 1 / 201.5 = 1.63997  -> 0.60977
#   z = 3: 1.2020569 - 1 / (2 * 201.5**2) = 1.2020446  -> 0.83192
#   z = 4: 1.0823232  -> 0.92394
# and of 0.1 s: that times 2**-z.
@pytest.mark.parametrize(
    ("stream", "skew", "none", "step"),
    [("s1", 2.0, 0.60977, 0.15244), ("s2", 3.0, 0.83192, 0.10399), ("s3", 4.0, 0.92394, 0.05775)],
)
def test_delays_follow_their_zipf_distribution(
    stream: str, skew: float, none: float, step: float
) -> None:
    dataset = make_syn_x3(1)
    specs = tuple(
        replace(spec, delay_skew=skew) if spec.name == stream else spec for spec in dataset.specs
    )
    drawn = delays(replace(dataset, specs=specs).table(stream))
    # Five standard deviations of a share of 180 000 rows are at most 5 * 0.5 / 424 = 0.006.
    assert (drawn == 0).mean() == pytest.approx(none, abs=0.006)
    assert (drawn == 100).mean() == pytest.approx(step, abs=0.006)
    assert drawn.max() <= 20_000
    assert not (drawn % 100).any()


def test_the_step_between_delays_is_a_setting() -> None:
    dataset = make_syn_x3(1, duration=5 * MINUTE, delay_step=10)
    drawn = delays(dataset.table("s1"))
    assert not (drawn % 10).any()
    assert (drawn == 10).any()
    # With 2001 values the sum is 1.64443: the share of delay 0 is 0.6081.
    assert (drawn == 0).mean() == pytest.approx(0.6081, abs=0.015)


def test_attributes_start_with_skew_one_over_a_hundred_values() -> None:
    # No change comes before a minute has passed. P(1) = 1 / H(100) = 1 / 5.18738 = 0.19278.
    dataset = make_syn_x4(3, duration=MINUTE - 10)
    values = np.concatenate([dataset.table("s1")[name].to_numpy() for name in ("a1", "a2", "a3")])
    assert (values.min(), values.max()) == (1, 100)
    assert (values == 1).mean() == pytest.approx(0.19278, abs=0.015)  # 18 000 rows, sd 0.003
    assert (values == 2).mean() == pytest.approx(0.09639, abs=0.011)


def test_skews_change_after_one_to_ten_minutes_to_something_within_zero_and_five() -> None:
    # 50 seeds, about 5 changes in 30 minutes each (a wait is 5.5 minutes on average).
    changes = [make_syn_x3(seed).skew_changes("s1", "a1") for seed in range(50)]
    waits = np.concatenate([np.diff([0, *(time for time, _ in found)]) for found in changes])
    skews = np.array([skew for found in changes for _, skew in found])
    assert waits.min() >= MINUTE
    assert waits.max() <= 10 * MINUTE
    assert waits.max() > 9 * MINUTE
    assert skews.min() >= 0.0
    assert skews.max() <= 5.0
    # Uniform in [0, 5]: mean 2.5, standard deviation 1.443, over some 240 changes 0.093.
    assert skews.mean() == pytest.approx(2.5, abs=0.45)


def test_a_changed_skew_holds_from_the_tuple_that_arrives_with_the_change() -> None:
    # Uniform values for a second, then a skew so large that every value is 1.
    dataset = replace(
        make_syn_x3(duration=1_200),
        first_skew=0.0,
        skew_range=(50, 50),
        change_every=(1_000, 1_000),
    )
    assert dataset.skew_changes("s1", "a1") == ((1_000, 50.0),)
    values = dataset.table("s1")["a1"].to_numpy()  # row 99 arrives 1 000 ms after the start
    assert (values[99:] == 1).all()
    assert (values[:99] == 1).mean() < 0.1
    assert values[98] > 1


def test_values_follow_the_skew_in_force() -> None:
    dataset = make_syn_x3(1)
    table = dataset.table("s1")
    arrival, values = table["arrival"].to_numpy() - dataset.start, table["a1"].to_numpy()
    changes = [*dataset.skew_changes("s1", "a1"), (dataset.duration + 1, 0.0)]
    assert len(changes) >= 3
    for (begin, skew), (end, _) in pairwise(changes):
        held = values[(arrival >= begin) & (arrival < end)]
        expected = 1.0 / (np.arange(1, 101) ** -skew).sum()
        assert (held == 1).mean() == pytest.approx(expected, abs=5 * 0.5 / np.sqrt(len(held)))


def test_max_k_slack_waits_as_long_on_x3_as_the_paper_says() -> None:
    # Table II: mean K of 19.72 s. K is the largest delay so far, read off once a second.
    dataset = make_syn_x3(1)
    largest = np.max([_delays_behind(dataset, name) for name in dataset.streams], axis=0)
    k = np.maximum.accumulate(largest)[99::100]
    assert k.mean() == pytest.approx(19_720, abs=300)


def _delays_behind(dataset: Synthetic, name: str) -> NDArray[np.int64]:
    ts: NDArray[np.int64] = dataset.table(name)["ts"].to_numpy()
    return np.maximum.accumulate(ts) - ts


@pytest.mark.data
@pytest.mark.parametrize(("folder", "make"), [("syn3", make_syn_x3), ("syn4", make_syn_x4)])
def test_layout_and_distributions_are_those_of_the_golden_inputs(
    golden_dir: Path, folder: str, make: Callable[..., Synthetic]
) -> None:
    dataset = make(8, duration=240_000)
    for name in dataset.streams:
        theirs = pq.read_table(golden_dir / folder / f"{name}.parquet")
        ours = dataset.table(name)
        assert ours.schema.equals(theirs.schema, check_metadata=False)
        assert ours["arrival"] == theirs["arrival"]
        # Two samples of 24 000: their distribution functions differ by 1.95 * sqrt(2 / 24 000)
        # = 0.018 in one of a thousand cases (Kolmogorov and Smirnov).
        assert _distance(delays(ours), delays(theirs)) < 0.018
        for attribute in ours.schema.names[2:]:
            # Before the first change both are Zipf with skew 1; the first minute has 6 000 rows.
            early = [table[attribute].to_numpy()[:6_000] for table in (ours, theirs)]
            assert _distance(*early) < 0.036


def _distance(left: NDArray[np.int64], right: NDArray[np.int64]) -> float:
    values = np.union1d(left, right)
    shares = [
        np.searchsorted(np.sort(sample), values, side="right") / len(sample)
        for sample in (left, right)
    ]
    return float(np.abs(shares[0] - shares[1]).max())


def test_all_faulty_settings_are_reported_together() -> None:
    with pytest.raises(DatasetError) as caught:
        replace(
            make_syn_x3(),
            seed=-1,
            duration=0,
            delay_step=300,
            skew_range=(2.0, 1.0),
            change_every=(0, 5),
        )
    assert str(caught.value) == (
        "`duration` must be at least 1, got 0; "
        "`seed` must not be negative, got -1; "
        "`max_delay` must be a multiple of `delay_step`, got 20000 and 300; "
        "`skew_range` must not fall, got (2.0, 1.0); "
        "`change_every` must be two rising times of at least 1 ms, got (0, 5)"
    )


def test_a_negative_largest_delay_is_refused() -> None:
    with pytest.raises(DatasetError, match="`max_delay` must not be negative, got -100"):
        replace(make_syn_x3(), max_delay=-100)


def test_skew_changes_of_an_unknown_attribute_are_refused() -> None:
    with pytest.raises(DatasetError) as caught:
        make_syn_x3().skew_changes("s1", "a2")
    assert str(caught.value) == (
        "`attribute` must be one of a1 for stream 's1' of syn_x3, got 'a2'"
    )
