"""The required-slack policy: K from the results themselves.

A result is produced iff K is larger than the slack it requires, so for every stretch of time there
is one number, the K it would have needed (:mod:`recalljoin.quality.needs`). The policy takes the
smallest K that was enough for most stretches seen. It looks at short ones, a sixth of a period
long: there are many of them, so what is usual is soon known, and what a few of them lack the rest
of their period makes up for.

Disorder changes. When stretches need more than usual one after another, K follows them at once;
when a whole period needed more than usual throughout, or far less, that is the new usual, and what
was before is forgotten. docs/choosing-k.md has the reasons for all of this.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from recalljoin.engine.disorder import MAX_TIME, NEVER
from recalljoin.quality.needs import OPEN, Needs, enough_for
from recalljoin.quality.policy import Forecast, State, check_options, register
from recalljoin.quality.slack_by_time import SLOTS_PER_PERIOD, SlackByTime, slot_width

if TYPE_CHECKING:
    from recalljoin.engine.queues import Int64s
    from recalljoin.quality.profile import Profile
    from recalljoin.quality.settings import PolicySettings

STRETCH = SLOTS_PER_PERIOD // 6
"""Slots in a stretch."""
PERIODS = 0.8
"""Share of whole periods that K must have been enough for. It matters where disorder comes in
bursts that are rare among stretches and yet touch many periods."""
MOST_PERIODS, HEADROOM, HIGH = 0.95, 1.5, 0.99
"""Share it should have been enough for, if that takes no more than so many times the K. Below a
high recall, a little headroom makes up for a burst. At a high one, the burst itself would have to
be waited for, all the time."""
SURGE = 1.5
"""Two stretches in a row that need this many times the largest need known are a surge."""
IN_A_ROW = 4
"""As many stretches in a row that need more than K are no coincidence either."""
RELIEF = 4.0
"""A period whose stretches all need this many times less than usual is a change for good."""
ENOUGH_ARRIVALS = 100
"""Tuples it takes to say how late tuples are."""


@register("slack")
class RequiredSlack:
    """Chooses the smallest K that was enough for most stretches of time seen.

    Parameters
    ----------
    settings
        Γ and P; g, if K is to be a multiple of it.
    share
        Share of the stretches, a sixth of a period each, that K must have been enough for.
        Larger waits longer, misses the target less often.
    memory
        How long the needs of stretches are remembered, in periods. A change in the disorder is
        noticed and ends it sooner.
    """

    name = "slack"
    uses_slack = True

    def __init__(
        self, settings: PolicySettings, *, share: float = 0.87, memory: float = 60.0
    ) -> None:
        check_options(
            {
                f"`share` must be in (0, 1], got {share!r}": not 0 < share <= 1,
                f"`memory` must be at least 2 periods, got {memory!r}": memory < 2,
            }
        )
        self.settings = settings
        self.share = share
        self.k = 0
        self.slack = SlackByTime(
            width=slot_width(settings.period),
            # A period that ended OPEN slots ago is still all there, even after a long interval.
            n_slots=2 * SLOTS_PER_PERIOD + OPEN,
        )
        n_remembered = round(memory * SLOTS_PER_PERIOD)
        self.stretches = Needs(recall=settings.recall, length=STRETCH, memory=n_remembered)
        self.periods = Needs(recall=settings.recall, length=SLOTS_PER_PERIOD, memory=n_remembered)
        self.latest_delays = LatestDelays(settings.period)
        self._follows_until = NEVER
        self._usual_before: int | None = None
        self._forecast: Forecast | None = None

    @property
    def estimated_recall(self) -> float | None:
        """Recall K would have had over the last period."""
        if self._forecast is None:
            return None
        place = int(np.searchsorted(self._forecast.k, self.k, side="right")) - 1
        return float(self._forecast.recall[place])

    def observe(self, profile: Profile) -> None:
        """Take in an interval."""
        self.slack.observe(profile)
        self.latest_delays.observe(profile)

    def adapt(self) -> int:
        """Choose K; without any result there is nothing to go by, and it stays as it is."""
        self.stretches.update(self.slack)
        self.periods.update(self.slack)
        self._forecast = self.slack.forecast() or self._forecast
        chosen = self._choose()
        if chosen is not None:
            self.k = self._rounded(chosen)
        largest = self.latest_delays.largest
        if largest is not None:
            # No result needs more slack than its latest member has delay.
            self.k = min(self.k, self._rounded(largest + 1))
        return self.k

    def _rounded(self, k: int) -> int:
        """Up to a multiple of g where one is set, and no larger than a slack can be."""
        g = self.settings.granularity or 1
        return min(-(-k // g) * g, MAX_TIME)

    def _choose(self) -> int | None:
        needs = self.stretches.known
        if not len(needs):
            return self._need_so_far()
        usual = self._usual(needs)
        latest = self.stretches.latest(SLOTS_PER_PERIOD)
        if self._has_changed(latest, usual):
            self._forget(SLOTS_PER_PERIOD + STRETCH - 1)
            needs = latest
            usual = self._usual(latest)
            self._usual_before = None
        if self._surges(needs, usual):
            if self._usual_before is None:
                self._usual_before = usual
            self._follows_until = self.slack.last + SLOTS_PER_PERIOD // 2
        if self.slack.last <= self._follows_until and len(latest):
            return max(usual, int(latest.max()))
        self._usual_before = None
        return usual

    def _need_so_far(self) -> int | None:
        """Before there is a whole stretch, the need of what there is."""
        slack = self.slack
        if slack.first is None or slack.last < slack.first:
            return None
        n = min(slack.last - slack.first + 1, STRETCH)
        (need,) = slack.needs(n, range(slack.last, slack.last + 1), recall=self.settings.recall)
        return int(need) if need >= 0 else None

    def _usual(self, needs: Int64s) -> int:
        needs = needs[: len(needs) - self._n_unsettled(needs)]
        # Of the first two periods nothing is left out as unusual, and less than `share` allows of
        # the next two: it takes that long to know what is usual.
        trust = len(needs) / (2 * SLOTS_PER_PERIOD) - 1
        share = 1 - (1 - self.share) * min(1.0, max(0.0, trust))
        usual = enough_for(needs, share)
        periods = self.periods.known
        if not len(periods):
            return usual
        usual = max(usual, enough_for(periods, PERIODS))
        if self.settings.recall >= HIGH:
            return usual
        return max(usual, min(enough_for(periods, MOST_PERIODS), int(HEADROOM * usual)))

    def _n_unsettled(self, needs: Int64s) -> int:
        """How many of the newest needs may still grow, unless hardly any other is known.

        When results are produced, nothing is known yet of those that need more than K: they come
        to light with their late members.
        """
        largest = self.latest_delays.largest
        if largest is None:
            return 0
        n = max(0, largest - self.k) // self.slack.width
        return n if len(needs) - n >= STRETCH else 0

    def _has_changed(self, latest: Int64s, usual: int) -> bool:
        """Whether a whole period of stretches lies on one side of what is usual."""
        if len(latest) < SLOTS_PER_PERIOD or len(self.stretches.known) < 2 * SLOTS_PER_PERIOD:
            return False
        # During a surge, what is usual rises already.
        before = usual if self._usual_before is None else self._usual_before
        return bool(latest.min() > before or RELIEF * latest.max() < usual)

    def _surges(self, needs: Int64s, usual: int) -> bool:
        """Whether stretches one after another need more than K is going to be."""
        row = self.stretches.one_after_another(IN_A_ROW)
        if row is not None and row.min() > usual:
            return True
        two = self.stretches.one_after_another(2)
        before = needs[: -2 * STRETCH]
        if two is None or len(before) < SLOTS_PER_PERIOD - STRETCH:
            return False
        return bool(two.min() > SURGE * max(1, int(before.max())))

    def _forget(self, n_slots: int) -> None:
        slot = self.slack.last - n_slots + 1
        self.stretches.forget_before(slot)
        self.periods.forget_before(slot)
        self.stretches.update(self.slack)
        self.periods.update(self.slack)

    def forecast(self) -> Forecast | None:
        """Recall that each K would have had over the last period."""
        return self._forecast

    def snapshot(self) -> State:
        """Everything it remembers."""
        return {
            "k": self.k,
            "follows_until": self._follows_until,
            "usual_before": self._usual_before,
            "slack": self.slack.snapshot(),
            "stretches": self.stretches.snapshot(),
            "periods": self.periods.snapshot(),
            "latest_delays": self.latest_delays.snapshot(),
        }

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        self.k, self._follows_until = state["k"], state["follows_until"]
        self._usual_before = state["usual_before"]
        self.slack.restore(state["slack"])
        self.stretches.restore(state["stretches"])
        self.periods.restore(state["periods"])
        self.latest_delays.restore(state["latest_delays"])
        self._forecast = self.slack.forecast()


class LatestDelays:
    """The largest delay of tuples that arrived lately.

    Parameters
    ----------
    horizon
        How long a tuple counts, by the largest timestamp of any stream. Where hardly any arrive,
        the latest ones count however old they are.
    """

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon
        self._stretches: deque[tuple[int, int, int]] = deque()

    def observe(self, profile: Profile) -> None:
        """Take in an interval."""
        if not profile.n_arrived:
            return
        clock = int(profile.ends.max())
        self._stretches.append((clock, profile.n_arrived, profile.largest_delay))
        n_others = sum(n for _, n, _ in self._stretches) - self._stretches[0][1]
        while self._stretches[0][0] <= clock - self.horizon and n_others >= ENOUGH_ARRIVALS:
            self._stretches.popleft()
            n_others -= self._stretches[0][1]

    @property
    def largest(self) -> int | None:
        """The largest delay; None before enough tuples have arrived."""
        if sum(n for _, n, _ in self._stretches) < ENOUGH_ARRIVALS:
            return None
        return max(largest for _, _, largest in self._stretches)

    def snapshot(self) -> State:
        """Everything it remembers."""
        return {"stretches": [list(stretch) for stretch in self._stretches]}

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        self._stretches = deque(tuple(stretch) for stretch in state["stretches"])
