"""All experiments, and the page that shows their results."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, Any

from pyspark import __version__ as spark_version

from recalljoin.experiments.baselines import FIGURE_6, TABLE_2
from recalljoin.experiments.changes import JUMP, K_OVER_TIME
from recalljoin.experiments.frontier import FRONTIER, LATENCY
from recalljoin.experiments.overhead import FIGURE_11
from recalljoin.experiments.page import Page, Section, Table
from recalljoin.experiments.recordings import RECORDINGS
from recalljoin.experiments.scale_out import SCALE_OUT
from recalljoin.experiments.sweeps import FIGURE_7, FIGURE_8, FIGURE_9, FIGURE_10

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recalljoin.experiments.experiment import Claim, Runs
    from recalljoin.experiments.scale import Scale
    from recalljoin.experiments.spec import RunSpec

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        FIGURE_6, TABLE_2, FIGURE_7, FIGURE_8, FIGURE_9, FIGURE_10, FIGURE_11,
        K_OVER_TIME, FRONTIER, JUMP, LATENCY, SCALE_OUT, RECORDINGS,
    )
}  # fmt: skip
"""All experiments by name, the paper's first."""


def specs_of(names: Sequence[str], scale: Scale) -> list[RunSpec]:
    """The runs that experiments need, each run once."""
    return list(dict.fromkeys(s for name in names for s in EXPERIMENTS[name].specs(scale)))


def claims_of(names: Sequence[str], scale: Scale, runs: Runs) -> list[Claim]:
    """What the paper says in words about these experiments."""
    return [claim for name in names for claim in EXPERIMENTS[name].claims(scale, runs)]


def page_of(names: Sequence[str], scale: Scale, runs: Runs, *, code: str) -> Page:
    """The page that shows experiments.

    Parameters
    ----------
    names
        Names of the experiments.
    scale
        Size of the experiments.
    runs
        At least the runs of :func:`specs_of`.
    code
        Version of the code that made the runs.
    """
    claims = claims_of(names, scale, runs)
    sections = [_beside_the_paper(claims)] if claims else []
    sections += [EXPERIMENTS[name].section(scale, runs) for name in names]
    text = (
        "The experiments of Section VI of the paper and some of our own, run on Spark: streams are "
        "generated or read from public recordings, joined under each policy, tuple by tuple unless "
        "said otherwise, and scored against all true results. The soccer match is simulated: the "
        "delays of the paper's recording are not public, and the simulation was fitted to what the "
        "paper says of them.",
        "K is the wait: how long tuples are held back for late ones. Γ is the recall asked for, P "
        "the period over which recall is measured, L the interval after which K is chosen anew, g "
        "the step in which K is chosen, and b the piece in which the paper's model counts windows. "
        "Φ(Γ) is the share of recall measurements that reach Γ, and Φ(.99 Γ) of those that reach "
        "99 % of it.",
        "EqSel and NonEqSel are the two forms of the paper's model; Max-K-slack waits for the "
        "largest delay seen so far, and No-K-slack for no late tuple. Slack is the policy of "
        "recalljoin, and percentile a simple one beside it, by the delays alone. D_syn is the "
        "paper's synthetic data; ×2, ×3 and ×4 say how many streams are joined.",
        f"Seed {scale.seed}; code {code}; Python {platform.python_version()}, Spark "
        f"{spark_version}, {os.cpu_count()} cores. Unless said otherwise P = 1 min, L = 1 s, "
        "g = b = 10 ms. Times and speeds are those of one run each, on a machine that may have had "
        "other work. Made by `recalljoin experiment`.",
    )
    return Page("Results", _label(scale), text, tuple(sections))


def _label(scale: Scale) -> str:
    if scale.name == "full":
        return ""
    return (
        f"Quick version: {scale.soccer:g} minutes of the simulated match (of 23) and "
        f"{scale.synthetic:g} of D_syn (of 30), with few values of each parameter. Few periods are "
        "measured, so shares of them are coarse; whatever needs rare long delays is missing."
    )


def _beside_the_paper(claims: list[Claim]) -> Section:
    rows = tuple(
        (claim.what, claim.paper, claim.here, "yes" if claim.holds else "no", claim.ours or "-")
        for claim in claims
    )
    header = ("what", "the paper says", "here", "agrees", "slack (ours)")
    reasons: dict[str, list[str]] = {}
    for claim in claims:
        if not claim.holds and claim.why:
            reasons.setdefault(claim.why, []).append(claim.what)
    differ = tuple(f"{'; '.join(what)}: {why}." for why, what in reasons.items())
    return Section(
        "beside-the-paper",
        "Beside what the paper says",
        ("What the paper states in words. Below the table: what is different where it differs.",),
        table=Table(header, rows, words=True),
        notes=differ,
    )


def rows_of(names: Sequence[str], scale: Scale, runs: Runs) -> list[dict[str, Any]]:
    """The runs as rows: what was run, for which experiments, and all numbers."""
    users: dict[RunSpec, list[str]] = {}
    for name in names:
        for spec in EXPERIMENTS[name].specs(scale):
            shown_in = users.setdefault(spec, [])
            if name not in shown_in:
                shown_in.append(name)
    return [
        {"experiments": shown_in} | spec.to_json() | runs[spec].numbers
        for spec, shown_in in users.items()
    ]
