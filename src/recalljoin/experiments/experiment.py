"""What an experiment is: the runs it needs, and the section it makes from the runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from recalljoin.experiments.run import Run
from recalljoin.experiments.spec import RunSpec

if TYPE_CHECKING:
    from recalljoin.experiments.page import Section
    from recalljoin.experiments.scale import Scale
    from recalljoin.experiments.spec import Kind

Runs = Mapping[RunSpec, Run]

KINDS: tuple[Kind, ...] = ("soccer", "x3", "x4")
SWEPT: tuple[Kind, ...] = ("soccer", "x3")
"""The data sets of Figures 8 to 10."""


@dataclass(frozen=True)
class Claim:
    """Something the paper says in words, and what was measured here.

    Parameters
    ----------
    what
        The quantity.
    paper
        What the paper says of the quantity.
    here
        What was measured with the paper's method.
    holds
        Whether the measurement agrees with the paper.
    ours
        What was measured with the policy ``slack``, where that applies.
    why
        If the claim does not hold: what is different here.
    """

    what: str
    paper: str
    here: str
    holds: bool
    ours: str = ""
    why: str = ""


def _no_claims(scale: Scale, runs: Runs) -> list[Claim]:  # noqa: ARG001 - nothing to look at
    return []


@dataclass(frozen=True)
class Experiment:
    """A figure or table.

    Parameters
    ----------
    name
        Name on the command line.
    specs
        The runs it needs.
    section
        The part of the page that shows the runs.
    claims
        What the paper says in words about the figure or table.
    """

    name: str
    specs: Callable[[Scale], list[RunSpec]]
    section: Callable[[Scale, Runs], Section]
    claims: Callable[[Scale, Runs], list[Claim]] = _no_claims


def shortened(scale: Scale) -> str:
    """Why numbers differ where only a part of the data was run."""
    if scale.name == "full":
        return ""
    return (
        f"only the first minutes of the data ({scale.soccer:g} of the match, {scale.synthetic:g} "
        "of D_syn) were run"
    )


def because(scale: Scale, *reasons: str) -> str:
    """Reasons in one sentence; if the data are short, that reason comes first."""
    return "; ".join(reason for reason in (shortened(scale), *reasons) if reason)
