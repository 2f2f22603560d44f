"""The systems that are compared, and one run of one of them."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from benchmarks.inputs import Input
from benchmarks.measure import printed
from benchmarks.peers.environments import ROOT, Unavailable, python_of
from benchmarks.peers.peer import WORKERS, Cell, small
from benchmarks.spark_systems import OURS, in_process

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EAGER, ENGINE = f"{OURS} eager", f"{OURS} engine"
ONE_THREAD = "duckdb on one core"


@dataclass(frozen=True)
class System:
    """A system, and what a reader must know of it."""

    name: str
    does: str
    module: str = ""
    """Of this package, which runs it; empty for those that run on Spark."""
    layout: Callable[[Input, Path], Path] = Input.write
    """Writes the files that it reads."""
    threads: int = WORKERS
    is_ours: bool = False


SYSTEMS = {
    each.name: each
    for each in (
        System(OURS, "on Spark; results in order, state checkpointed every batch", is_ours=True),
        System(EAGER, "on Spark; results at once, state checkpointed every batch", is_ours=True),
        System(
            "spark-hdfs",
            "Spark's own join; results at once, state in memory, checkpointed every batch; two "
            "streams at a time; cells where there is no equality",
        ),
        System(
            "spark-rocksdb",
            "the same with state in RocksDB, changes checkpointed every batch",
        ),
        System(
            "flink",
            "interval join in SQL, all in the JVM; results at once, state on the heap, no "
            "checkpoints; two streams at a time; cells where there is no equality; columns that "
            "sums do not need are dropped; one file a stream, as files are read in any order",
            "flink",
            Input.write_whole,
        ),
        System(
            "pathway",
            "interval_join; text files, all of them one batch; everything is kept, in memory, no "
            "snapshots; two streams at a time; cells where there is no equality",
            "pathway",
            Input.write_csv,
        ),
        System(
            "bytewax",
            "a join by hand in numpy, a batch of Arrow files at a time; results at once, state in "
            "memory, no snapshots; cells where there is no equality",
            "bytewax",
        ),
        System(
            "duckdb",
            "no stream: sorted files, all of them at once; times in pieces as part of the "
            "equality; rows leave as Arrow batches",
            "duckdb",
            Input.write_sorted,
        ),
        System(ONE_THREAD, "the same, with one thread", "duckdb", Input.write_sorted, threads=1),
        System(
            "polars",
            "no stream: sorted files, all of them at once, by its streaming engine; times in "
            "pieces; only sums leave, so that other columns are not read",
            "polars",
            Input.write_sorted,
        ),
        System(
            ENGINE,
            "no stream: sorted files through our engine without Spark, one core; rows leave as "
            "Arrow batches",
            "engine",
            Input.write_sorted,
            threads=1,
            is_ours=True,
        ),
    )
}
OFFLINE = ("duckdb", ONE_THREAD, "polars", ENGINE)
"""They join what is there, and know no stream."""


def run(system: System, made: Input, folder: Path, timeout: float) -> Cell:
    """One run, whatever comes of it."""
    n_tuples = made.n_streams * made.n
    try:
        return _run(system, made, folder, timeout)
    except TimeoutError as error:
        failure = f"timeout: {error}"
    except Unavailable as error:
        failure = f"not to be had: {error}"
    except RuntimeError as error:
        lines = str(error).strip().splitlines() or ["no message"]
        # The first line that names an error; what comes behind may be a plan or a trace.
        named = [line for line in lines if re.match(r"[\w.]+(Error|Exception)\b", line)]
        failure = f"failed: {(named or lines[-1:])[0][:300]}"
    return Cell(system.name, n_tuples, 0.0, 0.0, 0.0, 0, 0, "", failure)


def _run(system: System, made: Input, folder: Path, timeout: float) -> Cell:
    if not system.module:
        one = in_process(system.name, made, folder, cores=WORKERS, timeout=timeout)
        return Cell(
            system.name,
            one.n_tuples,
            one.start,
            one.seconds,
            one.processor_seconds,
            one.n_results,
            one.checksum,
            f"Spark {version('pyspark')}" + f", recalljoin {version(OURS)}" * system.is_ours,
        )
    command = [
        sys.executable if system.is_ours else python_of(system.module),
        "-m", f"benchmarks.peers.{system.module}", json.dumps(asdict(made)),
        str(system.layout(made, folder)), str(system.layout(small(made), folder)),
    ]  # fmt: skip
    threads = str(system.threads)
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    content = printed(
        command,
        timeout=timeout,
        PYTHONPATH=paths if system.is_ours else str(ROOT),
        PEER_THREADS=threads,
        PATHWAY_THREADS=threads,
        POLARS_MAX_THREADS=threads,
        OMP_NUM_THREADS=threads,
    )
    return Cell(**content | {"system": system.name})
