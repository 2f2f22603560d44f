"""The numbers of joins in the text format of Prometheus.

What is counted is counted since the log of a join began, across restarts. ``docs/operations.md``
lists the names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from recalljoin.dashboard.followed import FollowedJoin

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_COUNTERS: Final = {
    "results_total": ("produced", "Results produced."),
    "lost_results_total": ("lost", "True results that were lost with late tuples."),
    "refused_rows_total": ("refused", "Rows that could not take part, whatever the reason."),
    "beyond_horizon_tuples_total": ("beyond", "Late tuples whose losses are not known."),
    "released_early_tuples_total": ("released_early", "Tuples released as too many waited."),
    "uncomputable_total": ("uncomputable", "Conditions that could not be computed."),
    "nulls_total": ("nulls", "Rows that left without a partner."),
    "false_nulls_total": ("false_nulls", "Rows of these whose partner came later."),
    "restored_cells_total": ("restored", "Cells that were rebuilt from state."),
}
_GAUGES: Final = {
    "batch": ("batch", "Number of the newest batch."),
    "planned_timestamp_seconds": ("planned", "When the newest batch was planned."),
    "wait_seconds": ("k", "K, how long tuples wait for late ones."),
    "max_wait_seconds": ("max_wait", "The longest K allowed."),
    "recall": ("recall", "Recall of the last period, as estimated after the newest batch."),
    "recall_target": ("target", "The recall asked for."),
    "recall_settled": ("recall_settled", "Lowest recall of the newest periods that are over."),
    "latency_seconds": ("latency", "How long the newest results waited on average."),
    "batch_seconds": ("took", "How long the newest batch took."),
    "below_target": ("below_target", "1 while recall is below its target."),
    "at_max_wait": ("at_max_wait", "1 while K has reached max_wait."),
    "ended": ("has_ended", "1 after the end of the input."),
    "horizon_limited": ("horizon_limited", "1 while memory makes the horizon too short."),
    "buffered_tuples": ("buffered", "Tuples that wait."),
    "kept_tuples": ("kept", "Tuples in windows and horizon, copies included."),
    "kept_bytes": ("kept_bytes", "Approximate size of these tuples."),
    "cells": ("n_cells", "Operator instances."),
}
_OF_STREAMS: Final = {
    "stream_behind_seconds": ("behind", "How far a stream is behind the furthest one."),
    "stream_lag_seconds": ("lag", "How far a stream is behind the driver's clock."),
    "stream_rate": ("rate", "Tuples a second in the newest batch."),
    "stream_idle": ("idle", "1 while others do not wait for the stream."),
}
_OF_SOURCES: Final = {
    "sources": ("n", "Sources that have a clock."),
    "source_behind_seconds": ("behind", "How far the slowest source is behind the streams."),
    "held_by_source_seconds": ("held", "The same while the join waits for that source, else 0."),
}


def metrics_text(joins: Iterable[FollowedJoin]) -> str:
    """All metrics of all joins."""
    found = [({"join": now["name"], "log": now["folder"]}, now) for now in _known(joins)]
    lines: list[str] = []

    def family(name: str, kind: str, what: str, samples: Iterable[tuple[Any, Any]]) -> None:
        told = [(labels, value) for labels, value in samples if value is not None]
        if told:
            lines.append(f"# HELP recalljoin_{name} {what}")
            lines.append(f"# TYPE recalljoin_{name} {kind}")
            lines.extend(f"recalljoin_{name}{{{_labels(each)}}} {_text(v)}" for each, v in told)

    for name, (key, what) in _GAUGES.items():
        family(name, "gauge", what, ((of, now.get(key)) for of, now in found))
    for name, (key, what) in _COUNTERS.items():
        family(name, "counter", what, ((of, now["totals"].get(key, 0)) for of, now in found))
    streams = [(of | {"stream": each["name"]}, now, each) for of, now in found
               for each in now["streams"]]  # fmt: skip
    for name, (key, what) in _OF_STREAMS.items():
        family(name, "gauge", what, ((of, each[key]) for of, _, each in streams))
    stalled = "1 while everything waits for the stream and nothing comes of it."
    family("stream_stalled", "gauge", stalled,
           ((of, each["name"] == now["stalled"]) for of, now, each in streams))  # fmt: skip
    for name, what in (("arrived", "Tuples that arrived."), ("late", "Tuples that came too late.")):
        family(
            f"{name}_tuples_total", "counter", what, ((of, each[name]) for of, _, each in streams)
        )
    sources = [(of, each | {"held": each["held_for"] or 0.0}) for of, now in found
               if (each := now["sources"]) is not None]  # fmt: skip
    for name, (key, what) in _OF_SOURCES.items():
        family(name, "gauge", what, ((of, each[key]) for of, each in sources))
    within = [(of | {"share": f"{int(name[1:]) / 100:g}"}, value) for of, each in sources
              for name, value in (each["within"] or {}).items()]  # fmt: skip
    what = "How far a share of all sources is behind the slowest stream at most."
    family("sources_behind_seconds", "gauge", what, within)
    refused = [(of | {"stream": each["stream"], "reason": each["reason"]}, each["n"])
               for of, now in found for each in now["refused"]]  # fmt: skip
    family("refused_rows_by_reason_total", "counter", "Rows that could not take part.", refused)
    stages = [(of | {"stage": stage}, value) for of, now in found
              for stage, value in now["stages"].items()]  # fmt: skip
    what = "Time by stage over all cells, as the mean of the newest batches."
    family("stage_seconds", "gauge", what, stages)
    load = [(of | {"cell": str(cell)}, value) for of, now in found
            for cell, value in enumerate(now["loads"])]  # fmt: skip
    what = "Tuples taken in and results found by a cell, as the mean of the newest batches."
    family("cell_load", "gauge", what, load)
    return "\n".join(lines) + "\n" if lines else ""


def _known(joins: Iterable[FollowedJoin]) -> Iterator[dict[str, Any]]:
    for join in joins:
        now = join.now()
        if "batch" in now:
            yield now


def _labels(labels: dict[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _text(value: float) -> str:
    return str(int(value)) if isinstance(value, bool | int) else repr(float(value))
