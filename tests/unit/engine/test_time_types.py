"""Times of any type in any stream: the same data give the same results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import recalljoin as rj
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.state import restore, snapshot
from recalljoin.errors import InvalidSetting
from recalljoin.query.text import parse_query

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recalljoin.query.durations import TimeUnit

UNITS: dict[TimeUnit, int] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
QUERY = "SELECT a.n AS x, b.n AS y FROM a [20 SEC], b [30 SEC] WHERE a.k = b.k"
START = 1_700_000_000


def seconds(seed: int, n: int = 200) -> NDArray[np.int64]:
    """Event times, some of them late, in seconds."""
    random = np.random.default_rng(seed)
    times: NDArray[np.int64] = np.arange(n) * 2 - random.choice([0, 0, 0, 25], n)
    return times


def table(seed: int, kind: pa.DataType, per_second: int, start: int = START) -> pa.Table:
    ts = (start + seconds(seed)) * per_second
    keys = np.random.default_rng(seed + 10).integers(0, 4, len(ts))
    return pa.table({"ts": pa.array(ts).cast(kind), "k": keys, "n": np.arange(len(ts))})


def pairs(joined: rj.Replayed) -> list[tuple[int, int]]:
    return sorted((row["x"], row["y"]) for row in joined.table().to_pylist())


@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
@pytest.mark.parametrize("time_unit", UNITS)
@pytest.mark.parametrize("stamp_unit", UNITS)
def test_a_timestamp_meets_an_integer(
    stamp_unit: TimeUnit, time_unit: TimeUnit, zone: str | None
) -> None:
    expected = rj.replay(
        QUERY, {"a": table(1, pa.int64(), 1000), "b": table(2, pa.int64(), 1000)}, k="10 seconds"
    )
    stamps = table(1, pa.timestamp(stamp_unit, zone), UNITS[stamp_unit])
    counts = table(2, pa.int64(), UNITS[time_unit])
    found = rj.replay(QUERY, {"a": stamps, "b": counts}, k="10 seconds", time_unit=time_unit)
    assert pairs(found) == pairs(expected)
    assert (found.produced, found.lost) == (expected.produced, expected.lost)
    assert expected.produced > 500
    assert expected.lost > 50
    other_way = "SELECT a.n AS x, b.n AS y FROM b [30 SEC], a [20 SEC] WHERE a.k = b.k"
    turned = rj.replay(other_way, {"a": stamps, "b": counts}, k="1 min", time_unit=time_unit)
    assert turned.table().num_rows == expected.produced + expected.lost


@pytest.mark.parametrize("kind", [pa.int32(), pa.uint32(), pa.uint64(), pa.int64()])
def test_small_and_unsigned_integers_meet_timestamps_too(kind: pa.DataType) -> None:
    stamps = table(1, pa.timestamp("us", "UTC"), 10**6)
    counts = table(2, kind, 1)
    found = rj.replay(QUERY, {"a": stamps, "b": counts}, k="1 min", time_unit="s")
    same = table(2, pa.timestamp("us", "UTC"), 10**6)
    assert pairs(found) == pairs(rj.replay(QUERY, {"a": stamps, "b": same}, k="1 min"))


def test_the_time_of_a_result_is_a_timestamp_if_any_time_is() -> None:
    stamps = table(1, pa.timestamp("s", "UTC"), 1)
    counts = table(2, pa.int64(), 1000)
    times = rj.replay(QUERY, {"a": stamps, "b": counts}, k="1 min").table()["result_time"]
    assert times.type == pa.timestamp("ms", "UTC")
    both = rj.replay(QUERY, {"a": table(1, pa.int64(), 1000), "b": counts}, k="1 min").table()
    assert times.cast(pa.int64()).to_pylist() == both["result_time"].to_pylist()


def test_an_integer_too_large_for_the_query_is_refused() -> None:
    stamps = table(1, pa.timestamp("ns"), 10**9)
    counts = pa.table({"ts": [2**60, START, -(2**63), 2**63 - 1], "k": [1] * 4, "n": [0] * 4})
    found = rj.replay(QUERY, {"a": stamps, "b": counts}, time_unit="s")
    assert found.refused["b", "time out of range"].num_rows == 3


def test_advice_is_the_same_for_a_mixture() -> None:
    one = {"a": table(1, pa.int64(), 1000), "b": table(2, pa.int64(), 1000)}
    mixed = {"a": table(1, pa.timestamp("us"), 10**6), "b": table(2, pa.int64(), 1)}
    expected, found = rj.advise(QUERY, one), rj.advise(QUERY, mixed, time_unit="s")
    assert found.n_results == expected.n_results
    # Bins of slack are as wide as a unit of time, or 0.8 % of the slack.
    assert found.k_ms == pytest.approx(expected.k_ms, rel=0.008)
    assert found.watermark_ms == pytest.approx(expected.watermark_ms, rel=0.008)


@pytest.mark.parametrize("stamp", [pa.timestamp("us"), pa.timestamp("s"), None])
def test_integer_arrivals_count_in_the_time_unit_beside_any_time(stamp: pa.DataType | None) -> None:
    def arriving(seed: int, kind: pa.DataType, per_second: int, unit: int) -> pa.Table:
        made = table(seed, kind, per_second)
        return made.append_column("at", pa.array((START + np.arange(len(made)) * 2) * unit))

    per_second = 1 if stamp is None else UNITS[stamp.unit]
    kind = stamp or pa.int64()
    expected = {s: arriving(n, pa.int64(), 1000, 1000) for n, s in ((1, "a"), (2, "b"))}
    mixed = {
        "a": arriving(1, kind, per_second, 1),
        "b": arriving(2, pa.int64(), 1, 1),
    }
    mixed["a"] = mixed["a"].set_column(
        3, "at", mixed["a"]["at"].cast(pa.timestamp("s")).cast(pa.timestamp("us"))
    )
    how: dict[str, Any] = {"arrival": "at", "tick": "7 seconds", "k": "5 seconds"}
    one = rj.replay(QUERY, expected, **how)
    other = rj.replay(QUERY, mixed, **how, time_unit="s")
    assert pairs(other) == pairs(one)
    assert (other.lost, other.late) == (one.lost, one.late)
    assert one.lost


def test_a_state_of_integers_in_another_unit_is_refused() -> None:
    schemas = {"a": pa.schema({"ts": pa.timestamp("us"), "k": pa.int64(), "n": pa.int64()}),
               "b": pa.schema({"ts": pa.int64(), "k": pa.int64(), "n": pa.int64()})}  # fmt: skip
    query = parse_query(QUERY)
    kept = snapshot(Pipeline(query.bind(schemas, time_unit="s"), EngineSettings()))
    restore(query.bind(schemas, time_unit="s"), kept, EngineSettings())
    with pytest.raises(InvalidSetting):
        restore(query.bind(schemas, time_unit="ms"), kept, EngineSettings())
