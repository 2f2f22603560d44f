"""The engine against the plain reference, on random streams, queries, schedules and cuts."""

from __future__ import annotations

from hypothesis import given

from tests.properties.engine_runs import Script, same_accounts, scripts


@given(script=scripts("tuple", rows=True))
def test_rows_per_tuple_are_those_of_the_reference(script: Script) -> None:
    same_accounts(script)


@given(script=scripts("tuple", rows=False))
def test_counts_per_tuple_are_those_of_the_reference(script: Script) -> None:
    same_accounts(script)


@given(script=scripts("tick", rows=True))
def test_rows_per_tick_are_those_of_the_reference(script: Script) -> None:
    same_accounts(script)


@given(script=scripts("tick", rows=False))
def test_counts_per_tick_are_those_of_the_reference(script: Script) -> None:
    same_accounts(script)
