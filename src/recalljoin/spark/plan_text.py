"""A planned join in words: the query, how its work is divided, and how the wait is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recalljoin.query.durations import rounded
from recalljoin.query.explain import explain
from recalljoin.query.render import render
from recalljoin.query.sizes import spelled
from recalljoin.spark.cell import ByTuple
from recalljoin.spark.clocks import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recalljoin.quality.adaptation import PolicyPlan
    from recalljoin.spark.planning import JoinPlan


def plan_text(plan: JoinPlan) -> str:
    """What a join does and how, for people."""
    sections = {"cells": _cells(plan), "wait": _wait(plan), "memory": _memory(plan)}
    lines = [explain(plan.query)]
    for title, content in sections.items():
        lines += [title, *(f"  {line}" for line in content)]
    return "\n".join(lines)


def _cells(plan: JoinPlan) -> Iterator[str]:
    grid, names = plan.layout.grid, [stream.name for stream in plan.query.streams]
    groups = "group" if plan.layout.n_groups == 1 else "groups"
    cells = "cell" if grid.n_cells == 1 else "cells"
    yield f"{grid.n_cells} {cells} in {plan.layout.n_groups} {groups}"
    for dimension, share in zip(grid.dimensions, grid.shares, strict=True):
        if share == 1:
            continue
        if dimension.equality is None:
            (s,) = dimension.streams
            yield f"tuples of {names[s]} divided by {share}"
        else:
            members = plan.query.classes[dimension.equality].members.values()
            keys = " = ".join(render(each, names) for each in members)
            yield f"keys {keys} divided by {share}"
    for s, name in enumerate(names):
        if grid.n_copies(s) > 1:
            yield f"each tuple of {name} in {grid.n_copies(s)} cells"
    if plan.finds_hot_keys:
        yield "keys that most tuples have are spread over the cells when they are found"


def _wait(plan: JoinPlan) -> Iterator[str]:
    clock = Clock(plan.query.unit)
    mode = plan.cells.mode
    policy: PolicyPlan = mode.policy if isinstance(mode, ByTuple) else plan.policy
    settings = policy.settings
    if policy.choice == "fixed":
        yield f"K is fixed at {rounded(clock.ms(policy.options['k']))}"
    else:
        name = policy.choice if isinstance(policy.choice, str) else policy.make().name
        longest = "any length"
        if settings.max_wait is not None:
            longest = rounded(clock.ms(settings.max_wait))
        yield (
            f"K is chosen by the policy {name}, from {rounded(clock.ms(settings.min_wait))} to "
            f"{longest}; at first {rounded(clock.ms(settings.first_wait))}"
        )
    tuples = "one by one" if isinstance(mode, ByTuple) else "batch by batch"
    yield f"tuples arrive {tuples}"
    if plan.cells.idle_after is not None:
        yield f"a stream without tuples for {rounded(plan.cells.idle_after)} is not waited for"


def _memory(plan: JoinPlan) -> Iterator[str]:
    clock, limits = Clock(plan.query.unit), plan.limits
    horizon = plan.cells.mode.horizon if isinstance(plan.cells.mode, ByTuple) else plan.horizon
    if horizon is not None and horizon.fixed is not None:
        yield f"tuples are remembered for {rounded(clock.ms(horizon.fixed))}"
    elif horizon is not None:
        yield f"tuples are remembered as their delays ask for, in {spelled(horizon.limit)} at most"
    most = [] if limits.max_buffered is None else [f"{limits.max_buffered:,} tuples"]
    most += [] if limits.buffer_memory is None else [spelled(limits.buffer_memory)]
    if most:
        then = "oldest are released early" if limits.when_full == "release" else "query stops"
        yield f"{' or '.join(most)} may wait for a stream that is behind; then the {then}"
