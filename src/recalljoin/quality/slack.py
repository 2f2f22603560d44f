"""The required-slack policy: K from the results themselves.

A result is produced iff K is larger than the slack it requires, so for every stretch of time there
is one number, the K it would have needed (:mod:`recalljoin.quality.period_needs`). The policy takes
the smallest K that was enough for nearly all periods seen. While few periods were seen, the policy
looks at short stretches as well, a sixth of a period long: there are more short stretches than
periods, so what is usual is known sooner.

Disorder changes. When several stretches in a row need more than usual and the recall of the period
suffers, K follows these needs at once. When a whole period needed more than usual throughout, or
far less, that is the new usual, and earlier needs are forgotten; but K is kept for disorder that is
expected back (:mod:`recalljoin.quality.returns`). At last, K is corrected by the recall that is
measured (:mod:`recalljoin.quality.feedback`). docs/choosing-k.md has the reasons.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.quality.delays import LatestDelays, WaitByDelays
from recalljoin.quality.feedback import Feedback, may_miss
from recalljoin.quality.leads import Leads
from recalljoin.quality.period_needs import OPEN, Needs, enough_for
from recalljoin.quality.policy import Forecast, State, check_options, register
from recalljoin.quality.returns import kept_for_returns
from recalljoin.quality.slack_by_time import SLOTS_PER_PERIOD, SlackByTime, slot_width
from recalljoin.quality.tick_spans import TickSpans
from recalljoin.quality.unseen_losses import UnseenLosses
from recalljoin.query.durations import MAX_TIME

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s
    from recalljoin.quality.profile import Profile
    from recalljoin.quality.settings import PolicySettings

Phase = Literal["learning", "settled", "following"]
"""Whether K rests on few periods, on what is usual, or follows a change."""

STRETCH = SLOTS_PER_PERIOD // 6
"""Slots in a stretch."""
HIGH = 0.99
"""A high recall: from here on single bursts decide what a period needs, and to wait all the time
for the worst burst would take too long."""
PERIODS, PERIODS_HIGH = 0.97, 0.8
"""Share of whole periods that K must have been enough for: below a high recall, and from it on."""
SPREAD = 0.25
"""Below a high recall, K is larger by this part of the difference in need between an ordinary
period and the period that decides. Where periods differ much, the next one may differ more."""
FIRST = SLOTS_PER_PERIOD // 12
"""Slots of event time after which delays say how long to wait."""
LEARNED = 3 * SLOTS_PER_PERIOD // 2
"""Periods that must have been looked at, one after every slot, before they alone decide."""
LEARNED_TICKS = 6
"""Ticks in which these periods must have ended: a long tick tells of delays only once."""
SURGE, SURGING = 1.5, 3
"""In a surge, stretches need at least so many times the largest need known, and so many stretches
in a row do. Fewer stretches are a burst, which is over before K could follow it."""
IN_A_ROW = 4
"""This many stretches in a row that need more than K are no coincidence, and count as a surge."""
LEAP = 5
"""Sources that run apart by so many usual ticks within one tick were not read evenly."""
RELIEF = 4.0
"""A period whose stretches all need this many times less than usual is a lasting change."""


@register("slack")
class RequiredSlack:
    """Chooses the smallest K that was enough for nearly all periods seen.

    Parameters
    ----------
    settings
        Recall Γ, period P, initial K, and the step of K if there is one.
    share
        Share of the stretches, a sixth of a period each, that K must have been enough for.
        A larger share waits longer and misses the target less often.
    memory
        How long the needs of stretches are remembered, in periods. When the disorder changes,
        they are forgotten sooner.
    """

    name = "slack"
    uses_slack = True
    takes_initial_wait = True

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
        self.k = self._rounded(settings.first_wait)
        self.slack = SlackByTime(
            width=slot_width(settings.period),
            # All slots of a period that ended OPEN slots ago are kept, even after a long interval.
            n_slots=2 * SLOTS_PER_PERIOD + OPEN,
            n_open=SLOTS_PER_PERIOD + OPEN,
        )
        n_remembered = round(memory * SLOTS_PER_PERIOD)
        self.stretches = Needs(recall=settings.recall, length=STRETCH, memory=n_remembered)
        self.periods = Needs(recall=settings.recall, length=SLOTS_PER_PERIOD, memory=n_remembered)
        self.spans = TickSpans(settings.period // 6)
        self.delays = WaitByDelays(settings.recall)
        self.latest_delays = LatestDelays(settings.period // 6)
        self.unseen = UnseenLosses(settings.period)
        self.feedback = Feedback(settings.recall, settings.period)
        self.leads = Leads(settings)
        self._learned_k = 0
        self._follows_until = NEVER
        self._usual_before: int | None = None
        self._forecast: Forecast | None = None

    @property
    def estimated_recall(self) -> float | None:
        """Recall that K would have given over the last period."""
        if self._forecast is None:
            return None
        place = int(np.searchsorted(self._forecast.k, self.k, side="right")) - 1
        return float(self._forecast.recall[max(place, 0)])

    @property
    def phase(self) -> Phase:
        """Whether K rests on few periods, on what is usual, or follows a change."""
        if self.feedback.push > 1 or self._follows:
            return "following"
        return "settled" if self._is_learned else "learning"

    @property
    def lead(self) -> int:
        """How far the base time may be ahead of the slowest source; FOREVER: as far as it likes."""
        return 0 if self.leads.is_apart else self.leads.lead

    @property
    def leap(self) -> int:
        """By how much sources must run apart within one tick to be waited for at once.

        Sources that fall silent are behind by one tick more with every tick; a backlog is read many
        ticks at a time.
        """
        return max(LEAP * self.spans.usual, self.settings.period // 6)

    def observe(self, profile: Profile) -> None:
        """Take in an interval."""
        tells_delays = self.spans.tell_delays(profile)
        if self.lead != FOREVER:
            # The base time waits for sources: how far a tuple is behind it tells more than a delay.
            profile = replace(profile, largest_delay=profile.largest_behind)
        unseen = self.unseen.estimate(profile)
        self.slack.observe(profile, unseen=unseen, tells_delays=tells_delays)
        self.feedback.observe(profile, tells_delays=tells_delays)
        self.leads.look(profile, is_backlog=not tells_delays)
        if tells_delays and not self.leads.is_apart:
            self.leads.observe(profile)
        if tells_delays:
            self.latest_delays.observe(profile)
            if not self._is_learned:
                self.delays.observe(profile)

    def adapt(self) -> int:
        """Choose K; without any result there is nothing to go by, and K stays as it is."""
        self.stretches.update(self.slack)
        self.periods.update(self.slack)
        self._forecast = self.slack.forecast() or self._forecast
        chosen = self._choose()
        if chosen is not None:
            kept = self._kept
            k = self.feedback.corrected(max(chosen, kept), kept)
            # The largest delay seen so far says little while long delays could not be seen yet.
            if self.delays.is_short:
                k = max(k, self.settings.first_wait)
            if self.feedback.latest_delays.span < self._learned_k:
                k = max(k, chosen)
            # Who asks for a high recall and says where tuples are from wants bursts to be covered,
            # however calm it is now.
            self.k = self._rounded(max(k, self.leads.slack))
        self.leads.choose(self._settled(self.periods.known))
        return self.k

    @property
    def _kept(self) -> int:
        """K that is kept through a calm because disorder is expected back; 0 if it is not."""
        share = 1 - may_miss(self.settings.recall)
        periods = self._settled(self.periods.remembered)
        return kept_for_returns(self.stretches.remembered, periods, share=share)

    def _rounded(self, k: int) -> int:
        """K rounded up to a multiple of g, if g is set, and at most the largest K allowed."""
        g = self.settings.granularity or 1
        return min(-(-k // g) * g, MAX_TIME)

    @property
    def _is_learned(self) -> bool:
        n_settled = self.periods.n_known - self._n_growing
        n_wanted = max(LEARNED, LEARNED_TICKS * self.spans.usual // self.slack.width)
        return n_settled >= n_wanted and not self.delays.is_short

    @property
    def _follows(self) -> bool:
        return NEVER < self.slack.last <= self._follows_until

    def _choose(self) -> int | None:
        needs = self.stretches.known
        if not len(needs):
            # No stretch is known yet; delays are, as soon as some time has passed.
            if self.delays.clock_span < self.slack.width * FIRST:
                return None
            return self._until_known if self.delays.is_short else self.delays.k
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
        if self._follows and len(latest):
            return max(usual, self._as_late_as_now(int(latest.max())))
        self._usual_before = None
        return usual

    def _as_late_as_now(self, k: int) -> int:
        """K that follows a surge: no larger than the delays of tuples just now.

        When a silent source sends all its tuples at once, their needs look like a surge, but the
        surge is over as soon as they have come.
        """
        largest = self.latest_delays.largest
        return k if largest is None else min(k, largest + 1)

    def _usual(self, needs: Int64s) -> int:
        stretches = self._settled(needs)
        # In the first two periods no stretch is left out as unusual, and in the next two fewer
        # stretches than `share` allows: it takes that long to know what is usual.
        trust = len(stretches) / (2 * SLOTS_PER_PERIOD) - 1
        usual = enough_for(stretches, 1 - (1 - self.share) * min(1.0, max(0.0, trust)))
        periods = self.periods.known
        if not self._is_learned:
            return self._careful(usual, periods)
        periods = self._settled(periods)
        # Stretches only stand in for periods, so they must not ask for more than any period did.
        usual = min(usual, int(periods.max()))
        if self.settings.recall >= HIGH:
            return max(usual, enough_for(periods, PERIODS_HIGH))
        decisive, ordinary = enough_for(periods, PERIODS), enough_for(periods, 0.5)
        return max(usual, decisive + round(SPREAD * (decisive - ordinary)))

    @property
    def _until_known(self) -> int:
        """K until delays were seen for long enough: the initial wait, or all the time seen."""
        is_asked = self.settings.initial_wait is not None
        return self.settings.first_wait if is_asked else self.delays.clock_span

    def _careful(self, usual: int, periods: Int64s) -> int:
        """K while few periods are known: no more than delays ask for, no less than periods need."""
        by_delays = self.delays.k
        if by_delays is None:
            return usual
        if self.delays.is_short:
            return max(usual, self._until_known)
        settled = periods[: max(0, len(periods) - self._n_growing)]
        if not len(settled):
            return by_delays
        return max(min(usual, by_delays), int(settled.max()))

    @property
    def _n_growing(self) -> int:
        """How many of the newest needs may still grow.

        When results are produced, nothing is known yet of results that need more than K: they come
        to light with their late members, one tick later at the earliest.
        """
        largest = self.feedback.latest_delays.largest
        if largest is None:
            return 0
        return (max(0, largest - self.k) + self.spans.usual) // self.slack.width

    def _settled(self, needs: Int64s) -> Int64s:
        """Needs that can no longer grow; all needs if less than a period's worth is left.

        Less than a period says little, as disorder may come and go with every batch.
        """
        n = len(needs) - self._n_growing
        return needs[:n] if n >= SLOTS_PER_PERIOD else needs

    def _has_changed(self, latest: Int64s, usual: int) -> bool:
        """Whether a whole period of stretches lies on one side of what is usual."""
        if len(latest) < SLOTS_PER_PERIOD or not self._is_learned:
            return False
        # During a surge the usual need rises already.
        before = usual if self._usual_before is None else self._usual_before
        if latest.min() > before:
            return True
        # A calm period after a burst is no change: it was as calm before the burst.
        earlier = self.stretches.known[: -len(latest)]
        ordinary = enough_for(earlier, 0.5) if len(earlier) else usual
        return bool(RELIEF * latest.max() < min(usual, ordinary))

    def _surges(self, needs: Int64s, usual: int) -> bool:
        """Whether several stretches in a row need more than K, and the period misses its target.

        A burst that the rest of its period makes up for is not worth following.
        """
        of_period = self.periods.latest(1)
        if len(of_period) and of_period[0] <= usual:
            return False
        row = self.stretches.one_after_another(IN_A_ROW)
        if row is not None and row.min() > usual:
            return True
        row = self.stretches.one_after_another(SURGING)
        before = needs[: -SURGING * STRETCH]
        if row is None or len(before) < SLOTS_PER_PERIOD - STRETCH:
            return False
        return bool(row.min() > SURGE * max(1, int(before.max())))

    def _forget(self, n_slots: int) -> None:
        slot = self.slack.last - n_slots + 1
        self.stretches.forget_before(slot)
        self.periods.forget_before(slot)
        self.delays = WaitByDelays(self.settings.recall)
        self.stretches.update(self.slack)
        self.periods.update(self.slack)

    def forecast(self) -> Forecast | None:
        """Recall that each K would have had over the last period."""
        return self._forecast

    def learn(self, earlier: State) -> None:
        """Take over what an earlier run has learnt, from its snapshot, and begin with its K."""
        self.stretches.learn(earlier["stretches"])
        self.periods.learn(earlier["periods"])
        self.k = self._learned_k = self._rounded(earlier["k"])

    def snapshot(self) -> State:
        """Everything it remembers."""
        return {
            "k": self.k,
            "learned_k": self._learned_k,
            "follows_until": self._follows_until,
            "usual_before": self._usual_before,
            "slack": self.slack.snapshot(),
            "stretches": self.stretches.snapshot(),
            "periods": self.periods.snapshot(),
            "spans": self.spans.snapshot(),
            "delays": self.delays.snapshot(),
            "latest_delays": self.latest_delays.snapshot(),
            "unseen": self.unseen.snapshot(),
            "feedback": self.feedback.snapshot(),
            "leads": self.leads.snapshot(),
        }

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        self.k, self._follows_until = state["k"], state["follows_until"]
        self._learned_k = state["learned_k"]
        self._usual_before = state["usual_before"]
        self.slack.restore(state["slack"])
        self.leads.restore(state["leads"])
        self.stretches.restore(state["stretches"])
        self.periods.restore(state["periods"])
        self.spans.restore(state["spans"])
        self.delays.restore(state["delays"])
        self.latest_delays.restore(state["latest_delays"])
        self.unseen.restore(state["unseen"])
        self.feedback.restore(state["feedback"])
        self._forecast = self.slack.forecast()
