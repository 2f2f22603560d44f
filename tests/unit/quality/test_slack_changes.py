"""The required-slack policy on streams whose disorder changes suddenly, on the engine itself.

Two streams of 50 tuples a second for 12 minutes. From minute 4 to minute 8 something is
different. The recall asked for is 0.95 over a minute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from recalljoin.engine.arrivals import arrivals_of
from recalljoin.quality.adaptive import run_adaptive, true_results
from recalljoin.quality.policies import make_policy
from recalljoin.quality.recall import fulfilment
from recalljoin.quality.settings import PolicySettings
from recalljoin.query.text import parse_query

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from recalljoin.quality.record import RunRecord

    Delays = Callable[[int, NDArray[np.int64], NDArray[np.int64]], NDArray[np.int64]]

QUERY = "SELECT count(*) FROM a [2 SEC], b [2 SEC] WHERE a.x = b.x WITH RECALL 0.95 OVER 1 MINUTE"
MINUTE = 60_000
CHANGE, BACK, END = 4 * MINUTE, 8 * MINUTE, 12 * MINUTE
STEP = 20


def run(delays: Delays, seed: int = 0) -> RunRecord:
    """The policy over streams whose delays are ``delays(stream, ts, usual delays)``."""
    rng = np.random.default_rng(seed)
    tables = {}
    for stream, name in enumerate("ab"):
        ts = np.arange(0, END, STEP, dtype=np.int64)
        # A third is late, by a second on average and by six at most.
        usual = np.minimum(rng.exponential(1000, len(ts)), 6000) * (rng.random(len(ts)) < 0.3)
        arrival = ts + delays(stream, ts, usual.astype(np.int64))
        made = pa.table({"ts": ts, "arrival": arrival, "x": rng.integers(0, 10, len(ts))})
        tables[name] = made.sort_by("arrival")
    query = parse_query(QUERY, arrival="arrival").bind({n: t.schema for n, t in tables.items()})
    arrivals = arrivals_of(query, tables)
    settings = PolicySettings.of(query)
    truth = true_results(query, arrivals)
    return run_adaptive(query, arrivals, make_policy("slack", settings), settings, truth=truth)


def changed(ts: NDArray[np.int64]) -> NDArray[np.bool_]:
    return (ts >= CHANGE) & (ts < BACK)


def tenfold_up(_: int, ts: NDArray[np.int64], usual: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where(changed(ts), 10 * usual, usual)


def tenfold_down(_: int, ts: NDArray[np.int64], usual: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where(changed(ts), usual // 10, usual)


def one_falls_back(
    stream: int, ts: NDArray[np.int64], usual: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Half of one stream's tuples come 10 s late: their source is far away for a while."""
    behind = changed(ts) & (stream == 1) & (ts // STEP % 2 == 0)
    return np.where(behind, usual + 10_000, usual)


def mean_k(record: RunRecord, begin: int, end: int) -> float:
    chosen = (record.clock >= begin) & (record.clock < end)
    return float(record.k[chosen].mean())


def holds(record: RunRecord, begin: int, end: int) -> bool:
    """Whether every measurement reaches the target while the join is between two times."""
    chosen = record.counts & (record.join_time >= begin) & (record.join_time < end)
    return bool((record.recall[chosen] >= 0.95).all())


@pytest.fixture(scope="module")
def up() -> RunRecord:
    return run(tenfold_up)


@pytest.fixture(scope="module")
def down() -> RunRecord:
    return run(tenfold_down)


@pytest.fixture(scope="module")
def fallen_back() -> RunRecord:
    return run(one_falls_back)


def test_before_any_change_the_target_is_kept(up: RunRecord) -> None:
    assert holds(up, MINUTE, CHANGE)
    assert mean_k(up, MINUTE, CHANGE) < 3000


@pytest.mark.parametrize("name", ["up", "fallen_back"])
def test_after_a_rise_recall_is_back_once_what_was_lost_has_left_the_period(
    name: str, request: pytest.FixtureRequest
) -> None:
    record: RunRecord = request.getfixturevalue(name)
    # K has caught up when it first reaches what it is in the end; until then results are lost.
    level = mean_k(record, BACK - MINUTE, BACK)
    after = (record.clock > CHANGE) & (record.k >= 0.9 * level)
    caught_up = int(record.join_time[after][0])
    assert holds(record, caught_up + MINUTE + 10_000, BACK - 30_000)


@pytest.mark.parametrize(("name", "seconds"), [("up", 75), ("fallen_back", 45)])
def test_k_follows_a_rise_as_soon_as_late_tuples_show_it(
    name: str, seconds: int, request: pytest.FixtureRequest
) -> None:
    record: RunRecord = request.getfixturevalue(name)
    level = mean_k(record, BACK - MINUTE, BACK)
    assert level > 2 * mean_k(record, MINUTE, CHANGE)
    begin = CHANGE + 1000 * seconds
    assert mean_k(record, begin, begin + 10_000) > 0.8 * level


@pytest.mark.parametrize("name", ["up", "fallen_back"])
def test_k_is_down_again_two_periods_after_the_end(
    name: str, request: pytest.FixtureRequest
) -> None:
    record: RunRecord = request.getfixturevalue(name)
    before = mean_k(record, CHANGE - MINUTE, CHANGE)
    assert mean_k(record, BACK + 2 * MINUTE, END) < 1.3 * before
    assert holds(record, BACK + 2 * MINUTE, END)


def test_k_comes_down_within_two_periods_of_a_fall(down: RunRecord) -> None:
    before = mean_k(down, CHANGE - MINUTE, CHANGE)
    assert mean_k(down, CHANGE + 2 * MINUTE, BACK) < 0.2 * before
    assert holds(down, MINUTE, BACK)


def test_what_was_usual_is_found_again_after_a_calm_time(down: RunRecord) -> None:
    before = mean_k(down, CHANGE - MINUTE, CHANGE)
    assert mean_k(down, BACK + MINUTE, END) > 0.7 * before
    assert holds(down, BACK + 2 * MINUTE, END)


def test_with_everything_in_order_k_is_0() -> None:
    record = run(lambda *given: 0 * given[-1])
    # It begins with a careful wait, until a stretch of ten seconds is known.
    assert record.k[record.clock >= MINUTE // 2].max() == 0
    assert record.mean_recall == 1


def test_a_stream_that_falls_silent_stops_nothing_for_good() -> None:
    def silent(stream: int, ts: NDArray[np.int64], usual: NDArray[np.int64]) -> NDArray[np.int64]:
        # Everything of one stream's minute comes at its end.
        caught = (ts >= CHANGE) & (ts < CHANGE + MINUTE) & (stream == 1)
        return np.where(caught, CHANGE + MINUTE - ts + usual, usual)

    record = run(silent)
    assert holds(record, MINUTE, CHANGE)
    later = record.recall[record.join_time >= CHANGE + 4 * MINUTE]
    assert fulfilment(later, 0.95) >= 0.95
    before = mean_k(record, CHANGE - MINUTE, CHANGE)
    assert mean_k(record, CHANGE + 3 * MINUTE, END) < 1.3 * before


def test_bursts_that_come_back_are_waited_for_in_the_calm_between_them() -> None:
    # Twenty seconds in two minutes, in which tuples are late by up to twenty-five.
    def bursts(_: int, ts: NDArray[np.int64], usual: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.where(ts % (2 * MINUTE) < MINUTE // 3, ts * 7919 % 25_000, usual // 100)

    record = run(bursts)
    # A burst was there, and has come back twice.
    assert holds(record, 5 * MINUTE, END)
    assert mean_k(record, 5 * MINUTE, END) < 25_000
