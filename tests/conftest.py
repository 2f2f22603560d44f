"""What all tests share: where kernels are cached, how hard Hypothesis searches, where data lies."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent


def _cache_kernels_by_source() -> None:
    # numba stamps a cached kernel with its own file alone: after a change in a kernel it calls
    # from another file, the old machine code would still run, and the tests would judge code
    # that is gone. A folder for each state of the rooms that hold kernels rules that out. Set
    # before anything imports numba; processes started by tests inherit it.
    digest = hashlib.sha256()
    for room in sorted((ROOT / "src" / "recalljoin").glob("*/")):
        sources = [source.read_bytes() for source in sorted(room.rglob("*.py"))]
        if any(b"@compiled" in source or b"njit" in source for source in sources):
            digest.update(b"".join(sources))
    os.environ["NUMBA_CACHE_DIR"] = str(ROOT / ".cache" / "numba" / digest.hexdigest()[:16])


_cache_kernels_by_source()

# Compiling a kernel or starting Spark inside an example is slow once; it says nothing of the code.
_patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default", _patient, derandomize=True, max_examples=100)
settings.register_profile(
    "fuzz",
    _patient,
    derandomize=False,
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "5000")),
    print_blob=True,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def _shared(name: str) -> Path:
    shared = Path(os.environ.get("RECALLJOIN_SHARED", ROOT.parent / "shared"))
    folder = shared / name
    if not folder.is_dir():
        pytest.skip(f"no folder {name!r} in {shared}; set RECALLJOIN_SHARED to where it lies")
    return folder


@pytest.fixture(scope="session")
def golden_dir() -> Path:
    """Inputs with the answers an independent implementation gave; skips where they are missing."""
    return _shared("golden")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Recorded streams; skips where they are missing."""
    return _shared("data")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One local session for all tests that need one, with as little around it as can be."""
    from pyspark.sql import SparkSession

    from tests.spark.broker import connector_jars

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.stateStore.providerClass",
                "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .config("spark.jars", connector_jars())
        .getOrCreate()
    )  # fmt: skip
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
