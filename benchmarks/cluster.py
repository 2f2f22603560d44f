"""Over machines: a standalone Spark cluster on loopback with 1, 2 and 4 workers of one core each.

Tables: throughput for each core, bytes shuffled, copies of a tuple and results that leave side by
side, each beside what a model says; and what cells and groups cost that have nothing to do.

    python -m benchmarks.cluster --write docs/scaling.md
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.parquet as pq

from benchmarks.cluster_run import PAIR, PAPER, Ran, in_process, text_of, write_input
from benchmarks.measure import Report, machine, wrapped
from recalljoin.query.text import parse_query
from recalljoin.spark.cells import make_grid
from recalljoin.spark.packing import needed_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from recalljoin.query.bound_query import BoundQuery

ROOT = Path(__file__).resolve().parent.parent
SECTION = "## Measured"
"""Where the tables stand in the file they are written to."""
PARCEL = 1_000
"""About how many bytes a parcel has besides its tuples: its head, and the schema of its body."""
WORKERS = (1, 2, 4)
IDLE = (2, 8, 32, 128)


@contextmanager
def cluster(n_workers: int) -> Iterator[str]:
    """The address of a master that some workers of one core each have joined; all are ended."""
    import pyspark

    launcher = Path(pyspark.__file__).parent / "bin" / "spark-class"
    deploy = "org.apache.spark.deploy"
    at = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    started: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        environment = {
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            # Executors import the library, and this package for what is unpickled by name.
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "SPARK_WORKER_DIR": str(folder / "work"),
            "SPARK_DAEMON_MEMORY": "256m",
        }

        def start(name: str, until: str, *arguments: str) -> re.Match[str]:
            log = folder / f"{name}.log"
            with log.open("wb") as sink:
                process = subprocess.Popen(
                    [str(launcher), *arguments], cwd=folder, env=environment, stdout=sink,
                    stderr=sink,
                )  # fmt: skip
            started.append(process)
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline and process.poll() is None:
                found = re.search(until, log.read_text())
                if found:
                    return found
                time.sleep(0.1)
            raise RuntimeError(log.read_text()[-4000:])

        try:
            master = start(
                "master", r"Starting Spark master at (spark://[\d.]+:\d+)",
                f"{deploy}.master.Master", *at,
            )[1]  # fmt: skip
            for number in range(n_workers):
                worker = (f"{deploy}.worker.Worker", *at, "--cores", "1", "--memory", "1g")
                start(f"worker{number}", "Successfully registered with", *worker, master)
            yield master
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait(timeout=60)


class Model(NamedTuple):
    """What is to be expected of a query over some cells, before anything is run."""

    copies: float
    """Cells that a tuple is sent to, on average."""
    share: float
    """Share of all tuples that a cell takes in."""
    n_cells: int
    tuple_bytes: float
    """Bytes that a tuple takes on its way to all its cells."""

    def shuffled(self, n_tuples: int, n_tasks: int) -> float:
        """Bytes shuffled: the tuples, and from each task a parcel for every cell."""
        return n_tuples * self.tuple_bytes + n_tasks * self.n_cells * PARCEL

    def batch(self, alone: Ran, idle: float) -> tuple[float, float]:
        """Seconds of a batch: if results are all its work, and if tuples are."""
        work = alone.batch - alone.idle
        return idle + work / self.n_cells, idle + work * self.share


def model(query: BoundQuery, n_tuples: list[int], n_cells: int) -> Model:
    """Copies and bytes by the shares scheme, for streams of so many tuples."""
    grid = make_grid(query, n_cells)
    sent = [n * grid.n_copies(s) for s, n in enumerate(n_tuples)]
    # A tuple with copies has one more number, by which they are recognised.
    widths = [
        _width(needed_schema(query, s)) + (8 if grid.n_copies(s) > 1 else 0) for s in range(grid.m)
    ]
    volume = sum(n * width for n, width in zip(sent, widths, strict=True))
    total = sum(n_tuples)
    return Model(sum(sent) / total, sum(sent) / grid.n_cells / total, grid.n_cells, volume / total)


def _width(schema: pa.Schema) -> float:
    return float(sum(field.type.bit_width for field in schema)) / 8


def bound_in(folder: Path, query: str) -> tuple[BoundQuery, list[int]]:
    """A query over the streams in a folder, and how many tuples each of them has."""
    stated = parse_query(text_of(query))
    tables = {s.name: pq.ParquetDataset(folder / s.name) for s in stated.streams}
    bound = stated.bind({name: table.schema for name, table in tables.items()})
    counts = [
        sum(pq.read_metadata(path).num_rows for path in table.files) for table in tables.values()
    ]
    return bound, counts


def scaling(folder: Path, sizes: dict[str, int], numbers: tuple[int, ...]) -> list[Report]:
    """The same streams on some numbers of workers, each with a cell, beside the model."""
    speeds = Report(
        "Throughput over workers of one core each",
        ("query", "workers", "tuples/s", "for each core", "s a batch", "model", "at once"),
        note="The model takes the seconds of one worker, divides the work over the cells, and adds "
        "what a batch without tuples took: less if results are all the work, more if tuples are. "
        "`at once`: tasks that handed results to the sink at the same time, on average. All "
        "workers, the master and the driver share the cores of one machine. So more workers than "
        "it has cores to spare make nothing faster; the table says what a further worker costs.",
    )
    volumes = Report(
        "Copies and bytes shuffled",
        ("query", "cells", "copies of a tuple", "model", "MB shuffled", "model"),
        note="Without compression, over the whole run. The model does not know of hot keys, whose "
        "tuples are spread over cells.",
    )
    alone: dict[str, Ran] = {}
    moved: list[tuple[object, ...]] = []
    for workers in numbers:
        with cluster(workers) as master:
            for query, size in sizes.items():
                made = write_input(folder, query, size)
                bound, counts = bound_in(made, query)
                ran = in_process(master, made, query, cells=workers, groups=workers)
                assert ran.n_tuples == sum(counts), (ran, counts)
                first = alone.setdefault(query, ran)
                assert ran.n_results == first.n_results, (ran, first)
                expected = model(bound, counts, workers)
                low, high = expected.batch(first, ran.idle)
                speeds.add(
                    query, workers, f"{ran.rate:,.0f}", f"{ran.rate / workers:,.0f}",
                    f"{ran.batch:.2f}", f"{low:.2f} to {high:.2f}", f"{ran.at_once:.1f}",
                )  # fmt: skip
                moved.append((
                    query, expected.n_cells, f"{ran.copies:.2f}", f"{expected.copies:.2f}",
                    f"{ran.shuffled / 1e6:.2f}",
                    f"{expected.shuffled(ran.n_tuples, ran.n_map_tasks) / 1e6:.2f}",
                ))  # fmt: skip
    for row in moved:
        volumes.add(*row)
    return [speeds, volumes]


def _n_batches(folder: Path) -> int:
    stream = next(each for each in folder.iterdir() if list(each.glob("0000-*.parquet")))
    return len(list(stream.glob("*-0.parquet")))


def idle(folder: Path, numbers: tuple[int, ...]) -> Report:
    """What cells and groups cost that have next to nothing to do, on two workers."""
    report = Report(
        "Cells and groups with nothing to do",
        ("cells", "groups", "s a batch", "ms for each more", "KB shuffled a batch"),
        note="A few hundred tuples a batch, two workers of one core.",
    )
    made = write_input(folder, PAIR, 2_000)
    n_batches = _n_batches(made)
    with cluster(2) as master:
        for in_groups in (False, True):
            before: tuple[int, float] | None = None
            for number in numbers:
                groups = number if in_groups else 2
                ran = in_process(master, made, PAIR, cells=number, groups=groups)
                more = ""
                if before is not None:
                    more = f"{(ran.batch - before[1]) / (number - before[0]) * 1000:.1f}"
                before = (number, ran.batch)
                report.add(
                    number, groups, f"{ran.batch:.2f}", more,
                    f"{ran.shuffled / n_batches / 1000:.0f}",
                )  # fmt: skip
    return report


def with_tables(text: str, reports: list[Report]) -> str:
    """A Markdown text with these tables as its last part."""
    before, _, _ = text.partition(SECTION)
    made = wrapped(
        "Made by `python -m benchmarks.cluster --write docs/scaling.md`. "
        f"{machine()}; {datetime.now(UTC).date()}."
    )
    blocks = [f"#{report.markdown()}" for report in reports]
    return "\n\n".join([before.rstrip(), SECTION, made, *blocks]) + "\n"


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("parts", nargs="*", help="scaling or idle; both, if none is named")
    parser.add_argument("--write", type=Path, help="keep the tables in this Markdown file")
    parser.add_argument("--quick", action="store_true", help="smaller, to see that it works")
    given = parser.parse_args(arguments)
    if unknown := [part for part in given.parts if part not in ("scaling", "idle")]:
        parser.error(f"there is no {unknown[0]!r}; parts are scaling, idle")
    # Whoever ends this command ends the cluster with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    print(machine())
    sizes = {PAIR: 20_000 if given.quick else 1_000_000}
    sizes |= dict.fromkeys(PAPER, 12_000 if given.quick else 120_000)
    reports: list[Report] = []
    with tempfile.TemporaryDirectory() as made:
        if "scaling" in (given.parts or ["scaling"]):
            reports += scaling(Path(made), sizes, WORKERS[:2] if given.quick else WORKERS)
        if "idle" in (given.parts or ["idle"]):
            reports.append(idle(Path(made), IDLE[:2] if given.quick else IDLE))
    if given.write is not None:
        given.write.write_text(with_tables(given.write.read_text(), reports))


if __name__ == "__main__":
    main()
