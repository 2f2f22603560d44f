"""What is kept of a run."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from recalljoin.engine.times import FOREVER
from recalljoin.quality.latency import Latency
from recalljoin.quality.recall import Timeline
from recalljoin.quality.record import Reported, RunRecord, Schedule

if TYPE_CHECKING:
    from recalljoin.query.durations import TimeUnit

RECORD = RunRecord(
    policy="slack",
    target=0.9,
    period=1000,
    unit="ms",
    clock=np.array([1000, 2000, 3000, 4000]),
    join_time=np.array([0, 1900, 2900, 3900]),
    k=np.array([0, 10, 20, 30]),
    recall=np.array([np.nan, 0.9, 0.895, 0.8]),
    reported=Reported(
        recall=np.array([np.nan, 0.9, np.nan, 0.75]),
        at_least=np.array([np.nan, 0.5, 0.0, 0.7]),
        at_most=np.array([np.nan, 1.0, np.nan, 0.9]),
    ),
    waits=np.array([[0.0, 0], [10.0, 1], [60.0, 2], [100.0, 4], [30.0, 1]]),
    lead=np.array([FOREVER, FOREVER, 50, 50]),
    horizon=np.array([1000, 1000, 2000, 2000]),
    estimated_recall=(None, 0.8, None, 0.7),
    counts=np.array([False, True, True, True]),
    schedule=Schedule.of([np.array([0, 10]), np.array([20, 30, 30])]),
    produced=Timeline.of(np.array([1000, 1900, 2500, 3900]), np.array([40, 5, 35, 10])),
    n_seen=np.array([0, 2, 3, 4]),
    n_true=100,
    n_lost=9,
    n_late=5,
    n_beyond=1,
    refused={"null time": 2, "time out of range": 1},
    n_tuples=1234,
    latency=Latency(1.5, 1.0, 2.0, 3.0),
    adaptation_seconds=np.array([0.001, 0.003]),
    seconds=2.5,
)


def test_means_and_fulfilment_are_over_measurements_that_count() -> None:
    assert RECORD.mean_k == 15  # of all adaptation points
    assert RECORD.mean_recall == pytest.approx((0.9 + 0.895 + 0.8) / 3)
    assert RECORD.phi() == pytest.approx(1 / 3)
    assert RECORD.phi(0.99) == pytest.approx(2 / 3)  # 0.891


def test_a_record_survives_json_and_says_all_that_is_asked_of_it() -> None:
    content = json.loads(json.dumps(RECORD.to_json()))
    assert content["k_ms"] == [0, 10, 20, 30]
    assert content["recall"] == [0.9, 0.895, 0.8]
    assert content["estimated_recall"] == [0.8, None, 0.7]
    assert content["recall_reported"] == [0.9, None, 0.75]
    assert content["horizon_ms"] == [1000, 1000, 2000, 2000]
    assert content["latency_ms"] == {"mean": 1.5, "p50": 1.0, "p95": 2.0, "p99": 3.0}
    assert content["adaptation_ms"] == {"mean": pytest.approx(2.0), "max": pytest.approx(3.0)}
    expected = {"produced": 90, "true": 100, "lost": 9, "late": 5, "refused": 3, "tuples": 1234}
    assert {name: content[name] for name in expected} == expected
    assert {"avg_k_ms", "avg_recall", "phi", "phi99", "seconds"} <= set(content)


@pytest.mark.parametrize(("unit", "k"), [("s", 10_000), ("us", 0.01), ("ns", 0.00001)])
def test_durations_are_told_in_milliseconds(unit: TimeUnit, k: float) -> None:
    content = dataclasses.replace(RECORD, unit=unit).to_json()
    assert content["k_ms"][1] == pytest.approx(k)
    assert content["avg_k_ms"] == pytest.approx(1.5 * k)
    assert content["latency_ms"]["p50"] == pytest.approx(k / 10)


def test_a_run_can_be_scored_against_true_results_that_are_known_later() -> None:
    # Until 1900, 2900 and 3900: results of the last 1000, of them those produced by then.
    truth = Timeline.of(np.array([1000, 1900, 2500, 3800, 3900]), np.array([50, 5, 70, 10, 10]))
    record = RECORD.against(truth)
    assert np.isnan(record.recall[0])
    assert record.recall[1:].tolist() == [45 / 55, 35 / 70, 10 / 20]
    assert record.n_true == 145
    assert record.n_produced == RECORD.n_produced


def test_a_schedule_of_k_is_kept_as_its_changes() -> None:
    schedule = Schedule.of([np.array([5, 5]), np.array([5, 9, 9]), np.array([5])])
    assert schedule.at.tolist() == [0, 3, 5]
    assert schedule.expanded().tolist() == [5, 5, 5, 9, 9, 5]
    assert Schedule.of([]).expanded().tolist() == []


def test_a_run_too_short_for_any_measurement_has_a_record_too() -> None:
    none = np.empty(0, dtype=np.int64)
    record = dataclasses.replace(
        RECORD,
        clock=none,
        join_time=none,
        k=none,
        recall=none.astype(float),
        estimated_recall=(),
        counts=none.astype(bool),
        latency=None,
        adaptation_seconds=none.astype(float),
    )
    content = json.loads(json.dumps(record.to_json(), allow_nan=False))
    assert (content["avg_k_ms"], content["avg_recall"], content["phi"]) == (0, 1, 1)
    assert content["latency_ms"] is None


def test_the_wait_is_the_mean_over_steps_and_over_each_interval() -> None:
    content = RECORD.to_json()
    assert content["wait_ms"] == [None, 10.0, 30.0, 25.0]
    assert content["avg_wait_ms"] == 25.0
    assert content["lead_ms"] == [None, None, 50, 50]
