"""Plans batches beside the driver: chooses the K of every batch, and what else goes with it.

When a batch is to be planned, the one before has finished. The planner reads what the cells have
left in the control log, and lets the policy choose K and the horizon.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
import uuid
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from recalljoin.quality.source_lags import say_of_sources
from recalljoin.spark.alarms import Alarms
from recalljoin.spark.cells import NOT_HOT
from recalljoin.spark.control_log import Run
from recalljoin.spark.figures import MeasuredRecall
from recalljoin.spark.hot_keys import (
    FIRST,
    VERSIONS_KEPT,
    HotTracker,
    Version,
    laid_out,
    next_versions,
    version_at,
)
from recalljoin.spark.identity import check_identity, check_layout
from recalljoin.spark.options import METRICS
from recalljoin.spark.packing import Control
from recalljoin.spark.rolling import Rolling
from recalljoin.spark.waiting import GENEROUS, Waiting, WaitLimits

if TYPE_CHECKING:
    from recalljoin.quality.adaptation import PolicyPlan
    from recalljoin.quality.horizon import HorizonPlan
    from recalljoin.quality.source_lags import SourcePlan
    from recalljoin.spark.cells import Layout
    from recalljoin.spark.chained import Upstream
    from recalljoin.spark.control_log import ControlLog
    from recalljoin.spark.notices import Notices
    from recalljoin.spark.report import Report

_LOG = logging.getLogger(__name__)

CONTROL_LOG = "control_log"
"""Entry of an offset with the place of the control log, so that a query's progress tells it."""
LAYOUT = 6
"""How the state of a checkpoint is laid out. Offsets say so, because a state variable of another
name would look like an empty state."""
_SHORTEST_LOOK = 0.1
"""Seconds between two looks at the control log while there is no data."""


@dataclass(frozen=True, kw_only=True)
class ControlPlan:
    """What the control source needs to know."""

    log: ControlLog
    layout: Layout
    """The cells that are asked for, and where they live."""
    identity: str
    policy: PolicyPlan
    horizon: HorizonPlan | None
    """Chooses how long tuples are remembered; None where the cell chooses."""
    heartbeat: int | None = None
    """Milliseconds between batches without data; None for no such batch after the first."""
    flush: bool = False
    """Whether the end of a bounded run releases everything."""
    notices: Notices | None = None
    """Warns of strange input in the driver's log; new, so that nothing has been said yet."""
    finds_hot_keys: bool = False
    """Whether keys found to be hot are to be spread over the cells."""
    limits: WaitLimits = GENEROUS
    """How much may wait for a stream that is behind."""
    sources: SourcePlan | None = None
    """How sources are followed; None where streams have none."""
    partitions: bool = False
    """Whether the sources are partitions of Kafka that no query names."""
    upstream: tuple[Upstream, ...] = ()
    """Joins whose results are streams of this join."""
    name: str = METRICS
    """Name of the join's metrics in the query's progress."""
    text: str = ""
    """What the join does and how, for people."""


class BatchPlanner:
    """Plans the batches of one query.

    Parameters
    ----------
    plan
        What it needs to know.
    """

    def __init__(self, plan: ControlPlan) -> None:
        self._plan = plan
        self._adaptation = plan.policy.adaptation(plan.horizon)
        self._measured = MeasuredRecall()
        self._waiting = Waiting(plan.limits)
        self._alarms = Alarms(plan.name)
        self._last_batch = -1
        self._last_clock: int | None = None
        self._last_had_data = True
        self._first_call = True
        self._bounded = False
        self._looked_at = float("-inf")
        self._rolling = Rolling(plan.log)
        self._has_begun = False
        self._learned_until = -1
        self._tracker = HotTracker(plan.layout.grid) if plan.finds_hot_keys else None
        self._told: list[Any] | None = None
        self._forgotten = 0
        self._has_claimed = self._has_said = False

    def first_offset(self) -> dict[str, Any]:
        """The offset before the first batch."""
        return {
            "n": 0,
            "k": 0,
            "phase": None,
            "clock": 0,
            "flush": False,
            "recall": None,
            "retention": None,
            "limited": False,
            "release": None,
            "sources": None,
            "partitions": self._plan.partitions,
            "hot": [Version.of(0, NOT_HOT, self._plan.layout).to_json()],
            "layout": LAYOUT,
            "identity": self._plan.identity,
            # Names this query, as the control source is not told the name that Spark has for it.
            "owner": uuid.uuid4().hex,
            CONTROL_LOG: self._plan.log.address,
        }

    def come_to_an_end(self) -> None:
        """Plan a bounded run."""
        self._bounded = True

    def next_offset(self, start: dict[str, Any]) -> dict[str, Any]:
        """Offset at the end of the next batch, with its K; ``start`` if there is no next batch."""
        self._check(start)
        # Offsets of an old checkpoint have no owner.
        owner = start.get("owner") or uuid.uuid4().hex
        if self._first_call:
            self._plan.log.check_owner(owner)
        is_up_to_date = self._catch_up()
        now = max(int(time.time() * 1000), start["clock"])
        release = self._waiting.release(now, bounded=self._bounded)
        # The first batch of a run may hold data, even if the last batch of the run before did not.
        if not (
            self._first_call
            or self._last_had_data
            or release is not None
            or self._is_due(start, now)
        ):
            return start
        # In a bounded run, two batches without data in a row are the end.
        flush = (
            self._plan.flush
            and self._bounded
            and not self._last_had_data
            and self._upstream_has_ended()
        )
        # Reports may come late, and batches be passed over between two runs: where tuples go is
        # changed only after a batch that this run has planned last, as its number is known then.
        is_up_to_date &= self._last_clock == start["clock"] and not self._first_call
        self._first_call = False
        versions = versions_in(start)
        if is_up_to_date:
            versions = self._next_versions(versions, self._last_batch + 1)
        hot = [each.to_json() for each in versions]
        # This is written before Spark runs the batch, as the batch's tasks read it.
        self._tell_tasks(hot)
        self._say_if_limited(start.get("limited", False))
        return {
            "n": start["n"] + 1,
            "k": self._slack(start),
            "phase": self._adaptation.phase,
            "clock": now,
            "flush": flush,
            "recall": self._measured.recall,
            "retention": self._adaptation.retention,
            "limited": self._adaptation.is_limited,
            "release": release,
            "sources": self._sources(start),
            "partitions": self._follows_partitions(start),
            "hot": hot,
            "layout": LAYOUT,
            "identity": self._plan.identity,
            "owner": owner,
            CONTROL_LOG: self._plan.log.address,
        }

    def _check(self, offset: dict[str, Any]) -> None:
        """Refuse a checkpoint of another release, or of another join."""
        check_layout(offset.get("layout"), LAYOUT)
        check_identity(offset["identity"], self._plan.identity)

    def _next_versions(self, versions: tuple[Version, ...], planned: int) -> tuple[Version, ...]:
        """Where tuples go, once batch ``planned`` is planned."""
        latest = version_at(versions, planned)
        if planned - latest.since >= VERSIONS_KEPT and self._forgotten < latest.since:
            self._plan.log.forget_moves(latest.since + 1)
            self._forgotten = latest.since
        before, versions = versions, laid_out(versions, self._plan.layout, planned)
        if versions != before:
            was, wanted = (
                version_at(before, planned + 1).layout(self._plan.layout),
                self._plan.layout,
            )
            _LOG.warning(
                "the join goes on in %d cells and %d groups from batch %d on; it had %d and %d",
                wanted.grid.n_cells,
                wanted.n_groups,
                planned + 1,
                was.grid.n_cells,
                was.n_groups,
            )
        if self._tracker is None:
            return versions
        return next_versions(versions, self._tracker, planned)

    def _slack(self, start: dict[str, Any]) -> int:
        """K of the next batch; without any report, no less than K of the batch before."""
        if self._last_batch < 0:
            # The query is new, or its control log was lost.
            return max(int(start["k"]), self._adaptation.k)
        return self._adaptation.k

    def _follows_partitions(self, start: dict[str, Any]) -> bool:
        """Whether partitions are followed: the checkpoint must have begun so, and never stopped."""
        return self._plan.partitions and start.get("partitions", False)

    def _sources(self, start: dict[str, Any]) -> dict[str, Any] | None:
        plan = self._plan.sources
        if plan is None or self._plan.partitions > self._follows_partitions(start):
            return None
        return say_of_sources(plan, self._adaptation.lead, self._adaptation.leap)

    def _say_if_limited(self, before: bool) -> None:
        is_limited = self._adaptation.is_limited
        if is_limited and not before:
            _LOG.warning(
                "`horizon_memory` makes the join remember tuples for less time than their delays "
                "ask for: losses with later tuples are estimated, and recall_at_least is low. A "
                "larger `horizon_memory` makes them known"
            )
        elif before and not is_limited:
            _LOG.warning("`horizon_memory` no longer shortens how long the join remembers tuples")

    def _tell_tasks(self, hot: list[Any]) -> None:
        if hot != self._told:
            self._plan.log.write_versions(Version.from_json(each) for each in hot)
            self._told = hot

    def _is_due(self, start: dict[str, Any], now: int) -> bool:
        if self._bounded:
            return self._plan.flush and not start["flush"] and self._upstream_has_ended()
        heartbeat = self._plan.heartbeat
        return heartbeat is not None and now - start["clock"] >= heartbeat

    def _upstream_has_ended(self) -> bool:
        """Whether the joins before this one have ended; reports of an earlier run do not count."""
        upstream = self._plan.upstream
        return not upstream or (not self._first_call and all(join.has_ended() for join in upstream))

    def _catch_up(self) -> bool:
        """Take in every reported batch not seen before, in order; says whether there was any.

        If there was, the last of these batches is the one before the batch to be planned.
        """
        now = time.monotonic()
        is_waiting = not self._last_had_data and not self._bounded
        if is_waiting and now - self._looked_at < _SHORTEST_LOOK:
            # While no data come, Spark asks a hundred times a second.
            return False
        self._looked_at = now
        if not self._has_begun:
            self._begin()
        before = self._last_batch
        for report in self._plan.log.reports_after(self._last_batch):
            self._observe(report)
            self._alarms.observe(report)
            if self._tracker is not None:
                self._tracker.observe(report.n_arrived, report.heavy)
            # A restart has seen less of what came before than the run that noted its figures.
            self._rolling.add(report, report.figures or self._measured.figures())
            self._last_batch, self._last_clock = report.batch, report.clock
            self._last_had_data = report.has_data
        self._alarms.speak()
        if self._last_batch > before:
            self._rolling.put_away(self._learned)
        return self._last_batch > before

    def _begin(self) -> None:
        """Begin with what is rolled up of batches long ago, and with what was learned from them."""
        rolled = self._rolling.begin()
        learned = rolled.learned
        if learned is not None and learned["for"] == self._settings:
            self._adaptation.restore(learned["state"])
            self._learned_until = learned["batch"]
        self._measured = MeasuredRecall(rolled.since)
        for stretch in rolled.with_times:
            self._observe(stretch.report)
        self._last_batch = rolled.until
        self._has_begun = True

    def _observe(self, report: Report) -> None:
        if report.batch > self._learned_until:
            report.show_to(self._adaptation)
        self._measured.observe(report)
        self._waiting.observe(report)
        if self._plan.notices is not None:
            self._plan.notices.observe(report)

    @cached_property
    def _settings(self) -> str:
        """What the policy is told, so that its state is not given to a policy that differs."""
        policy = self._plan.policy
        taught = hashlib.sha256(json.dumps(policy.learned, sort_keys=True).encode()).hexdigest()
        return repr((policy.settings, policy.choice, policy.options, taught, self._plan.horizon))

    def _learned(self) -> dict[str, Any] | None:
        """State of the policy; None for a user's own policy, which learns from reports alone."""
        if not isinstance(self._plan.policy.choice, str):
            return None
        state = self._adaptation.snapshot()
        return {"batch": self._last_batch, "for": self._settings, "state": state}

    def rows(self, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[Any, ...]]:
        """What is said to the cells in the batch that ends with ``end``: a row for each cell."""
        self._check(end)
        if end["n"] == start["n"]:
            return []
        # By now Spark has written the offset: this query keeps its owner after a crash.
        if "owner" in end and not self._has_claimed:
            self._plan.log.claim(end["owner"])
            self._has_claimed = True
        if not self._has_said:
            self._plan.log.write_run(Run(end["clock"], self._plan.name, self._plan.text))
            self._has_said = True
        # The offset says where tuples go as well, in case the control log was lost.
        self._tell_tasks([each.to_json() for each in versions_in(end)])
        # Offsets of an old checkpoint lack some entries.
        control = Control(
            k=end["k"],
            clock=end["clock"],
            flush=end["flush"],
            recall=end.get("recall"),
            retention=end.get("retention"),
            limited=end.get("limited", False),
            phase=end.get("phase"),
            release=end.get("release"),
            sources=end["sources"],
        )
        head = control.to_json()
        # What was decided with the offset before counts by now, and nothing later does.
        layout = versions_in(start)[-1].layout(self._plan.layout)
        return [(key, cell, head, None) for cell, key in enumerate(layout.keys)]


def versions_in(offset: dict[str, Any]) -> tuple[Version, ...]:
    """Where tuples go from which batch on, as an offset says."""
    versions = tuple(Version.from_json(each) for each in offset["hot"])
    if versions and versions[0].shares is not None:
        return versions
    # Releases before this one have their one number of cells in the identity.
    written = json.loads(offset["identity"])
    shares, n_groups = tuple(written["cells"]), written["groups"]
    begin = () if versions and versions[0].since == 0 else (FIRST,)
    return tuple(v._replace(shares=shares, n_groups=n_groups) for v in (*begin, *versions))
