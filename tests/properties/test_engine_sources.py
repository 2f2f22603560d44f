"""Joins that wait for sources: the engine against the reference, and what such a join promises."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from recalljoin.engine.times import FOREVER
from tests.effort import HALF, QUARTER
from tests.properties.engine_runs import Script, through_engine
from tests.properties.engine_scripts import scripts
from tests.properties.reference_runs import same_accounts

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

LEADS = st.sampled_from((0, 1, 3, 8, 30, FOREVER))


@st.composite
def sourced(draw: DrawFn, *, rewrites: bool = False, constant: bool = False) -> Script:
    """Draw a script in which every tuple has a source."""
    script = draw(scripts("tick", rewrites=rewrites, remembers=not constant, idles=not constant))
    n = draw(st.integers(1, 4))
    arrivals = [
        # A source belongs to one stream.
        replace(e, source=1 + e.stream + script.case.m * draw(st.integers(0, n - 1)))
        for e in script.case.arrivals
    ]
    leads = tuple(draw(LEADS) for _ in range(script.length))
    if constant:
        leads = leads[:1] * script.length
    return replace(
        script,
        case=replace(script.case, arrivals=tuple(arrivals)),
        k=script.k[:1] * script.length if constant else script.k,
        leads=leads,
        epoch=draw(st.sampled_from((1, 5, 20, 100))),
        spare=draw(st.sampled_from((0.0, 0.1, 0.4, 1.0))),
        max_wait=FOREVER if constant else draw(st.sampled_from((FOREVER, 40, 100))),
    )


@given(script=sourced())
def test_a_join_that_waits_for_sources_is_that_of_the_reference(script: Script) -> None:
    same_accounts(script)


@HALF
@given(script=sourced(rewrites=True))
def test_sources_are_written_and_read_back_between_any_two_ticks(script: Script) -> None:
    same_accounts(script)


@HALF
@given(script=sourced(constant=True))
def test_a_result_is_produced_iff_the_slack_is_larger_than_it_requires(script: Script) -> None:
    script = replace(script, settings=replace(script.settings, slack=True, retention=2**61))
    told = same_accounts(script)
    k = script.k[0] if script.k else 0
    for (fate, at), _ in told.slack.items():
        # Below 256 a bin holds one slack, which is its number less one; the first is negative.
        if at <= 256:
            assert (fate == "produced") == (k > at - 1)


@QUARTER
@given(script=sourced())
def test_an_endless_lead_is_a_join_without_sources(script: Script) -> None:
    endless = replace(script, leads=(FOREVER,) * script.length, max_wait=FOREVER)
    one, other = through_engine(endless), through_engine(replace(endless, leads=()))
    assert (one.events, one.clocks, one.slack) == (other.events, other.clocks, other.slack)


@QUARTER
@given(script=sourced())
def test_a_source_never_holds_the_join_up_for_longer_than_the_longest_wait(script: Script) -> None:
    script = replace(script, max_wait=40, k=tuple(min(k, 40) for k in script.k))
    told, free = through_engine(script), through_engine(replace(script, leads=()))
    for held, other in zip(told.clocks[:-1], free.clocks[:-1], strict=True):
        # Without sources the base time is the clock of the slowest stream.
        assert held.join_time >= other.base_time - 40
        assert held.base_time <= other.base_time


@QUARTER
@given(script=sourced())
def test_waiting_for_sources_loses_nothing_more(script: Script) -> None:
    script = replace(
        script,
        max_wait=FOREVER,
        k=script.k[:1] * script.length,
        settings=replace(script.settings, retention=2**61),
    )
    told, free = through_engine(script), through_engine(replace(script, leads=()))
    assert told.n_produced >= free.n_produced
    assert not told.lost - free.lost
    if script.settings.rows:
        assert not Counter(free.results) - Counter(told.results)
