"""Public recordings: found in a folder, read, and joined."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from recalljoin.datasets import PUBLIC
from recalljoin.engine.arrivals import arrivals_of
from recalljoin.errors import DatasetError
from recalljoin.quality.adaptive import true_results
from recalljoin.query.text import parse_query
from tests.public_files import LATE, write_recordings

if TYPE_CHECKING:
    from pathlib import Path

    from recalljoin.datasets import Recording


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_recordings(tmp_path_factory.mktemp("data"))


def _delays(recording: Recording) -> list[np.ndarray]:
    times = [recording.table(stream)["ts"].to_numpy() for stream in recording.streams]
    return [np.maximum.accumulate(ts) - ts for ts in times]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_recording_is_read_and_its_join_has_results(name: str, folder: Path) -> None:
    recording = PUBLIC[name].read(folder)
    tables = {stream: recording.table(stream) for stream in recording.streams}
    assert len(tables) == 2
    query = parse_query(PUBLIC[name].query, arrival="arrival").bind(
        {stream: table.schema for stream, table in tables.items()}
    )
    assert recording.query == PUBLIC[name].query
    assert true_results(query, arrivals_of(query, tables)).total > 400


def test_phones_are_joined_by_time_alone(folder: Path) -> None:
    recording = PUBLIC["umts-1"].read(folder)
    one, two = (np.sort(recording.table(s)["ts"].to_numpy()) for s in ("s1", "s2"))
    pairs = int((np.abs(one[:, np.newaxis] - two) <= 500).sum())
    tables = {stream: recording.table(stream) for stream in recording.streams}
    query = parse_query(recording.query).bind({s: t.schema for s, t in tables.items()})
    assert true_results(query, arrivals_of(query, tables)).total == pairs
    assert 0 < max(delay.max() for delay in _delays(recording)) <= LATE


def test_files_that_are_not_there_are_named(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "binance", tmp_path / "binance")
    (tmp_path / "binance" / "usdm_btcusdt_20240808.gz").unlink()
    assert [path.name for path in PUBLIC["trades"].missing(tmp_path)] == [
        "usdm_btcusdt_20240808.gz"
    ]
    assert PUBLIC["trades"].missing(folder) == []
    with pytest.raises(DatasetError, match=r"`folder` must hold .* without usdm_btcusdt_2024"):
        PUBLIC["trades"].read(tmp_path)


def test_the_digest_tells_what_is_in_the_files_and_not_where_they_are(
    folder: Path, tmp_path: Path
) -> None:
    same, other = write_recordings(tmp_path / "same"), write_recordings(tmp_path / "b", seed=6)
    for recording in PUBLIC.values():
        assert recording.digest(same) == recording.digest(folder)
        assert recording.digest(other) != recording.digest(folder)


@pytest.mark.data
@pytest.mark.parametrize("name", PUBLIC)
def test_the_public_files_are_as_large_and_as_late_as_is_said(name: str, data_dir: Path) -> None:
    public = PUBLIC[name]
    recording = public.read(data_dir)
    delays = np.concatenate(_delays(recording))
    assert len(delays) == pytest.approx(public.tuples, rel=0.01)
    ts = recording.table("s1")["ts"].to_numpy()
    assert (ts.max() - ts.min()) / 60_000 == pytest.approx(public.minutes, rel=0.05)
    assert public.largest_delay / 2 < delays.max() <= public.largest_delay
