"""The driver's log says what may be wrong with the times of a running query, once."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from recalljoin.engine.times import NEVER
from recalljoin.quality.profile import Profile
from recalljoin.spark.notices import Notices
from recalljoin.spark.report import Report

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_700_000_000


def report(local_times: tuple[int, int], *, batch: int = 0, **refused: Any) -> Report:
    counts: tuple[dict[str, int], ...] = tuple(refused.get(name, {}) for name in ("s1", "s2"))
    return Report(
        batch=batch, cell=None, n_cells=1, streams=("s1", "s2"), unit="us", period=1,
        windows=(1, 1), retention=1, limited=False, kept_bytes=0, k=0, clock=0, watermark=0,
        base_time=0, local_times=local_times, earliest=0, has_data=True, n_arrived=(1, 1),
        refused=counts, n_buffered=0, n_kept=0, n_delivered=2,
        loads=(2,), n_restored=0, profile=Profile.empty(2, granularity=1, bucket=1),
    )  # fmt: skip


def said(caplog: pytest.LogCaptureFixture, *reports: Report) -> list[str]:
    notices = Notices(("s2",), "ms")
    with caplog.at_level(logging.WARNING, "recalljoin"):
        for each in reports:
            notices.observe(each)
    return [record.getMessage() for record in caplog.records]


def test_times_in_another_unit_are_mentioned_when_the_stream_begins(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # Timestamps of the first stream are what they are, whatever the year.
    seconds = NOW * 1000
    messages = said(caplog, report((5, NEVER)), report((5, seconds)), report((5, seconds + 7000)))
    assert messages == [
        "times of stream `s2` are taken as milliseconds: 1700000000 is 1970-01-20. They look like "
        "seconds since 1970; if they are, give time_unit='s'"
    ]


def test_sane_times_are_not_mentioned(caplog: pytest.LogCaptureFixture) -> None:
    assert said(caplog, report((5, NOW * 10**6)), report((5, NOW * 1000))) == []
    assert said(caplog, report((5, 10**10))) == []


def test_refused_times_are_mentioned_once_for_each_stream_and_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ahead = {"time far ahead of its stream": 3}
    messages = said(
        caplog,
        report((5, 5), batch=7, s1=ahead),
        report((5, 5), batch=8, s1=ahead, s2={"time out of range": 2, "null time": 1}),
    )
    end = (
        "; rj.open(control_log).refused('{}') shows them, its progress() counts them and those to "
        "come"
    )
    assert messages == [
        "stream `s1`: rows of batch 7 are refused (3), as their time is further ahead of the "
        "stream than `max_ahead`" + end.format("s1"),
        "stream `s2`: rows of batch 8 are refused (2), as their time is out of range if its "
        "integers count in ms (give `time_unit` if they do not)" + end.format("s2"),
    ]


DRIVER = """
import sys
from pathlib import Path
import recalljoin as rj
from recalljoin.experiments.session import local_session

spark = local_session(debug=True)
folder = Path(sys.argv[1])
frames = []
for name in "ab":
    rows = [(1_700_000_000 + n, n % 3) for n in range(50)]
    if name == "b":
        rows.append((7_258_118_400_000, 1))
    frame = spark.createDataFrame(rows, "ts bigint, k bigint")
    frame.coalesce(1).write.parquet(str(folder / name))
    frames.append(spark.readStream.schema(frame.schema).parquet(str(folder / name)))
a, b = frames
joined = rj.join(
    rj.Stream("a", a, window="5 s"), rj.Stream("b", b, window="5 s"), on="a.k = b.k", k=0,
    control_log=str(folder / "log"),
)
query = joined.writeStream.format("noop").option("checkpointLocation", str(folder / "c"))
query.trigger(availableNow=True).start().awaitTermination()
"""


@pytest.mark.spark
def test_what_is_said_reaches_the_output_of_the_driver(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(tmp_path)],
        check=False, capture_output=True, text=True, timeout=300, env=dict(os.environ),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for name in "ab":
        text = f"times of stream `{name}` are taken as milliseconds: 17000000"
        assert done.stderr.count(text) == 1
    assert done.stderr.count("stream `b`: rows of batch 0 are refused (1), as their time is") == 1
