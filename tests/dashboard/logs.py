"""Control logs to be looked at: made by real joins, or put together in any length."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from recalljoin.spark.control_log import ControlLog
from tests.spark.live import MINUTE, SECOND, Feed, Live, both

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

START = 1_790_000_000
"""When the joins began, in seconds since 1970."""


def live_join(
    folder: Path, monkeypatch: pytest.MonkeyPatch, feeds: list[Feed], **more: Any
) -> Live:
    """A join whose clock goes with what arrives."""
    live: Live | None = None
    n_calls = 0

    def now() -> float:
        # The clock goes on a little whenever it is looked at.
        nonlocal n_calls
        n_calls += 1
        return START + (0 if live is None else live.now / 1000) + n_calls % 4 / 10

    monkeypatch.setattr("recalljoin.spark.batch_planner.time.time", now)
    live = Live(folder, feeds, **more)
    return live


def disordered(folder: Path, monkeypatch: pytest.MonkeyPatch, *, minutes: int = 10) -> Live:
    """A join with a restart, whose delays become much longer in the second half."""
    half = minutes * MINUTE // 2
    calm, wild = both(3, half), both(4, half, late=0.5, mean=20 * SECOND)
    feeds = [
        one.then(Feed.of(two.ts + half, two.key, two.at + half))
        for one, two in zip(calm, wild, strict=True)
    ]
    live = live_join(folder, monkeypatch, feeds)
    live.run(half, batch=5 * SECOND)
    live.start()
    return live.run(2 * half, batch=5 * SECOND)


def long_log(folder: Path, source: ControlLog, n: int) -> ControlLog:
    """A log of ``n`` batches, which repeat the last ones of another log later and later."""
    reports = list(source.reports_after(-1))
    reports = [each for each in reports if each.profile.n_produced][-20:]
    content = json.loads(reports[-1].to_json())
    step = reports[-1].watermark - reports[-2].watermark
    lines = []
    for number in range(n):
        base = json.loads(reports[number % len(reports)].to_json())
        shift = step * number - (base["watermark"] - content["watermark"])
        for name in ("watermark", "base_time"):
            base[name] += shift
        base["local_times"] = [time + shift for time in base["local_times"]]
        profile, bucket = base["profile"], base["profile"]["bucket"]
        for tally in (profile["produced"], profile["lost"], *profile["received"]):
            tally[0] = [key + shift // bucket for key in tally[0]]
        for name in ("join_time", "base_time"):
            profile[name] += shift
        for name in ("begins", "ends"):
            profile[name] = [time + shift if abs(time) < 2**62 else time for time in profile[name]]
        base["batch"], base["clock"] = number, START * 1000 + 1000 * number
        lines.append(json.dumps(base))
    log = ControlLog(str(folder))
    for begin in range(0, n, 256):
        part = lines[begin : begin + 256]
        name = f"history/{begin:012d}-{begin + len(part) - 1:012d}.jsonl"
        log.write(name, "\n".join(part).encode())
    return log


def stops(feed: Feed, at: int) -> Feed:
    """The same stream, of which nothing comes any more."""
    kept = np.flatnonzero(feed.at < at)
    return Feed(feed.ts[kept], feed.key[kept], feed.at[kept])
