"""What a live query promises, over batches of any length, stops, restarts and backlogs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from recalljoin.engine.arrivals import arrivals_of
from recalljoin.quality.adaptive import run_adaptive, true_results
from recalljoin.quality.advice import advise
from recalljoin.quality.policies import make_policy
from recalljoin.quality.recall import fulfilment
from recalljoin.quality.settings import PolicySettings
from recalljoin.query.model import Query, Stream
from tests.spark.live import MINUTE, SECOND, WINDOW, Feed, Live, Truth, both

if TYPE_CHECKING:
    from pathlib import Path

    from recalljoin.engine.arrays import Float64s

HOUR = 60 * MINUTE


def recorded(feeds: list[Feed]) -> tuple[Query, dict[str, pa.Table]]:
    """The same join of tuples that have all arrived, and these with the times of their arrival."""
    streams = [Stream(name, window=WINDOW, arrival="at") for name in ("s0", "s1")]
    tables = {
        f"s{s}": pa.table({"ts": feed.ts, "a": feed.key, "at": feed.at})
        for s, feed in enumerate(feeds)
    }
    return Query(streams=streams, condition="s0.a = s1.a"), tables


def test_the_truth_is_what_the_engine_finds_with_all_the_time_in_the_world() -> None:
    feeds = both(1, MINUTE)
    query, tables = recorded(feeds)
    bound = query.bind({name: table.schema for name, table in tables.items()})
    found = true_results(bound, arrivals_of(bound, tables))
    truth = Truth.of(feeds).timeline()
    ends = np.arange(0, MINUTE, 100)
    assert truth.total == found.total > 1000
    assert (truth.count(ends - 500, ends) == found.count(ends - 500, ends)).all()


def smallest_fixed(folder: Path, feeds: list[Feed], batch: int) -> int:
    """The smallest K, to a second, with which 95 % of the periods reach a recall of 0.95."""
    low, high = 0, 32
    while low < high:
        k = (low + high) // 2
        fixed = Live(folder / f"k{k}", feeds, recall=None, k=k * SECOND)
        recalls = fixed.run(15 * MINUTE, batch=batch).recalls(2 * MINUTE)
        low, high = (low, k) if fulfilment(recalls, 0.95) >= 0.95 else (k + 1, high)
    return low * SECOND


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batch", "seeds"), [(500, [2]), (2 * SECOND, [1, 2, 3]), (10 * SECOND, range(6)),
                         (MINUTE, range(12))]
)  # fmt: skip
def test_every_period_reaches_the_target_however_long_batches_are(
    tmp_path: Path, batch: int, seeds: list[int]
) -> None:
    recalls: list[Float64s] = []
    slacks: list[int] = []
    for seed in seeds:
        live = Live(tmp_path / str(seed), both(seed, 15 * MINUTE)).run(15 * MINUTE, batch=batch)
        recalls.append(live.recalls(2 * MINUTE))
        if seed == seeds[0]:
            slacks = [k for k, at in zip(live.k, live.phases, strict=True) if at == "settled"]
        shown = live.progress()
        late = shown.since(3 * MINUTE)
        assert (shown.recall - shown.true)[late].max() < 0.03
        assert np.nanmax(shown.at_least - shown.true_so_far) <= 1e-9
    together = np.concatenate(recalls)
    assert fulfilment(together, 0.95) >= 0.95
    assert fulfilment(together, 0.99 * 0.95) >= 0.99
    if batch > SECOND:
        best = smallest_fixed(tmp_path, both(seeds[0], 15 * MINUTE), batch)
        assert np.mean(slacks) <= 2.5 * best


@pytest.mark.slow
@pytest.mark.parametrize("batch", [10 * MINUTE, MINUTE, 15 * SECOND])
def test_a_backlog_read_after_a_stop_changes_neither_recall_nor_wait(
    tmp_path: Path, batch: int
) -> None:
    before: list[Float64s] = []
    after: list[Float64s] = []
    for seed in (1, 2):
        live = Live(tmp_path / str(seed), both(seed, 24 * MINUTE)).run(8 * MINUTE, batch=SECOND)
        k = live.k[-1]
        live.start()
        live.run(18 * MINUTE, batch=batch).run(24 * MINUTE, batch=SECOND)
        before.append(live.recalls(2 * MINUTE, 7 * MINUTE))
        after.append(live.recalls(17 * MINUTE))
        since = live.after(8 * MINUTE, live.k)
        assert k / 2 <= min(since) <= max(since) <= 2 * k
        shown = live.progress()
        late = shown.since(3 * MINUTE)
        assert (shown.recall - shown.true)[late].max() < 0.03
        assert np.nanmax(shown.at_least - shown.true_so_far) <= 1e-9
    reached = fulfilment(np.concatenate(after), 0.95)
    assert reached >= min(0.95, fulfilment(np.concatenate(before), 0.95))


def half_late(seed: int, length: int, late: float) -> Feed:
    random = np.random.default_rng(seed)
    ts = np.arange(0, length, 50)
    at = ts + np.where(random.random(len(ts)) < late, 30 * SECOND, 0)
    return Feed.of(ts, random.integers(0, 4, len(ts)), at)


@pytest.mark.parametrize("max_wait", [None, 5 * SECOND])
def test_tuples_later_than_the_horizon_are_waited_for_or_told_of(
    tmp_path: Path, max_wait: int | None
) -> None:
    feeds = [half_late(1, 4 * MINUTE, 0.5), half_late(2, 4 * MINUTE, 0.0)]
    live = Live(tmp_path, feeds, period=10 * SECOND, quality={"max_wait": max_wait})
    live.run(4 * MINUTE, batch=SECOND)
    shown = live.progress()
    late = shown.since(MINUTE)
    assert np.nanmax(shown.at_least - shown.true_so_far) <= 1e-9
    assert (shown.recall - shown.true)[late].max() < 0.1
    if max_wait is None:
        assert min(live.after(MINUTE, live.k)) >= 29 * SECOND
        assert live.recalls(MINUTE).min() >= 0.95
    else:
        assert set(live.after(MINUTE, live.k)) == {max_wait}
        # A period of ten seconds has its ups and downs, which no estimate can know.
        assert shown.recall[late].mean() == pytest.approx(shown.true[late].mean(), abs=0.05)
        assert shown.recall[late].max() < 0.6


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_first_period_reaches_the_target_without_any_setting(tmp_path: Path, seed: int) -> None:
    live = Live(tmp_path, both(seed, 4 * MINUTE)).run(4 * MINUTE, batch=2 * SECOND)
    assert live.recalls(0, 2 * MINUTE).min() >= 0.95
    assert max(live.k) <= MINUTE
    assert live.phases[0] == "learning"
    assert live.phases[-1] == "settled"
    assert live.phases.index("settled") * 2 * SECOND <= 4 * MINUTE


def test_a_stream_without_delays_is_not_waited_for_once_that_is_known(tmp_path: Path) -> None:
    live = Live(tmp_path, both(1, MINUTE, late=0.0)).run(MINUTE, batch=2 * SECOND)
    assert live.k[0] == 10 * SECOND
    assert max(live.after(20 * SECOND, live.k)) <= SECOND


def test_the_wait_begins_and_ends_where_it_is_told_to(tmp_path: Path) -> None:
    def slacks(name: str, **more: Any) -> list[int]:
        live = Live(tmp_path / name, both(1, 2 * MINUTE), **more)
        return live.run(2 * MINUTE, batch=2 * SECOND).k

    initial = slacks("initial", quality={"initial_wait": "25 s"})
    assert set(initial[:3]) == {25 * SECOND}
    assert min(initial[30:]) < 22 * SECOND
    assert min(slacks("min", quality={"min_wait": "40 s"})) == 40 * SECOND
    assert max(slacks("max", quality={"max_wait": "3 s"})) == 3 * SECOND


def test_a_query_begins_with_what_an_earlier_one_has_learnt(tmp_path: Path) -> None:
    earlier = Live(tmp_path / "earlier", both(1, 6 * MINUTE)).run(6 * MINUTE, batch=2 * SECOND)
    later = Live(tmp_path / "later", both(2, 4 * MINUTE), learn_from=tmp_path / "earlier")
    later.run(4 * MINUTE, batch=2 * SECOND)
    assert later.k[0] == pytest.approx(earlier.k[-1], rel=0.05)
    assert min(later.k) >= later.k[0] / 2
    assert set(later.phases) == {"settled"}
    assert later.recalls(0).min() >= 0.94
    query, tables = recorded(both(1, 5 * MINUTE))
    advice = advise(query, tables, recall=0.95)
    assert 12 * SECOND < advice.k_ms < 20 * SECOND
    advised = Live(tmp_path / "advised", both(2, MINUTE), learn_from=advice)
    assert set(advised.run(4 * SECOND, batch=2 * SECOND).k) == {round(advice.k_ms)}


def seldom(seed: int, length: int) -> Feed:
    """A tuple every half minute; three in ten are late by up to an hour."""
    random = np.random.default_rng(seed)
    ts = np.sort(random.integers(0, length, length // (30 * SECOND)))
    delay = np.where(random.random(len(ts)) < 0.3, random.integers(0, HOUR, len(ts)), 0)
    return Feed.of(ts, random.integers(0, 6, len(ts)), ts + delay)


@pytest.mark.slow
@pytest.mark.parametrize("period", [MINUTE, HOUR])
def test_few_results_and_delays_of_an_hour_reach_the_target(tmp_path: Path, period: int) -> None:
    feeds = [seldom(1, 10 * HOUR), seldom(2, 10 * HOUR)]
    live = Live(tmp_path, feeds, recall=0.9, period=period, window=MINUTE)
    live.run(10 * HOUR, batch=2 * MINUTE)
    assert 300 < len(live.truth.ts) < 1200
    assert live.recall(5 * HOUR) >= 0.9
    assert max(live.k) <= 1.1 * HOUR


def test_rows_that_come_once_more_are_told_of_as_lost(tmp_path: Path) -> None:
    feeds = []
    for feed, more in zip(
        both(1, 3 * MINUTE, late=0.0), both(2, 6 * MINUTE, late=0.0), strict=True
    ):
        again = Feed(feed.ts, feed.key, feed.at + 6 * MINUTE)
        new = more.ts >= 3 * MINUTE
        between = Feed.of(more.ts[new], more.key[new], more.at[new])
        feeds.append(feed.then(between).then(again))
    live = Live(tmp_path, feeds).run(9 * MINUTE, batch=2 * SECOND)
    # Of each member there are two in the end, and of each result four.
    assert live.recall(0, 3 * MINUTE - 2 * SECOND) == pytest.approx(0.25, abs=0.01)
    shown = live.progress()
    of_first = (shown.at > 10 * SECOND) & (shown.at < 2.5 * MINUTE)
    assert shown.settled[of_first] == pytest.approx(0.25, abs=0.05)


@pytest.mark.parametrize("seed", [1, 2])
def test_equal_times_that_arrive_one_by_one_do_not_hide_what_is_lost(seed: int) -> None:
    feeds = []
    for feed in both(seed, 10 * MINUTE, late=0.1, mean=3 * SECOND):
        feeds.append(Feed(feed.ts // SECOND * SECOND, feed.key, feed.at))
    query, tables = recorded(feeds)
    bound = query.bind({name: table.schema for name, table in tables.items()})
    arrivals = arrivals_of(bound, tables)
    settings = PolicySettings.of(bound)
    record = run_adaptive(
        bound,
        arrivals,
        make_policy("slack", settings),
        settings,
        truth=true_results(bound, arrivals),
    )
    below = record.recall[record.counts] < 0.95
    # How many seconds in a row the recall of the last period was below the target.
    rows = np.diff(np.flatnonzero(np.concatenate(([True], ~below, [True])))) - 1
    assert rows.max() <= 75
