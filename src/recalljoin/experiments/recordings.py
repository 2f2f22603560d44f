"""Public recordings: K and recall of policies, beside the best fixed K in hindsight."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recalljoin.experiments.charts import NAMES, over_time
from recalljoin.experiments.experiment import Experiment, Runs
from recalljoin.experiments.page import Section, Table
from recalljoin.experiments.report import illustrated
from recalljoin.experiments.spec import run_spec

if TYPE_CHECKING:
    from recalljoin.experiments.recorded import RecordedSpec
    from recalljoin.experiments.run import Run
    from recalljoin.experiments.scale import Scale
    from recalljoin.experiments.spec import RunSpec

POLICIES = ("noneqsel", "percentile", "max", "slack")
"""Policies in the order they are drawn: recalljoin's own comes last, on top."""
BEGIN = 3
"""Periods that do not count at the beginning: afterwards every policy has learnt what it can."""
OFTEN, OFTEN_AT_MOST = 0.95, 0.9
"""Share of the measurements in which a fixed K must reach the target Γ; the second applies to Γ
above 0.99."""
FOCUS = 0.95
"""Target Γ of the figures."""


@dataclass(frozen=True)
class _Case:
    """A recording with a way of arriving and a period."""

    data: RecordedSpec
    tick: int | None
    period: int

    @property
    def title(self) -> str:
        how = "one by one" if self.tick is None else f"ticks of {self.tick} ms"
        return f"{how}, P = {self.period / 1000:g} s"

    def spec(self, policy: str, target: float, k: int | None = None) -> RunSpec:
        others: dict[str, Any] = {} if k is None else {"k": k}
        if self.tick is not None:
            others |= {"arrival_mode": "tick", "tick": f"{self.tick} ms"}
        return run_spec(self.data, policy, target, period=self.period, granularity=None, **others)

    def fixed(self, scale: Scale, target: float) -> list[RunSpec]:
        largest = self.data.recording.largest_delay
        return [self.spec("fixed", target, k) for k in scale.recording_slacks if k <= largest]

    def counted(self, runs: Runs, spec: RunSpec) -> Run:
        """A run without its first periods."""
        return runs[spec].after(BEGIN * self.period / 60_000)

    def best(self, scale: Scale, runs: Runs, target: float) -> RunSpec | None:
        """The smallest fixed K tried that reaches the target often enough."""
        often = OFTEN if target <= 0.99 else OFTEN_AT_MOST
        for spec in self.fixed(scale, target):
            if self.counted(runs, spec).phi(target) >= often:
                return spec
        return None


def _cases(scale: Scale, data: RecordedSpec) -> list[_Case]:
    recording = data.recording
    periods = recording.periods[: scale.recording_periods]
    ticks = (None, recording.tick)
    return [_Case(data, tick, period) for period in periods for tick in ticks]


def _specs(scale: Scale) -> list[RunSpec]:
    specs = []
    for case in (case for data in scale.recordings for case in _cases(scale, data)):
        for target in scale.recording_targets:
            specs += [case.spec(policy, target) for policy in POLICIES]
            specs += case.fixed(scale, target)
    return specs


def _section(scale: Scale, runs: Runs) -> Section:
    text = (
        "Streams that somebody recorded with both times of each message, joined in the order of "
        "their arrival; none of their rows is generated. "
        f"Measurements and K of the first {BEGIN} periods do not count. Beside the policies stands "
        "the smallest fixed K tried that reaches Γ in 95 % of the same measurements (90 % where Γ "
        "is above 0.99): nobody knows it beforehand. The steps g of K are as they are by default.",
    )
    parts = tuple(_part(scale, runs, data) for data in scale.recordings)
    notes = (
        (f"Fixed K tried: {', '.join(map(str, scale.recording_slacks))} ms, as far as delays go.",)
        if parts
        else ()
    )
    left_out = (scale.recordings_left_out,) if scale.recordings_left_out else ()
    return Section("recordings", "Public recordings", text + left_out, notes=notes, parts=parts)


def _part(scale: Scale, runs: Runs, data: RecordedSpec) -> Section:
    cases = _cases(scale, data)
    target = FOCUS if FOCUS in scale.recording_targets else scale.recording_targets[0]
    columns: dict[str, dict[str, Run]] = {}
    for case in cases:
        best = case.best(scale, runs, target)
        columns[case.title] = {} if best is None else {"fixed": runs[best]}
        columns[case.title] |= {policy: runs[case.spec(policy, target)] for policy in POLICIES}
    rows = [
        (f"{case.title}, Γ = {target:g}", *_cells(scale, runs, case, target))
        for case in cases
        for target in scale.recording_targets
    ]
    header = ("mean K (ms); Φ(Γ)", "best fixed K", *(NAMES[policy] for policy in POLICIES))
    return illustrated(
        f"recording-{data.kind}",
        data.title[0].upper() + data.title[1:],
        over_time(columns, target=target, seconds=_powers(data.recording.largest_delay)),
        text=(f"{data.recording.about} {_disorder(data)}",),
        table=Table(header, tuple(rows)),
    )


def _powers(largest_delay: int) -> tuple[float, float]:
    """Powers of ten, in seconds, between which K is shown, given the largest delay.

    Examples
    --------
    >>> _powers(140)
    (0.001, 0.1)
    """
    return 0.001, 10.0 ** (math.ceil(math.log10(largest_delay / 4)) - 3)


def _cells(scale: Scale, runs: Runs, case: _Case, target: float) -> list[str]:
    best = case.best(scale, runs, target)
    specs = [best, *(case.spec(policy, target) for policy in POLICIES)]
    return ["-" if spec is None else _cell(case.counted(runs, spec), target) for spec in specs]


def _cell(run: Run, target: float) -> str:
    if not run.numbers["recall"]:
        return "-"
    return f"{1000 * run.mean_k:.{0 if run.mean_k >= 0.1 else 1}f}; {100 * run.phi(target):.1f} %"


def _disorder(data: RecordedSpec) -> str:
    dataset = data.dataset()
    delays = []
    for stream in dataset.streams:
        ts = dataset.table(stream)["ts"].to_numpy()
        delays.append(np.maximum.accumulate(ts) - ts)
    every = np.concatenate(delays)
    late = 100 * float((every > 0).mean())
    return (
        f"{len(every):,} messages, {late:.1f} % of them out of order within their stream. Behind "
        f"the newest message of its stream, 99 % of the messages come at most "
        f"{np.percentile(every, 99):.0f} ms late, and the latest {every.max():,} ms."
    )


RECORDINGS = Experiment("recordings", _specs, _section)
