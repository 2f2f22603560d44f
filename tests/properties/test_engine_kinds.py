"""Eager, outer, semi and anti joins: the engine against the plain reference."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.state import snapshot
from recalljoin.errors import InvalidSetting
from recalljoin.query.kinds import EMITS, HOWS
from tests.effort import FEW, HALF
from tests.properties.engine_runs import Script
from tests.properties.engine_scripts import large_case, scripts
from tests.properties.kind_runs import KindAccount, KindEngineRun, through_reference
from tests.reference import conditions
from tests.strategies import cases

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypothesis.strategies import DrawFn

    from recalljoin.engine.step import Step
    from tests.reference.conditions import Condition


@st.composite
def kind_scripts(draw: DrawFn) -> Script:
    """Draw a join of two streams of any kind, or of more streams whose results leave at once."""
    how = draw(st.sampled_from(HOWS))
    source = cases() if how == "inner" else cases(max_m=2)
    script = draw(scripts("tick", rows=True, source=source, remembers=True))
    emit = "eager" if how == "inner" else draw(st.sampled_from(EMITS))
    return replace(script, how=how, emit=emit)


@st.composite
def pair_scripts(draw: DrawFn, kinds: Sequence[Callable[[int], Condition]]) -> Script:
    """Draw a join of two streams of any kind, over some of the conditions."""
    source = cases(max_m=2, kinds=kinds)
    script = draw(scripts("tick", rows=True, source=source, idles=False, remembers=True))
    how, emit = draw(st.sampled_from(HOWS)), draw(st.sampled_from(EMITS))
    return replace(script, how=how, emit=emit)


def same(script: Script) -> list[KindAccount]:
    engine, reference = KindEngineRun(script).accounts(), through_reference(script)
    for number, (one, other) in enumerate(zip(engine, reference, strict=True)):
        for name, value in vars(one).items():
            expected = +getattr(other, name)
            if name == "semi" and script.emit == "ordered":
                # A row that waits for the watermark is counted when it leaves.
                assert value <= expected
                continue
            assert value == expected, (number, name)
    return engine


@given(script=kind_scripts())
def test_rows_and_accounts_are_those_of_the_reference(script: Script) -> None:
    same(script)


@st.composite
def large_scripts(draw: DrawFn) -> Script:
    """Draw some hundred tuples, and how they are joined."""
    kinds = (conditions.single_class, conditions.band, conditions.null_keys)
    case = large_case(draw(st.sampled_from(kinds))(2), draw(st.integers(0, 2**32)), 250)
    length, size = case.arrivals[-1].tick + 1, draw(st.sampled_from((1, 7, 60)))
    retention = draw(st.sampled_from((None, 0, 200)))
    return Script(
        case,
        EngineSettings(arrival="tick", folded=True, slack=True, retention=retention),
        (draw(st.sampled_from((0, 4, 30))),) * length,
        cuts=tuple(range(size, length, size)),
        how=draw(st.sampled_from(HOWS)),
        emit=draw(st.sampled_from(EMITS)),
    )


@FEW
@given(script=large_scripts())
def test_hundreds_of_tuples_are_those_of_the_reference(script: Script) -> None:
    same(script)


SAME = ("stream", "ts", "row", "delay", "base", "now", "late", "n_join", "n_cross", "beyond")


@HALF
@given(script=scripts("tick", rows=True, remembers=True))
def test_whether_results_leave_at_once_or_in_order_every_count_is_the_same(script: Script) -> None:
    runs = [KindEngineRun(replace(script, emit=emit)) for emit in EMITS]
    rows = [sum((account.rows for account in run.accounts()), Counter()) for run in runs]
    assert rows[0] == rows[1]
    for one, other in zip(runs[0].steps, runs[1].steps, strict=True):
        _same_steps(one, other)


def _same_steps(one: Step, other: Step) -> None:
    for name in SAME:
        assert getattr(one, name).tolist() == getattr(other, name).tolist(), name
    lost = [
        Counter(dict(zip(*np.unique(step.lost_ts, return_counts=True), strict=True)))
        for step in (one, other)
    ]
    assert lost[0].keys() == lost[1].keys()
    assert one.n_lost == other.n_lost
    assert one.slack.tolist() == other.slack.tolist()
    assert (one.join_time, one.base_time) == (other.join_time, other.base_time)


@HALF
@given(script=kind_scripts())
def test_without_rows_the_same_is_counted(script: Script) -> None:
    whole = KindEngineRun(script)
    whole.accounts()
    counted = KindEngineRun(replace(script, settings=replace(script.settings, rows=False)))
    counted.accounts()
    for one, other in zip(whole.steps, counted.steps, strict=True):
        assert one.n_lost == other.n_lost
        assert one.slack.tolist() == other.slack.tolist()
        if script.how != "semi":
            assert one.n_produced == other.n_produced
    assert sum(s.n_produced for s in whole.steps) == sum(s.n_produced for s in counted.steps)


@pytest.mark.parametrize(("how", "emit"), [("left", "ordered"), ("inner", "eager")])
def test_tuples_that_arrive_one_by_one_are_refused_with_the_reason(how: str, emit: str) -> None:
    case = large_case(conditions.single_class(2), 1, 10)
    script = Script(case, EngineSettings(), (0,) * 10, how=how, emit=emit)  # type: ignore[arg-type]
    with pytest.raises(InvalidSetting, match="needs arrival in ticks"):
        Pipeline(script.bound, script.settings)


def test_the_state_of_such_a_join_is_kept_in_chunks() -> None:
    case = large_case(conditions.single_class(2), 1, 10)
    script = Script(case, EngineSettings(arrival="tick"), (0,) * 10, how="left")
    with pytest.raises(InvalidSetting, match="keep the chunks"):
        snapshot(Pipeline(script.bound, script.settings))
