"""What experiments run: a data set and a setup, as plain values by which runs are compared."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from recalljoin.datasets import SimulatedMatch, make_syn_x3, make_syn_x4
from recalljoin.experiments.jumps import Jumping
from recalljoin.experiments.setup import Setup

if TYPE_CHECKING:
    from recalljoin.datasets import Dataset
    from recalljoin.experiments.recorded import RecordedSpec

Kind = Literal["soccer", "x3", "x4", "delays", "lag"]

TITLES: dict[Kind, str] = {
    "soccer": "soccer ×2, simulated",
    "x3": "D_syn ×3",
    "x4": "D_syn ×4",
    "delays": "D_syn ×3, delays ×10 and back",
    "lag": "D_syn ×3, s1 falls 10 s back",
}
_TUPLES_PER_MINUTE = {"soccer": 39_000, "x3": 18_000, "x4": 24_000, "delays": 18_000, "lag": 18_000}
_MICROSECONDS = {"soccer": 12.0, "x3": 7.0, "x4": 10.0, "delays": 7.0, "lag": 7.0}
"""Rough processor time for one tuple, in microseconds, on one core of a machine of 2026: only the
estimate of the time left depends on it."""
_START = 1.2
"""Rough number of seconds that Spark needs for a run besides the join."""

# The sources that decide the numbers of a run. Drawing and reporting are left out, so that a chart
# can be changed without running anything again.
SOURCES = (
    "datasets", "engine", "quality", "query",
    "spark/cells.py", "spark/hashing.py", "spark/packing.py",
    "experiments/evaluation.py", "experiments/generation.py",
    "experiments/jumps.py", "experiments/packing.py", "experiments/recorded.py",
    "experiments/run.py", "experiments/setup.py", "experiments/spec.py", "experiments/tasks.py",
)  # fmt: skip


@dataclass(frozen=True)
class DataSpec:
    """A data set that can be made at any time.

    Parameters
    ----------
    kind
        Name of the data set.
    minutes
        Length of the data set.
    seed
        Other seeds give other rows.
    """

    kind: Kind
    minutes: float
    seed: int = 0

    def dataset(self) -> Dataset:
        """The data set itself."""
        duration = round(self.minutes * 60_000)
        if self.kind == "soccer":
            return SimulatedMatch(seed=self.seed, duration=duration)
        if self.kind == "x4":
            return make_syn_x4(self.seed, duration=duration)
        x3 = make_syn_x3(self.seed, duration=duration)
        if self.kind == "x3":
            return x3
        # Delays of up to 2 s leave room to grow. The skew of the keys is constant, so that only
        # the delays change.
        usual = replace(x3, max_delay=2_000, delay_step=10, skew_range=(1.0, 1.0))
        return Jumping(usual, self.kind)

    @property
    def title(self) -> str:
        """Name of the data set in figures."""
        return TITLES[self.kind]

    @property
    def seconds(self) -> float:
        """Rough processor time of a join of the data set."""
        return self.minutes * _TUPLES_PER_MINUTE[self.kind] * _MICROSECONDS[self.kind] * 1e-6

    def to_json(self) -> dict[str, Any]:
        """As text and numbers; generated rows need no files."""
        return asdict(self) | {"files": None}


@dataclass(frozen=True)
class RunSpec:
    """One run: a setup over a data set."""

    data: DataSpec | RecordedSpec
    setup: Setup

    @property
    def alone(self) -> bool:
        """Whether nothing may run beside this run: its cells are threads, and their time counts."""
        return self.setup.by_batch is not None

    @property
    def seconds(self) -> float:
        """Rough time of the run on one core."""
        adaptations = self.data.minutes * 60_000 / float(str(self.setup.interval or 1000))
        return _START + self.data.seconds + adaptations * 1e-3

    def to_json(self) -> dict[str, Any]:
        """As text and numbers."""
        return {"data": self.data.to_json(), "setup": self.setup.to_json()}

    def key(self, code: str) -> str:
        """A name for the run under a version of the code."""
        content = json.dumps([code, self.to_json()], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:24]


def run_spec(
    data: DataSpec | RecordedSpec,
    policy: str,
    recall: float = 0.95,
    *,
    period: int = 60_000,
    interval: int = 1_000,
    granularity: int | None = 10,
    **others: Any,
) -> RunSpec:
    """A run that names everything its results depend on; lengths in milliseconds.

    Without ``granularity`` the step of K is the default.

    Policies that know no target are given the same target in all figures, so that one run serves
    every figure; :meth:`Run.phi <recalljoin.experiments.run.Run.phi>` takes any other target.
    """
    if policy in ("max", "none", "fixed"):
        recall = 0.95
    return RunSpec(
        data,
        Setup(
            policy=policy,
            recall=recall,
            period=period,
            interval=interval,
            granularity=granularity,
            basic_window=10,
            **others,
        ),
    )


def code_version(package: Path | None = None) -> str:
    """A name for the version of the sources that decide the numbers of a run.

    Parameters
    ----------
    package
        Folder of the package; by default of the package that is running.
    """
    root = package or Path(__file__).parent.parent
    digest = hashlib.sha256()
    for part in SOURCES:
        path = root / part
        for source in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(source.relative_to(root).as_posix().encode())
            digest.update(source.read_bytes())
    return digest.hexdigest()[:12]
