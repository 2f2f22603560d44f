"""The reader of UMTS recordings."""

from __future__ import annotations

import gzip
import logging
from typing import TYPE_CHECKING

import numpy as np
import pytest

from recalljoin.datasets import read_umts
from recalljoin.errors import DatasetError

if TYPE_CHECKING:
    from pathlib import Path

HEADER = (
    '"S.Message.received.time.ms";"S.Http.Content.Length";"S.Device.ID";"S.Message.ID";'
    '"S.Client.Detection.Time";"C.Send.Time"'
)


def write(path: Path, *lines: str, header: str = HEADER) -> Path:
    path.write_bytes(gzip.compress("\n".join([header, *lines, ""]).encode()))
    return path


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return write(
        tmp_path / "d-9.csv.gz",
        '100;264;"dev_10";0;60;70',
        '110;270;"dev_2";0;95;96',
        '120;271;"dev_7";0;90;91',
        '130;272;"dev_2";1;85;92',
    )


def test_devices_are_dealt_out_in_the_order_of_their_numbers(session: Path) -> None:
    recording = read_umts(session)
    # dev_2, dev_7, dev_10 in turn: the first and the last share a stream.
    assert recording.table("s1").to_pydict() == {
        "arrival": [100, 110, 130],
        "ts": [60, 95, 85],
        "device": ["dev_10", "dev_2", "dev_2"],
        "message": [0, 0, 1],
        "length": [264, 270, 272],
    }
    assert recording.table("s2")["device"].to_pylist() == ["dev_7"]
    assert (recording.name, recording.simulated) == ("umts_d9", False)
    assert recording.query == ("SELECT * FROM s1 [5 SEC], s2 [5 SEC] WHERE s1.message = s2.message")


def test_every_device_can_have_a_stream_of_its_own(session: Path) -> None:
    recording = read_umts(session, streams=None)
    devices = [set(recording.table(name)["device"].to_pylist()) for name in recording.streams]
    assert devices == [{"dev_2"}, {"dev_7"}, {"dev_10"}]
    assert recording.query.endswith("s1.message = s2.message AND s2.message = s3.message")


def test_the_time_of_sending_can_be_the_event_time(session: Path) -> None:
    assert read_umts(session, streams=1, event="send").table("s1")["ts"].to_pylist() == [
        70,
        96,
        91,
        92,
    ]


def test_rows_are_put_into_arrival_order_and_ties_keep_theirs(tmp_path: Path) -> None:
    path = write(tmp_path / "d.csv.gz", '9;1;"a";0;1;1', '5;1;"a";1;2;2', '9;1;"a";2;3;3')
    assert read_umts(path, streams=1).table("s1")["message"].to_pylist() == [1, 0, 2]


def test_malformed_lines_are_counted_by_reason_and_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(
        tmp_path / "d.csv.gz",
        '1;264;"a";0;60;70',
        '2;264;"a";1',
        '3;264;"a";2;NA;70',
        '4;many;"a";3;60;70',
        '5;264;"a";4;60;70;extra',
        '6;264;"a";5;61;70',
    )
    with caplog.at_level(logging.WARNING):
        recording = read_umts(path, streams=1)
    assert recording.table("s1")["message"].to_pylist() == [0, 5]
    assert recording.report.rejected == {"wrong number of fields": 2, "not a whole number": 2}
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: 2 rows kept; rejected 4 (2 wrong number of fields, 2 not a whole number)"
    ]


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "d.csv.gz", "1;2", header="a;b")
    with pytest.raises(DatasetError) as caught:
        read_umts(path)
    assert str(caught.value).startswith(
        f"{path} is not a UMTS recording, which has ';' between fields and a header with "
        "S.Message.received.time.ms, S.Client.Detection.Time, S.Device.ID, S.Message.ID, "
        "S.Http.Content.Length: "
    )


def test_a_missing_file_is_named() -> None:
    with pytest.raises(DatasetError, match=r"`path` must be an existing file, got 'no\.csv'"):
        read_umts("no.csv")


@pytest.mark.parametrize("streams", [0, 4])
def test_more_streams_than_devices_are_refused(session: Path, streams: int) -> None:
    with pytest.raises(DatasetError) as caught:
        read_umts(session, streams=streams)
    assert str(caught.value) == (
        f"`streams` must be in [1, 3], the number of devices in {session}, got {streams}; "
        "None gives every device a stream"
    )


def test_an_unknown_event_time_is_refused(session: Path) -> None:
    with pytest.raises(DatasetError, match="`event` must be one of detection, send, got 'noon'"):
        read_umts(session, event="noon")  # type: ignore[arg-type]


# Rows, out-of-order rows and largest delay behind the newest, as published with the recordings.
@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "devices", "expected"),
    [("d-1", 8, (9_600, 1_544, 4_544)), ("d-2", 9, (10_800, 3_666, 3_457))],
)
def test_the_recordings_have_the_disorder_published_with_them(
    data_dir: Path, name: str, devices: int, expected: tuple[int, int, int]
) -> None:
    path = data_dir / "jr-ooo-dataset-umts" / f"{name}.csv.gz"
    whole = read_umts(path, streams=1)
    table = whole.table("s1")
    ts = table["ts"].to_numpy()
    behind = np.maximum.accumulate(ts) - ts
    assert (table.num_rows, (behind > 0).sum(), behind.max()) == expected
    assert (table["arrival"].to_numpy() >= ts).all()
    assert whole.report.rejected == {}
    assert len(read_umts(path, streams=None).streams) == devices
