"""Kill driver and broker of a job while streams are replayed, and see that nobody can tell.

``python -m tests.spark.soak_kafka [MINUTES [DRIVER_KILLS [BROKER_KILLS]]]``
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recalljoin.jobs.run import looks, start
from recalljoin.spark.control_log import ControlLog
from tests.reference.tick import run_ticks
from tests.spark.broker import CONNECTOR, Broker, connector_jars
from tests.spark.kafka_jobs import WINDOWS, KafkaJob, places
from tests.spark.recorded import record
from tests.spark.soak_crash import ROOT, n_committed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.recorded import Recording

STARTED = "the job runs"
COMMAND = "from recalljoin.cli import main; main()"
RETAIN = '[spark]\n"spark.sql.streaming.minBatchesToRetain" = 100000\n'
"""Spark keeps its log of offsets, by which it is known which batch took which tuple."""


class Driver:
    """``recalljoin run`` in a process of its own, to be killed and started again."""

    def __init__(self, job_file: Path) -> None:
        self._job_file = job_file
        self._log = job_file.with_name("driver.log")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        self._log.write_bytes(b"")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-u", "-c", COMMAND, "run", str(self._job_file)],
                cwd=ROOT,
                env={**os.environ, "RECALLJOIN_JARS": str(CONNECTOR)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_until_it_runs(self) -> None:
        """Until the query has started."""
        while STARTED not in self.told():
            self.must_live()
            time.sleep(0.05)

    def must_live(self) -> None:
        """It ends when it is killed, and not before."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(self.told()[-4000:])

    def told(self) -> str:
        """What it has printed since its start."""
        return self._log.read_text(errors="replace")

    def kill(self) -> None:
        """End it and everything it started, at once and without warning."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@dataclass
class Hunt:
    """A replay of recorded tuples through a job, with kills on the way."""

    spark: SparkSession
    kafka: KafkaJob
    recording: Recording
    tick_ms: int
    seed: int = 0
    driver_kills: int = 0
    broker_kills: int = 0

    def run(self, *, drivers: int, brokers: int) -> Counter[tuple[int, ...]]:
        """Replay, kill as often as asked, and bring the job to its end; what the sink has then."""
        chance = random.Random(self.seed)
        kinds = ["driver"] * drivers + ["broker"] * brokers
        chance.shuffle(kinds)
        n = len(self.recording.tuples)
        # Kills are spread over the replay; the first rows come undisturbed.
        due = [n * (each + 1) // (len(kinds) + 2) for each in range(len(kinds))]
        driver = Driver(self.kafka.write(more='trigger = "300 ms"', end=RETAIN))
        try:
            rows = self.kafka.produce(self.spark, self.recording, speed=1.0, tick_ms=self.tick_ms)
            next(rows)
            driver.start()
            driver.wait_until_it_runs()
            self._wait_for_batches(driver, 1)
            for written in rows:
                driver.must_live()
                while due and written >= due[0]:
                    due.pop(0)
                    if kinds.pop(0) == "driver":
                        self._kill_driver(driver, chance)
                    else:
                        self._kill_broker(driver, chance)
            driver.must_live()
        finally:
            driver.kill()
        job = self.kafka.job(more="once = true", join="flush = true\n")
        list(looks(start(self.spark, job), job))
        return self.kafka.results(self.spark)

    def _wait_for_batches(self, driver: Driver, n: int, *, patience: float = 300) -> None:
        """Until the driver has done some more batches; if no tuples come, not for ever."""
        wanted, deadline = n_committed(self.kafka.folder) + n, time.monotonic() + patience
        while n_committed(self.kafka.folder) < wanted and time.monotonic() < deadline:
            driver.must_live()
            time.sleep(0.02)

    def _kill_driver(self, driver: Driver, chance: random.Random) -> None:
        self._wait_for_batches(driver, chance.choice([0, 1, 2]), patience=30)
        time.sleep(chance.uniform(0, 0.6))
        driver.kill()
        self.driver_kills += 1
        driver.start()
        driver.wait_until_it_runs()

    def _kill_broker(self, driver: Driver, chance: random.Random) -> None:
        # Tuples go on being written meanwhile: the writer has to wait, too.
        self.kafka.broker.kill()
        self.broker_kills += 1
        back = threading.Timer(chance.uniform(0, 3), self.kafka.broker.start)
        back.start()
        driver.must_live()

    def check(self, found: Counter[tuple[int, ...]]) -> None:
        """See that the sink has what the reference gives for the batches as they were."""
        delivered = self.kafka.delivered(self.spark, self.recording)
        assert places(delivered) == places(self.recording.tuples)
        log = ControlLog(str(self.kafka.folder / "log"))
        slacks = {report.batch: report.k for report in log.reports_after(-1)}
        n_batches = len(self.kafka.ends())
        assert sorted(slacks) == list(range(n_batches))
        query = self.recording.query(
            WINDOWS, lambda rows: rows[0]["a"] is not None and rows[0]["a"] == rows[1]["a"]
        )
        expected = run_ticks(query, delivered, k=lambda n: slacks[n], n_ticks=n_batches)
        wanted = Counter(result.arrivals for result in expected.produced)
        assert found == wanted, (found - wanted, wanted - found)
        assert max(found.values()) == 1


def main(minutes: float, drivers: int, brokers: int) -> None:
    """One long replay."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.jars", connector_jars())
        .config("spark.sql.streaming.minBatchesToRetain", "100000")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    tick_ms = 500
    with tempfile.TemporaryDirectory() as made:
        broker = Broker(Path(made) / "kafka")
        broker.start()
        try:
            kafka = KafkaJob(broker, Path(made), "soak", rows=100_000)
            recording = record(2, int(minutes * 60_000 / tick_ms), seed=3)
            hunt = Hunt(spark, kafka, recording, tick_ms=tick_ms)
            begin = time.monotonic()
            found = hunt.run(drivers=drivers, brokers=brokers)
            took = time.monotonic() - begin
            hunt.check(found)
            sys.stdout.write(
                f"{len(recording.tuples):,} tuples in {took / 60:.1f} minutes, "
                f"{len(kafka.ends())} batches; {hunt.driver_kills} kills of the driver and "
                f"{hunt.broker_kills} of the broker: {sum(found.values()):,} results, none lost, "
                "none twice\n"
            )
        finally:
            broker.stop()
            spark.stop()


if __name__ == "__main__":
    given = sys.argv[1:]
    main(
        float(given[0]) if given else 10.0,
        int(given[1]) if len(given) > 1 else 20,
        int(given[2]) if len(given) > 2 else 5,
    )
