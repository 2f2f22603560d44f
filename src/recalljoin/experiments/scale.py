"""How large the experiments are: as in the paper, or small enough for a few minutes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from recalljoin.experiments.spec import DataSpec

if TYPE_CHECKING:
    from recalljoin.experiments.recorded import RecordedSpec
    from recalljoin.experiments.spec import Kind


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Lengths of data sets, and the values that are tried for each parameter.

    Parameters
    ----------
    name
        Name in reports.
    seed
        Seed of all data sets.
    soccer, synthetic, jump
        Minutes of the match, of D_syn, and of the streams whose disorder jumps.
    targets
        Recall targets Γ, in Figure 7 and wherever no other field applies.
    sweep_targets
        Γ in Figures 8 to 10.
    cost_targets, cost_granularities
        Γ, and granularities g in milliseconds, in Figure 11.
    periods, intervals, granularities
        Period P, adaptation interval L and granularity g in Figures 8, 9 and 10, in milliseconds.
    slacks
        Fixed K of the frontier, in milliseconds.
    cells
        Numbers of cells.
    focus
        Γ where only one target is shown.
    recordings
        Public recordings that were found.
    recordings_left_out
        A sentence about the recordings that were not found.
    recording_targets, recording_slacks
        Γ, and fixed K in milliseconds, on recordings.
    recording_periods
        How many of the periods that suit a recording are tried.
    """

    name: str = "full"
    seed: int = 0
    soccer: float = 23
    synthetic: float = 30
    jump: float = 15
    targets: tuple[float, ...] = (0.9, 0.95, 0.99, 0.999)
    sweep_targets: tuple[float, ...] = (0.95, 0.99)
    cost_targets: tuple[float, ...] = (0.9, 0.99, 0.999)
    cost_granularities: tuple[int, ...] = (1, 10, 100, 1_000)
    periods: tuple[int, ...] = (10_000, 30_000, 60_000, 180_000, 300_000)
    intervals: tuple[int, ...] = (100, 500, 1_000, 5_000, 10_000)
    granularities: tuple[int, ...] = (1, 10, 100, 1_000)
    slacks: tuple[int, ...] = (
        50, 100, 200, 300, 500, 700, 1_000, 1_500, 2_000, 3_000, 5_000, 7_500, 10_000, 15_000,
        20_000,
    )  # fmt: skip
    cells: tuple[int, ...] = (1, 2, 4, 8)
    focus: float = 0.99
    recordings: tuple[RecordedSpec, ...] = ()
    recordings_left_out: str = ""
    recording_targets: tuple[float, ...] = (0.9, 0.95, 0.99, 0.999)
    recording_slacks: tuple[int, ...] = (
        0, 1, 2, 3, 4, 5, 7, 10, 14, 20, 30, 40, 50, 60, 70, 100, 140, 200, 300, 400, 500, 700,
        1_000, 1_400, 2_000, 3_000, 5_000,
    )  # fmt: skip
    recording_periods: int = 2

    def data(self, kind: Kind) -> DataSpec:
        """A data set of this size."""
        minutes = {"soccer": self.soccer, "delays": self.jump, "lag": self.jump}
        return DataSpec(kind, minutes.get(kind, self.synthetic), self.seed)


def full(seed: int = 0) -> Scale:
    """The paper's lengths and values."""
    return Scale(seed=seed)


def quick(seed: int = 0) -> Scale:
    """A few minutes of data and few values: all figures, each with fewer points."""
    return Scale(
        name="quick",
        seed=seed,
        soccer=3,
        synthetic=4,
        jump=6,
        targets=(0.9, 0.99, 0.999),
        sweep_targets=(0.99,),
        cost_targets=(0.9, 0.999),
        cost_granularities=(10, 1_000),
        periods=(20_000, 60_000),
        intervals=(200, 1_000, 5_000),
        granularities=(10, 100, 1_000),
        slacks=(100, 300, 1_000, 3_000, 10_000),
        cells=(1, 2, 4),
        recording_targets=(0.95,),
        recording_slacks=(0, 3, 10, 30, 100, 1_000),
        recording_periods=1,
    )
