"""How a query is executed: which keys are indexed, and in which order windows are visited.

The classes of equal attributes make the streams a hypergraph. For every stream a *join tree*
rooted there says how a trigger of the stream reaches all other streams: each edge carries the
classes its two ends share, a *key set*. When join trees exist for a query without residual, results
can be counted as sums of products along the tree. Otherwise results are enumerated along the same
edges, and the residual is checked on the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s


@dataclass(frozen=True)
class Visit:
    """Visit of one stream's window on the way from a trigger to complete results."""

    stream: int
    parent: int
    """The stream, already visited, whose tuple gives the key."""
    key_set: int
    """Index into :attr:`Plan.key_sets`."""
    checks: tuple[tuple[int, int], ...]
    """Equalities that the parent does not cover: pairs of class and visited stream."""


class TreeArrays(NamedTuple):
    """The join trees of all roots as arrays; ``[root, node]``, node 0 being the root."""

    stream: Int64s
    parent: Int64s
    key_set: Int64s
    n_children: Int64s
    children: Int64s
    """``[root, node, i]``: its i-th child."""
    flat: Int64s
    """``[root]``: 1 when all other streams are children of the root."""


@dataclass(frozen=True)
class Plan:
    """Windows, classes and visiting orders of one query.

    Parameters
    ----------
    windows
        Window size of each stream.
    classes
        For each class of equal attributes, the streams that take part in it.
    """

    windows: tuple[int, ...]
    classes: tuple[frozenset[int], ...]
    counts_by_tree: bool = True
    """Whether results are counted along the trees. If so, streams without a common key find each
    other's tuples through the empty key set; otherwise by a scan, which needs no index."""

    @property
    def m(self) -> int:
        """Number of streams."""
        return len(self.windows)

    @cached_property
    def classes_of(self) -> tuple[frozenset[int], ...]:
        """The classes each stream takes part in."""
        return tuple(
            frozenset(c for c, streams in enumerate(self.classes) if s in streams)
            for s in range(self.m)
        )

    @cached_property
    def steps(self) -> tuple[tuple[Visit, ...], ...]:
        """For a trigger of each stream, the visits to all other streams."""
        return tuple(self._steps_from(root) for root in range(self.m))

    @cached_property
    def key_sets(self) -> tuple[tuple[int, ...], ...]:
        """The sets of classes that are looked up together; the empty set joins everything."""
        found: set[tuple[int, ...]] = set()
        for root in range(self.m):
            for stream, parent in self._edges_from(root):
                found.add(self._shared(stream, parent))
        return tuple(sorted(found))

    @cached_property
    def key_sets_of(self) -> tuple[tuple[int, ...], ...]:
        """For each stream, the key sets that its tuples are looked up by or look others up by."""
        needed: list[set[int]] = [set() for _ in range(self.m)]
        for steps in self.steps:
            for step in steps:
                needed[step.stream].add(step.key_set)
                needed[step.parent].add(step.key_set)
        scanned = (
            set() if self.counts_by_tree else {k for k, s in enumerate(self.key_sets) if not s}
        )
        return tuple(tuple(sorted(sets - scanned)) for sets in needed)

    @cached_property
    def partner_key_sets(self) -> Int64s:
        """``[s, j]``: by which key set a trigger of stream ``s`` looks up stream ``j``; else -1."""
        found = np.full((self.m, self.m), -1, dtype=np.int64)
        for root, steps in enumerate(self.steps):
            for step in steps:
                if step.parent == root and self.key_sets[step.key_set]:
                    found[root, step.stream] = step.key_set
        return found

    @cached_property
    def is_acyclic(self) -> bool:
        """Whether the equalities form join trees, so that counting needs no enumeration."""
        return all(not step.checks for steps in self.steps for step in steps)

    @cached_property
    def trees(self) -> TreeArrays:
        """The visiting orders as arrays for the compiled kernels."""
        m = self.m
        stream, parent, key_set, n_children = (np.zeros((m, m), dtype=np.int64) for _ in range(4))
        children = np.zeros((m, m, m), dtype=np.int64)
        for root, steps in enumerate(self.steps):
            node_of = {root: 0} | {step.stream: at + 1 for at, step in enumerate(steps)}
            stream[root, 0] = root
            for at, step in enumerate(steps, start=1):
                above = node_of[step.parent]
                stream[root, at] = step.stream
                parent[root, at] = above
                key_set[root, at] = step.key_set
                children[root, above, n_children[root, above]] = at
                n_children[root, above] += 1
        flat = (parent == 0).all(axis=1).astype(np.int64)
        return TreeArrays(stream, parent, key_set, n_children, children, flat)

    def _shared(self, one: int, other: int) -> tuple[int, ...]:
        return tuple(sorted(self.classes_of[one] & self.classes_of[other]))

    def _edges_from(self, root: int) -> list[tuple[int, int]]:
        """Grow a tree that shares as many classes as it can along its edges.

        A spanning tree of the largest total weight is a join tree whenever there is a join tree.
        Among equal weights the shallowest tree wins: with all streams next to the root, a count
        is a product.
        """
        depth = {root: 0}
        edges = []
        while len(depth) < self.m:
            stream, parent = max(
                ((s, p) for s in range(self.m) if s not in depth for p in depth),
                key=lambda pair: (len(self._shared(*pair)), -depth[pair[1]], -pair[0], -pair[1]),
            )
            depth[stream] = depth[parent] + 1
            edges.append((stream, parent))
        return edges

    def _steps_from(self, root: int) -> tuple[Visit, ...]:
        steps = []
        visited = [root]
        for stream, parent in self._edges_from(root):
            shared = self._shared(stream, parent)
            checks = []
            for c in sorted(self.classes_of[stream] - set(shared)):
                holder = next((v for v in visited if c in self.classes_of[v]), None)
                if holder is not None:
                    checks.append((c, holder))
            key_set = self.key_sets.index(shared)
            steps.append(Visit(stream, parent, key_set, tuple(checks)))
            visited.append(stream)
        # Breadth first: the counting kernel wants every node after its parent's whole level.
        depth = {root: 0}
        for step in steps:
            depth[step.stream] = depth[step.parent] + 1
        if all(not step.checks for step in steps):
            steps.sort(key=lambda step: depth[step.stream])
        return tuple(steps)
