"""Runs many specs on Spark, several at a time, and keeps each run as soon as it is done."""

from __future__ import annotations

import os
import threading
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

from recalljoin.experiments.evaluation import RecordedJoin, open_recording
from recalljoin.experiments.generation import make_frame
from recalljoin.experiments.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from recalljoin.experiments.recorded import RecordedSpec
    from recalljoin.experiments.spec import DataSpec, RunSpec
    from recalljoin.experiments.store import RunStore
    from recalljoin.quality.recall import Timeline

    Data = DataSpec | RecordedSpec


def run_specs(
    spark: SparkSession,
    specs: Iterable[RunSpec],
    store: RunStore,
    *,
    done: Callable[[RunSpec], None] | None = None,
    workers: int | None = None,
) -> dict[RunSpec, Run]:
    """Run the specs that are not in the store yet.

    Equal specs are run once. Each run is a task of Spark on one core, so as many runs go on at once
    as there are cores; runs that use all cores themselves come last, one after another.

    Parameters
    ----------
    spark
        The session that runs the specs.
    specs
        What to run.
    store
        Where runs are looked up and kept.
    done
        Called after each run that had to be made, from the thread that made it.
    workers
        Number of runs at once; by default one for each core.

    Returns
    -------
    dict
        All runs, including runs found in the store.
    """
    wanted = list(dict.fromkeys(specs))
    found = {spec: store.load(spec) for spec in wanted}
    runs = {spec: run for spec, run in found.items() if run is not None}
    missing = [spec for spec in wanted if spec not in runs]
    # A data set is made once for all its runs, and dropped from memory after the last run.
    kinds = list(dict.fromkeys(spec.data for spec in missing))
    missing.sort(key=lambda spec: (spec.alone, kinds.index(spec.data)))
    sources = {
        data: _DataSet(spark, data, [spec for spec in missing if spec.data == data])
        for data in kinds
    }

    def run(spec: RunSpec) -> Run:
        result = sources[spec.data].run(spec)
        store.save(spec, result)
        if done is not None:
            done(spec)
        return result

    together = [spec for spec in missing if not spec.alone]
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        runs |= _all(pool, together, run, sources)
    for spec in missing:
        if spec.alone:
            runs[spec] = run(spec)
    return {spec: runs[spec] for spec in wanted}


def _all(
    pool: ThreadPoolExecutor,
    specs: Sequence[RunSpec],
    run: Callable[[RunSpec], Run],
    sources: Mapping[Data, _DataSet],
) -> dict[RunSpec, Run]:
    futures: dict[RunSpec, Future[Run]] = {}
    begun: list[Future[Any]] = []
    for spec in specs:
        source = sources[spec.data]
        if source.truth is None:
            # The true results are submitted before the runs that wait for them, so that the runs
            # cannot fill the pool and wait for ever.
            source.truth = pool.submit(source.find_truth)
            begun.append(source.truth)
        futures[spec] = pool.submit(run, spec)
        begun.append(futures[spec])
    try:
        for future in wait(begun, return_when=FIRST_EXCEPTION).done:
            future.result()
        return {spec: future.result() for spec, future in futures.items()}
    except BaseException:
        # Runs that have begun are finished and kept; no further run is begun.
        pool.shutdown(wait=False, cancel_futures=True)
        raise


class _DataSet:
    """A data set and its true results, made when first needed."""

    def __init__(self, spark: SparkSession, data: Data, specs: Sequence[RunSpec]) -> None:
        self.spark = spark
        self.data = data
        self.left = len(specs)
        self.truth: Future[Timeline] | None = None
        self._recording: RecordedJoin | None = None
        self._lock = threading.Lock()

    def find_truth(self) -> Timeline:
        return self._open().truth()

    def run(self, spec: RunSpec) -> Run:
        recording = self._open()
        if self.truth is None:
            # True results are found before the run, not beside it: the run uses all cores itself.
            record = recording.evaluate(spec.setup, truth=recording.truth())
        else:
            # True results are found at the same time, by another thread of the pool.
            record = recording.evaluate(spec.setup, truth=False).against(self.truth.result())
        with self._lock:
            self.left -= 1
            if not self.left:
                recording.close()
                self._recording = None
        return Run.of(record)

    def _open(self) -> RecordedJoin:
        with self._lock:
            if self._recording is None:
                dataset = self.data.dataset()
                frames = {name: make_frame(self.spark, dataset, name) for name in dataset.streams}
                self._recording = open_recording(self.spark, dataset.query, frames, keep=True)
            return self._recording
