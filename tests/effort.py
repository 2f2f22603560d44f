"""How many examples a property test draws, as a share of what the run asks for.

A plain number in a test would hold ``make fuzz`` back, which asks for many more than usual.
"""

from __future__ import annotations

from hypothesis import settings


def effort(share: float) -> settings:
    """Draw this share of the usual number of examples, which may be above 1, and at least one."""
    return settings(max_examples=max(1, round(share * settings().max_examples)))


HALF = effort(1 / 2)
"""For tests that run every example twice."""
QUARTER = effort(1 / 4)
"""For tests that are repeated for several numbers of cells."""
FEW = effort(1 / 5)
"""For tests that run every example many times over, or large ones."""
