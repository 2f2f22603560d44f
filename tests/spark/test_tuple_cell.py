"""Tuples that arrive one by one: one cell, and K that changes inside a batch."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from recalljoin.engine.arrivals import arrivals_of
from recalljoin.engine.settings import EngineSettings
from recalljoin.quality.adaptation import PolicyPlan
from recalljoin.quality.adaptive import run_adaptive
from recalljoin.quality.policies import make_policy
from recalljoin.quality.settings import PolicySettings
from recalljoin.query.model import Query, Stream
from recalljoin.spark import tuple_cell
from recalljoin.spark.packing import Control
from tests.spark.local_cells import LocalJoin

if TYPE_CHECKING:
    from pathlib import Path

    from recalljoin.query.bound_query import BoundQuery
    from recalljoin.spark.report import Report

SCHEMA = pa.schema({"ts": pa.int64(), "a": pa.int64(), "at": pa.int64()})
TARGET = PolicySettings(windows=(60, 60), recall=0.9, period=800, interval=100, granularity=10)
N = 1500


def bound() -> BoundQuery:
    streams = [Stream(name, window=60, arrival="at") for name in ("s1", "s2")]
    return Query(streams=streams, condition="s1.a = s2.a").bind({"s1": SCHEMA, "s2": SCHEMA})


def recording() -> list[pa.Table]:
    tables = []
    for s in range(2):
        random = np.random.default_rng(s)
        at = np.sort(random.integers(0, 3000, N))
        ts = at - random.choice([0, 0, 0, 20, 90], N)
        keys = random.integers(0, 5, N)
        tables.append(pa.table({"ts": ts, "a": keys, "at": at}, schema=SCHEMA))
    return tables


def run(
    folder: Path, policy: str, cuts: list[int], *, forget: bool = False
) -> tuple[list[tuple[int, int, int]], list[Report]]:
    """Results and reports of the recording, cut into batches at some arrivals."""
    settings = EngineSettings(arrival="tuple", slack=True, retention=800)
    join = LocalJoin(bound(), 1, folder, settings=settings, policy=PolicyPlan(TARGET, policy))
    results, reports = [], []
    edges = [-1, *cuts, 10_000]
    parts: list[list[pa.Table]] = [
        [t.filter(pa.array((t["at"].to_numpy() >= a) & (t["at"].to_numpy() < b)))
         for t in recording()]
        for a, b in pairwise(edges)
    ]  # fmt: skip
    for n, tables in enumerate([*parts, []]):
        control = Control(k=0, clock=n, flush=not tables)
        found, report = join.batch(tables, control=control, forget=forget)
        for batch in found:
            rows = batch.to_pylist()
            results += [(r["s1"]["at"], r["s2"]["at"], r["result_time"]) for r in rows]
        reports.append(report)
    return results, reports


@pytest.mark.parametrize("policy", ["slack", "max", "none"])
def test_k_and_results_are_those_of_one_instance_that_saw_everything(
    tmp_path: Path, policy: str
) -> None:
    query = bound()
    arrivals = arrivals_of(query, dict(zip(("s1", "s2"), recording(), strict=True)))
    record = run_adaptive(query, arrivals, make_policy(policy, TARGET), TARGET)
    results, reports = run(tmp_path, policy, [1000, 1450])
    assert len(results) == record.n_produced == sum(r.profile.n_produced for r in reports)
    assert sum(r.profile.n_lost for r in reports) == record.n_lost
    assert sum(r.profile.n_late for r in reports) == record.n_late
    adapted = [at for report in reports for at, _ in report.adaptations]
    assert adapted == record.clock.tolist()
    # K is noted after each adaptation here, before the next one there.
    chosen = [k for report in reports for _, k in report.adaptations]
    if policy != "max":
        assert chosen[:-1] == record.k.tolist()[1:]
    assert max(len(report.adaptations) for report in reports) > 3


@pytest.mark.parametrize("smallest", [0, 1 << 20])
@pytest.mark.parametrize("cuts", [[], [700], [300, 301, 900, 905, 2000]])
def test_where_batches_are_cut_and_memory_is_lost_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cuts: list[int], smallest: int
) -> None:
    # With the smaller one a new snapshot is written often; with the larger one never.
    monkeypatch.setattr(tuple_cell, "SMALLEST_SNAPSHOT", smallest)
    expected, whole = run(tmp_path / "whole", "slack", [])
    found, reports = run(tmp_path / "cut", "slack", cuts, forget=True)
    assert found == expected
    assert [a for r in reports for a in r.adaptations] == [a for r in whole for a in r.adaptations]
    assert [r.n_restored for r in reports] == [0] + [1] * len(reports[1:])


def test_state_grows_with_the_windows_and_not_with_the_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuple_cell, "SMALLEST_SNAPSHOT", 1000)
    settings = EngineSettings(arrival="tuple", slack=True)
    policy = PolicyPlan(TARGET, "fixed", {"k": 20})
    join = LocalJoin(bound(), 1, tmp_path, settings=settings, policy=policy)
    sizes: list[int] = []
    for n in range(300):
        at = np.arange(50) + 50 * n
        table = pa.table({"ts": at, "a": at % 5, "at": at}, schema=SCHEMA)
        join.batch([table, table], control=Control(k=0, clock=n))
        sizes.append(sum(map(len, join.stores[0].chunks.values())))
    assert max(sizes[150:]) <= 1.2 * max(sizes[:150])


def settings_of(**more: Any) -> Any:
    from recalljoin.spark.options import RunSettings

    return RunSettings(**more)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"arrival": "batch"}, "`arrival` must be 'tick' or 'tuple', got 'batch'"),
        ({"arrival": "tuple", "cells": 2}, "`cells` must be 1 with arrival='tuple', got 2"),
        ({"arrival": "tuple", "idle_after": "1 s"}, "`idle_after` is there with arrival='tick'"),
    ],
)
def test_what_does_not_go_with_single_tuples_is_refused(
    given: dict[str, Any], message: str
) -> None:
    from recalljoin.errors import InvalidSetting
    from recalljoin.spark.planning import _arrives_by_tuple

    with pytest.raises(InvalidSetting, match=message):
        _arrives_by_tuple(settings_of(**given))
