"""The lead: how far the join may be ahead of the slowest source."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import recalljoin as rj
from recalljoin.engine.arrivals import arrivals_of
from recalljoin.engine.times import FOREVER
from recalljoin.errors import InvalidSetting
from recalljoin.quality.adaptive import run_adaptive
from recalljoin.quality.leads import Leads
from recalljoin.quality.policies import make_policy
from recalljoin.quality.profile import Profile
from recalljoin.quality.settings import PolicySettings
from recalljoin.quality.source_lags import ROW, bins_of, lengths_of
from recalljoin.quality.tally import Tally
from recalljoin.query.text import parse_query

MINUTE = 60_000
QUERY = "SELECT count(*) FROM s1 [500 ms{0}], s2 [500 ms{0}] WHERE s1.x = s2.x"


def streams(*, minutes: int = 8, silences: bool = True) -> dict[str, pa.Table]:
    """Four devices a stream; every ten seconds or so one of them is silent for up to four."""
    random = np.random.default_rng(5)
    tables = {}
    for name in ("s1", "s2"):
        ts = np.arange(0, minutes * MINUTE, 50)
        device = np.arange(len(ts)) % 4
        arrival = ts + random.integers(0, 30, len(ts))
        for begin in range(5_000, minutes * MINUTE, 10_000) if silences else ():
            end = begin + random.integers(1_000, 4_000)
            held = (device == random.integers(0, 4)) & (ts >= begin) & (ts < end)
            arrival[held] = end + (ts[held] - begin) // 50
        columns = {"ts": ts, "arrival": arrival, "device": device, "x": ts // 50 % 3}
        tables[name] = pa.table(columns).sort_by("arrival")
    return tables


def run(recall: float, *, source: bool, tables: dict[str, pa.Table], **target: Any) -> Any:
    """A run in ticks of 100 ms."""
    text = QUERY.format(" SOURCE device" if source else "")
    stated = parse_query(f"{text} WITH RECALL {recall} OVER 1 MINUTE", arrival="arrival")
    bound = stated.bind({name: table.schema for name, table in tables.items()})
    settings = PolicySettings(windows=(500, 500), recall=recall, **target)
    policy = make_policy("slack", settings)
    return run_adaptive(
        bound, arrivals_of(bound, tables), policy, settings, arrival="tick", tick=100
    )


def test_at_a_high_recall_waiting_for_sources_waits_less() -> None:
    tables = streams()
    plain, sourced = (run(0.99, source=source, tables=tables) for source in (False, True))
    late = plain.join_time > 4 * MINUTE
    assert np.nanmean(sourced.wait[late]) < np.nanmean(plain.wait[late]) / 2
    assert (sourced.recall[late] >= 0.99).mean() >= (plain.recall[late] >= 0.99).mean()
    assert (sourced.lead < FOREVER).any()


def test_where_nothing_is_late_no_source_is_waited_for() -> None:
    tables = streams(minutes=4, silences=False)
    plain, sourced = (run(0.9, source=source, tables=tables) for source in (False, True))
    assert (sourced.lead == FOREVER).all()
    assert sourced.k.tolist() == plain.k.tolist()
    assert sourced.recall.tolist() == pytest.approx(plain.recall.tolist(), nan_ok=True)


def test_the_longest_wait_holds_for_sources() -> None:
    record = run(0.99, source=True, tables=streams(), max_wait=700)
    schedule = record.schedule.expanded()
    assert (record.lead < FOREVER).any()
    assert schedule.max() <= 700


def test_a_replay_with_sources_produces_what_the_policy_was_measured_by() -> None:
    text = QUERY.format(" SOURCE device").replace("count(*)", "*")
    replayed = rj.replay(text, streams(minutes=3), recall=0.99, tick="100 ms")
    assert replayed.adaptation is not None
    assert replayed.produced == replayed.adaptation.n_produced
    with pytest.raises(InvalidSetting, match="give the length of a `tick`"):
        rj.replay(text, streams(minutes=1), recall=0.99)


def profile(lag: int, own: int, n_late: int) -> Profile:
    """An interval of ten thousand tuples, some of them late while a source is behind."""
    of_source, of_tuple = bins_of(np.array([lag, own]))
    usual = bins_of(np.array([50]))
    return replace(
        Profile.empty(2, granularity=10),
        delays=np.array([[5000], [5000]]),
        lags=Tally.of(np.array([ROW * of_source + of_tuple]), np.array([n_late])),
        gaps=Tally.of(np.append(usual, of_source), np.array([95, 5])),
    )


def chosen(leads: Leads, needs: int, interval: Profile, n: int = 12) -> int:
    """Show some stretches, and choose."""
    for clock in range(n):
        leads.observe(replace(interval, ends=np.array([clock, clock]) * leads.width))
    return leads.choose(np.full(60, needs))


def test_at_a_high_recall_the_smallest_lead_with_nearly_the_shortest_wait_is_taken() -> None:
    settings = PolicySettings(windows=(500, 500), recall=0.99)
    leads = Leads(settings)
    # The source is 3 s behind in a twentieth of the time: to stand still costs 150 ms on average.
    assert 40 <= chosen(leads, 0, profile(3000, 2900, 200)) <= 60
    again = Leads(settings)
    again.restore(json.loads(json.dumps(leads.snapshot())))
    assert again.snapshot() == leads.snapshot()
    # What a release has learnt that did not know of sources that run apart.
    learnt = {name: value for name, value in leads.snapshot().items() if "apart" not in name}
    Leads(settings).restore(json.loads(json.dumps(learnt)))
    assert chosen(again, 0, profile(3000, 2900, 200)) == chosen(leads, 0, profile(3000, 2900, 200))


def test_at_a_high_recall_a_silence_without_late_tuples_is_not_waited_for() -> None:
    leads = Leads(PolicySettings(windows=(500, 500), recall=0.99))
    assert chosen(leads, 0, profile(30_000, 0, 1)) > 3000


def test_below_a_high_recall_sources_are_waited_for_where_that_helps_much() -> None:
    settings = PolicySettings(windows=(500, 500), recall=0.95)
    assert chosen(Leads(settings), 2900, profile(3000, 2900, 600)) < 100
    # Results need little: what the model makes of late tuples does not matter.
    assert chosen(Leads(settings), 20, profile(3000, 2900, 600)) == FOREVER
    assert chosen(Leads(settings), 2900, profile(3000, 2900, 200)) == FOREVER


def test_bins_hold_lengths_from_below() -> None:
    lengths = np.array([0, 1, 7, 100, 12_345, 10**12])
    assert (lengths_of(bins_of(lengths)) >= lengths).all()
    assert (lengths_of(bins_of(lengths)) <= 1.1 * lengths + 1).all()


def test_what_is_lost_with_all_slacks_is_what_single_tuples_lose() -> None:
    random = np.random.default_rng(3)
    leads = Leads(PolicySettings(windows=(400, 500, 600), recall=0.99))
    late = random.uniform(-2000, 3000, 50)
    late[:5] = 100.0
    periods = random.integers(0, 9, (4, 50)).astype(np.float64)
    slacks = np.array([0.0, 1.0, 100.0, 500.0, 2000.0, 5000.0])
    later = late[:, np.newaxis] - slacks
    each = np.where(later >= 0, 1 + 2 * np.clip(later / 500, 0, 1), 0.0)
    np.testing.assert_allclose(leads._lost(late, periods.T, slacks), (periods @ each).T, atol=1e-9)


def test_sources_that_leap_apart_are_waited_for_at_once() -> None:
    tables = {}
    for name, table in streams(minutes=8, silences=False).items():
        columns = {each: table[each].to_numpy() for each in table.column_names}
        at, stop, back = columns["arrival"].copy(), 3 * MINUTE, 6 * MINUTE
        backlog = (at >= stop) & (at < back)
        # Three minutes are read after a stop: by device n in n + 1 seconds.
        seconds = 1000 * (columns["device"] + 1)
        at = np.where(at < back, at, np.maximum(at, back + seconds))
        at[backlog] = back + (at - stop)[backlog] * seconds[backlog] // (back - stop)
        tables[name] = pa.table(columns | {"arrival": at}).sort_by("arrival")
    plain, sourced = (run(0.9, source=source, tables=tables) for source in (False, True))
    assert plain.n_produced < 0.85 * plain.n_true
    assert sourced.n_produced >= 0.95 * sourced.n_true
    text = QUERY.format(" SOURCE device").replace("count(*)", "*")
    replayed = rj.replay(text, tables, recall=0.9, tick="100 ms")
    assert replayed.adaptation is not None
    assert replayed.produced == replayed.adaptation.n_produced


def mixed(late: int) -> Profile:
    """An interval of ten thousand tuples: most in order, and a few late by 0.1, 1 and 10 s."""
    lags = bins_of(np.array([10, 100, 1000, 10_000]))
    tally = Tally.of(ROW * bins_of(np.array([50])) + lags, np.array([10_000, 8 * late, late, 1]))
    return replace(profile(50, 10, 1), lags=tally, gaps=Tally.of(bins_of(np.array([50, 60]))))


def test_where_no_source_is_waited_for_few_periods_ask_for_more_than_the_worst_of_them() -> None:
    settings = PolicySettings(windows=(500, 500), recall=0.99)
    few, many = Leads(settings), Leads(settings)
    assert chosen(few, 0, mixed(40), n=15) == chosen(many, 0, mixed(40), n=125) == FOREVER
    worst = int(many.modelled()[1][-1].max())
    assert many.slack == worst
    assert worst == int(few.modelled()[1][-1].max())
    assert few.slack > 5 * worst
    # It is no more than the largest delay.
    assert few.slack < 11_000
    low = Leads(PolicySettings(windows=(500, 500), recall=0.95))
    chosen(low, 0, mixed(40))
    assert low.slack == 0


def test_slack_covers_the_worst_period_with_the_lead_in_force() -> None:
    leads = Leads(PolicySettings(windows=(500, 500), recall=0.99))
    # Tuples are late within their own device as well: 200 ms beyond the silence of a source.
    lead = chosen(leads, 0, profile(3000, 3200, 300))
    assert lead < 100
    assert 200 <= leads.slack <= 500
    again = Leads(PolicySettings(windows=(500, 500), recall=0.99))
    again.restore(json.loads(json.dumps(leads.snapshot())))
    assert again.slack == leads.slack


def test_the_first_stretch_of_a_join_is_left_out() -> None:
    settings = PolicySettings(windows=(500, 500), recall=0.99)
    late, calm = Leads(settings), Leads(settings)
    for leads, begin in ((late, profile(50, 8000, 500)), (calm, profile(50, 10, 1))):
        leads.observe(replace(begin, ends=np.array([0, 0])))
        for clock in range(1, 12):
            ends = np.array([clock, clock]) * leads.width
            leads.observe(replace(profile(50, 10, 1), ends=ends))
        leads.choose(np.zeros(60, dtype=np.int64))
    assert (late.slack, late.lead) == (calm.slack, calm.lead)


def test_without_leads_sources_are_waited_for_in_a_backlog_only() -> None:
    settings = PolicySettings(windows=(500, 500), recall=0.99, takes_leads=False)
    leads = Leads(settings)
    assert chosen(leads, 2900, profile(3000, 2900, 600)) == FOREVER
    assert leads.slack == 0
    far = replace(profile(200_000, 10, 1), ends=np.array([MINUTE, MINUTE]))
    leads.look(far, is_backlog=False)
    assert not leads.is_apart
    leads.look(far, is_backlog=True)
    assert leads.is_apart
    leads.look(far, is_backlog=False)
    assert leads.is_apart
    leads.look(replace(profile(100, 10, 1), ends=np.array([MINUTE, MINUTE])), is_backlog=False)
    assert not leads.is_apart
