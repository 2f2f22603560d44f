"""Advice on how long to wait, against counting by hand and by brute force."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import recalljoin as rj
from recalljoin.errors import InvalidSetting, InvalidTarget
from recalljoin.quality.advice import RECALLS, RecallCurve

QUERY = "SELECT * FROM a [1 SEC], b [1 SEC] WHERE a.x = b.x"


def tables(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> dict[str, pa.Table]:
    """Streams of (ts, arrival), all with the same key."""
    return {
        name: pa.table(
            {"ts": [t for t, _ in rows], "arrival": [at for _, at in rows], "x": [1] * len(rows)}
        )
        for name, rows in {"a": a, "b": b}.items()
    }


def disordered(n: int = 600) -> dict[str, pa.Table]:
    """Two streams with keys, a third of the tuples up to 2 s late."""
    rng = np.random.default_rng(11)
    made = {}
    for name in "ab":
        ts = np.arange(n, dtype=np.int64) * 50
        delay = np.where(rng.random(n) < 0.3, rng.integers(0, 2000, n), 0)
        columns = {"ts": ts, "arrival": ts + delay, "x": rng.integers(0, 4, n)}
        made[name] = pa.table(columns).sort_by("arrival")
    return made


def test_by_hand_a_late_tuple_costs_spark_more_than_recalljoin() -> None:
    # b's second tuple comes when both streams are at 1000, 300 behind. Its results: with a's at
    # 0, of time 700; with a's at 1000, of time 1000, for which it comes in time if K > 0.
    sample = tables([(0, 0), (1000, 1)], [(0, 0), (1000, 2), (700, 3)])
    advice = rj.advise(QUERY, sample, recall=0.99, arrival="arrival")
    assert advice.n_results == 6
    assert advice.n_tuples == 5
    assert advice.largest_delay_ms == 300
    assert advice.slack.recall[0] == pytest.approx(4 / 6)
    assert advice.slack.needed(0.7) == 1
    # Slacks of 300 and 301 share a bin.
    assert advice.k_ms == 302
    # Spark drops the row unless the delay is larger than 300.
    assert advice.watermark.needed(0.7) == 302
    assert advice.watermark_ms == 302


def test_k_is_what_a_run_needs_for_the_recall() -> None:
    sample = disordered()
    advice = rj.advise(QUERY, sample, recall=0.9, arrival="arrival")

    def recall(k: float) -> float:
        run = rj.replay(QUERY, sample, k=int(k), arrival="arrival", tick=1, retention="1 minute")
        run.table()
        return run.recall

    assert recall(advice.k_ms) == pytest.approx(0.9, abs=0.02)
    for wanted in (0, 100, 500, 1500):
        k, expected = next(
            (k, share)
            for k, share in zip(advice.slack.delay_ms, advice.slack.recall, strict=True)
            if k >= wanted
        )
        assert recall(k) == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize("recall", [0.8, 0.95])
def test_the_watermark_delay_is_the_smallest_that_keeps_enough_rows(recall: float) -> None:
    sample = disordered()
    advice = rj.advise(QUERY, sample, recall=recall, arrival="arrival")
    assert _spark_recall(sample, advice.watermark_ms) >= recall
    assert _spark_recall(sample, 0.99 * advice.watermark_ms - 1) < recall
    for delay, reached in zip(advice.watermark.delay_ms, advice.watermark.recall, strict=True):
        assert reached == pytest.approx(_spark_recall(sample, delay))


def _spark_recall(sample: dict[str, pa.Table], delay: float) -> float:
    """What Spark does, row by row: drop what is not newer than the watermark, join the rest."""
    rows = sorted(
        (at, stream, ts, x)
        for stream, table in sample.items()
        for ts, at, x in zip(*(table[c].to_pylist() for c in ("ts", "arrival", "x")), strict=True)
    )
    newest: dict[str, int] = {}
    kept = []
    for _, stream, ts, x in rows:
        watermark = min(newest.values()) - delay if len(newest) == 2 else None
        if watermark is None or ts > watermark:
            kept.append((stream, ts, x))
        newest[stream] = max(newest.get(stream, ts), ts)

    def pairs(tuples: list[tuple[str, int, int]]) -> int:
        ones = [(ts, x) for stream, ts, x in tuples if stream == "a"]
        others = [(ts, x) for stream, ts, x in tuples if stream == "b"]
        return sum(abs(t - u) <= 1000 and x == y for t, x in ones for u, y in others)

    return pairs(kept) / pairs([(stream, ts, x) for _, stream, ts, x in rows])


def test_the_usual_recalls_are_all_answered() -> None:
    advice = rj.advise(QUERY, disordered(), arrival="arrival")
    assert advice.recall == 0.95
    delays = [advice.watermark.needed(recall) for recall in RECALLS]
    assert None not in delays
    assert delays == sorted(delays, key=lambda d: d or 0.0)


def test_in_order_streams_need_no_wait() -> None:
    rows = [(100 * i, 100 * i) for i in range(50)]
    advice = rj.advise(QUERY, tables(rows, rows), arrival="arrival")
    assert (advice.k_ms, advice.watermark_ms, advice.largest_delay_ms) == (0, 0, 0)


def test_a_sample_without_results_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="the sample holds no result, so nothing can be said"):
        rj.advise(QUERY, tables([(0, 0)], [(9000, 1)]), arrival="arrival")


def test_a_recall_of_95_is_refused() -> None:
    with pytest.raises(InvalidTarget, match=r"write 0.95 for 95 %"):
        rj.advise(QUERY, disordered(), recall=95, arrival="arrival")


def test_a_curve_that_never_gets_there_says_so() -> None:
    assert RecallCurve((0.0, 10.0), (0.5, 0.9)).needed(0.95) is None


def test_advice_can_be_written_as_json() -> None:
    content = json.loads(json.dumps(rj.advise(QUERY, disordered(), arrival="arrival").to_json()))
    assert content["recall"] == 0.95
    assert len(content["slack"]["delay_ms"]) == len(content["slack"]["recall"])


def test_a_file_is_refused_with_what_takes_it() -> None:
    inputs: Any = {"a": "a.parquet", "b": "b.parquet"}
    with pytest.raises(InvalidSetting) as caught:
        rj.advise("SELECT * FROM a [5 SEC], b [5 SEC]", inputs)
    assert str(caught.value) == (
        "the data of stream `a` must be an Arrow table, got str; recalljoin.sample records "
        "DataFrames, `recalljoin advise` takes files"
    )
