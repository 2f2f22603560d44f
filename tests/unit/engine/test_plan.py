"""Which keys are indexed and in which order windows are visited."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recalljoin.engine.plan import Plan


def plan(*classes: str, m: int, by_tree: bool = True) -> Plan:
    """A plan whose classes are given by the streams in them, as in ``"01"``."""
    members = tuple(frozenset(int(digit) for digit in text) for text in classes)
    return Plan((10,) * m, members, counts_by_tree=by_tree)


SHAPES = {
    "one class": plan("0123", m=4),
    "star": plan("01", "02", "03", m=4),
    "chain": plan("01", "12", "23", m=4),
    "composite": plan("012", "012", m=3),
    "composite and more": plan("012", "01", m=3),
    "two keys to one stream": plan("01", "01", "12", m=3),
    "cross join": plan(m=3),
    "disconnected": plan("01", m=4),
    "two islands": plan("01", "23", m=4),
    # The fourth stream has all keys of the triangle, so that each other one hangs on it.
    "covered triangle": plan("013", "123", "023", m=4),
}
CYCLES = {
    "triangle": plan("01", "12", "02", m=3),
    "square": plan("01", "12", "23", "03", m=4),
    "triangle with a tail": plan("01", "12", "02", "23", m=4),
    "triangle through a class of three": plan("012", "23", "03", m=4),
}


@pytest.mark.parametrize("name", SHAPES)
def test_trees_are_counted_along(name: str) -> None:
    assert SHAPES[name].is_acyclic


@pytest.mark.parametrize("name", CYCLES)
def test_cycles_are_not(name: str) -> None:
    assert not CYCLES[name].is_acyclic


def reduces_to_nothing(classes_of: list[set[int]]) -> bool:
    """Graham's reduction, the textbook test of a hypergraph for being acyclic."""
    streams = [set(classes) for classes in classes_of]
    while True:
        everywhere = [c for classes in streams for c in classes]
        smaller = [{c for c in classes if everywhere.count(c) > 1} for classes in streams]
        for i, classes in enumerate(smaller):
            if any(classes <= other for other in smaller[:i] + smaller[i + 1 :]):
                del smaller[i]
                break
        if smaller == streams:
            return len(streams) == 1
        streams = smaller


@given(
    classes=st.lists(st.frozensets(st.integers(0, 5), min_size=2), max_size=6),
    m=st.just(6),
)
def test_a_query_is_acyclic_exactly_if_it_reduces_to_nothing(
    classes: list[frozenset[int]], m: int
) -> None:
    found = Plan((1,) * m, tuple(classes))
    assert found.is_acyclic == reduces_to_nothing([set(c) for c in found.classes_of])


@pytest.mark.parametrize("name", [*SHAPES, *CYCLES])
def test_from_every_trigger_each_other_stream_is_visited_once_after_its_parent(name: str) -> None:
    shape = (SHAPES | CYCLES)[name]
    for root, steps in enumerate(shape.steps):
        visited = [root]
        for step in steps:
            assert step.parent in visited
            assert step.stream not in visited
            visited.append(step.stream)
        assert sorted(visited) == list(range(shape.m))


@pytest.mark.parametrize("name", [*SHAPES, *CYCLES])
def test_every_equality_is_looked_up_or_checked(name: str) -> None:
    shape = (SHAPES | CYCLES)[name]
    for root, steps in enumerate(shape.steps):
        visited = [root]
        for step in steps:
            looked_up = set(shape.key_sets[step.key_set])
            assert looked_up <= shape.classes_of[step.parent]
            checked = {c for c, _ in step.checks}
            for c, holder in step.checks:
                assert holder in visited
                assert c in shape.classes_of[holder]
            due = {c for c in shape.classes_of[step.stream] if shape.classes[c] & set(visited)}
            assert due <= looked_up | checked
            visited.append(step.stream)


def test_a_star_is_flat_from_its_centre_and_not_from_its_leaves() -> None:
    star = SHAPES["star"]
    assert star.trees.flat.tolist() == [1, 0, 0, 0]
    assert {step.parent for step in star.steps[0]} == {0}
    assert [step.parent for step in star.steps[1]] == [1, 0, 0]


def test_one_class_is_flat_from_everywhere() -> None:
    assert SHAPES["one class"].trees.flat.tolist() == [1, 1, 1, 1]


def test_streams_that_share_two_keys_are_looked_up_by_both_at_once() -> None:
    assert SHAPES["composite"].key_sets == ((0, 1),)
    assert SHAPES["two keys to one stream"].key_sets == ((0, 1), (2,))


def test_a_stream_is_indexed_by_the_keys_it_is_looked_up_by_or_looks_others_up_by() -> None:
    assert SHAPES["chain"].key_sets == ((0,), (1,), (2,))
    assert SHAPES["chain"].key_sets_of == ((0,), (0, 1), (1, 2), (2,))


def test_without_a_common_key_counting_uses_the_empty_key_and_enumerating_scans() -> None:
    assert plan(m=2).key_sets == ((),)
    assert plan(m=2).key_sets_of == ((0,), (0,))
    assert plan(m=2, by_tree=False).key_sets_of == ((), ())


def test_nodes_of_a_tree_stand_after_their_parents() -> None:
    for shape in SHAPES.values():
        parents = shape.trees.parent
        for root in range(shape.m):
            assert all(parents[root, node] < node for node in range(1, shape.m))
