"""The reader of Binance feeds."""

from __future__ import annotations

import gzip
import json
import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from recalljoin.datasets import read_binance
from recalljoin.errors import DatasetError

if TYPE_CHECKING:
    from pathlib import Path


def line(local_ms: float, channel: str, **data: Any) -> str:
    message = {"stream": f"btcusdt@{channel}", "data": {"s": "BTCUSDT", **data}}
    return f"{int(local_ms * 1_000_000)} {json.dumps(message)}"


def trade(local_ms: float, sent: int, number: int, *, acted: int | None = None) -> str:
    acted = sent if acted is None else acted
    return line(local_ms, "trade", E=sent, T=acted, t=number, p="61837.5", q="0.25")


def quote(local_ms: float, sent: int, number: int) -> str:
    return line(local_ms, "bookTicker", E=sent, T=sent, u=number, b="1.5", B="2", a="2.5", A="3")


def book(local_ms: float, sent: int, number: int) -> str:
    sides = {"b": [["1", "2"], ["3", "4"]], "a": [["5", "6"]]}
    return line(local_ms, "depth@100ms", E=sent, T=sent, u=number, **sides)


def write(path: Path, *lines: str) -> Path:
    path.write_bytes(gzip.compress("\n".join([*lines, ""]).encode()))
    return path


@pytest.fixture
def feed(tmp_path: Path) -> Path:
    # The recorder's clock stands behind: the second message is the fastest, at -1 000 ms.
    return write(
        tmp_path / "feed.gz",
        trade(9_020.9, 10_000, 1, acted=9_990),
        quote(9_030, 10_030, 7),
        book(9_040, 10_025, 9),
    )


def test_channels_of_a_feed_are_one_stream_with_delays_from_zero(feed: Path) -> None:
    recording = read_binance(feed)
    table = recording.table("s1")
    assert table.select(["arrival", "ts", "channel", "symbol", "id"]).to_pydict() == {
        "arrival": [10_020, 10_030, 10_040],
        "ts": [10_000, 10_030, 10_025],
        "channel": ["trade", "bookTicker", "depth"],
        "symbol": ["BTCUSDT"] * 3,
        "id": [1, 7, 9],
    }
    assert table.drop(["arrival", "ts", "channel", "symbol", "id"]).to_pydict() == {
        "price": [61837.5, None, None],
        "quantity": [0.25, None, None],
        "bid": [None, 1.5, None],
        "bid_quantity": [None, 2.0, None],
        "ask": [None, 2.5, None],
        "ask_quantity": [None, 3.0, None],
        "bids": [None, None, 2],
        "asks": [None, None, 1],
    }
    assert (recording.name, recording.simulated) == ("binance", False)


def test_each_channel_can_be_a_stream_of_its_own(feed: Path) -> None:
    recording = read_binance(feed, by="channel", channels=("trade", "depth"))
    assert [recording.table(name)["id"].to_pylist() for name in recording.streams] == [[1], [9]]
    assert recording.report.skipped == {"bookTicker not asked for": 1}
    assert recording.query == (
        "SELECT * FROM s1 [1 SEC], s2 [1 SEC] WHERE s1.symbol = s2.symbol AND s1.ts = s2.ts"
    )


def test_the_matching_engine_s_time_can_be_the_event_time(feed: Path) -> None:
    recording = read_binance(feed, time="T")
    assert recording.table("s1")["ts"].to_pylist() == [9_990, 10_030, 10_025]


def test_feeds_of_one_recorder_share_one_correction_of_its_clock(
    feed: Path, tmp_path: Path
) -> None:
    other = write(tmp_path / "other.gz", trade(9_500, 10_495, 2))
    recording = read_binance(feed, other)
    # Alone its only delay would be 0; against the fastest message of both files it is 5.
    assert recording.table("s2")["arrival"].to_pylist() == [10_500]
    assert recording.query == (
        "SELECT * FROM s1 [1 SEC], s2 [1 SEC] WHERE s1.channel = 'trade' AND s2.channel = 'trade' "
        "AND s1.symbol = s2.symbol AND s1.quantity = s2.quantity"
    )


def test_a_single_feed_has_a_query_without_a_join(feed: Path) -> None:
    assert read_binance(feed).query == "SELECT * FROM s1 [1 SEC] WHERE s1.channel = 'trade'"


def test_lines_that_cannot_be_read_are_counted_by_reason_and_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(
        tmp_path / "feed.gz",
        trade(1, 1, 1),
        "soon {}",
        "5000000 {broken",
        "6000000 [1, 2]",
        line(7, "trade", E=7),
        line(8, "trade", E=8, t=1, p="dear", q="1"),
        '9000000 {"lastUpdateId": 1, "bids": [], "asks": []}',
        line(10, "bookTicker", u=1, b="1", B="1", a="1", A="1"),
        "",
    )
    with caplog.at_level(logging.WARNING):
        report = read_binance(path).report
    assert report.kept == 1
    assert report.skipped == {"snapshot": 1, "bookTicker without time E": 1}
    assert report.rejected == {"no local time": 2, "not JSON": 1, "unexpected fields": 3}
    assert [record.getMessage() for record in caplog.records] == [f"{path}: {report}"]


def test_a_channel_without_event_time_is_refused_with_advice(tmp_path: Path) -> None:
    untimed = line(2, "bookTicker", u=1, b="1", B="1", a="1", A="1")
    path = write(tmp_path / "spot.gz", trade(1, 1, 1), untimed)
    with pytest.raises(DatasetError) as caught:
        read_binance(path, by="channel", channels=("trade", "bookTicker"))
    assert str(caught.value) == (
        f"no bookTicker message in {path} has the time 'E'; "
        "leave it out of `channels` or choose another `time`"
    )


def test_a_feed_without_a_single_message_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "feed.gz", "soon {}")
    with pytest.raises(DatasetError) as caught:
        read_binance(path)
    assert str(caught.value) == (
        f"no usable line in {path}: 0 rows kept; rejected 1 (1 no local time); "
        "check that it is the right kind of file"
    )


def test_a_torn_file_is_refused(feed: Path) -> None:
    feed.write_bytes(feed.read_bytes()[:-20])
    with pytest.raises(DatasetError) as caught:
        read_binance(feed)
    assert str(caught.value).startswith(f"{feed} is not a complete gzip file: ")


def test_a_file_that_is_not_compressed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "feed.txt"
    path.write_text(trade(1, 1, 1))
    with pytest.raises(DatasetError, match="is not a complete gzip file: Not a gzipped file"):
        read_binance(path)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(DatasetError, match=r"`path` must be an existing file, got 'no\.gz'"):
        read_binance("no.gz")


def test_all_faulty_arguments_are_reported_together() -> None:
    with pytest.raises(DatasetError) as caught:
        read_binance(by="day", channels=("trade", "news"), time="now")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "`paths` must name at least one file, got none; "
        "`by` must be 'file' or 'channel', got 'day'; "
        "`channels` must be some of trade, bookTicker, depth, got ('trade', 'news'); "
        "`time` must be 'E' or 'T', got 'now'"
    )


@pytest.mark.data
def test_the_recorded_feeds_overtake_themselves_as_published(data_dir: Path) -> None:
    folder = data_dir / "binance"
    names = ("spot_btcusdt_20240808.gz", "usdm_btcusdt_20240808.gz")
    recording = read_binance(*(folder / name for name in names))
    # Published with the files: 13 208 rows with 11 out of order, and 93 954 with 6 359, where the
    # one snapshot in the latter counts as a row and comes late; here it is left out.
    expected = {"s1": (13_208, 11), "s2": (93_953, 6_358)}
    smallest = []
    for name, (rows, late) in expected.items():
        table = recording.table(name)
        arrival, ts = table["arrival"].to_numpy(), table["ts"].to_numpy()
        assert (table.num_rows, (ts < np.maximum.accumulate(ts)).sum()) == (rows, late)
        smallest.append((arrival - ts).min())
    assert min(smallest) == 0
    assert recording.report.rejected == {}
    assert recording.report.skipped == {"bookTicker without time E": 28_040, "snapshot": 2}


@pytest.mark.data
def test_each_recorded_channel_is_in_order_by_itself(data_dir: Path) -> None:
    recording = read_binance(data_dir / "binance" / "usdm_btcusdt_20240808.gz", by="channel")
    for name in recording.streams:
        ts = recording.table(name)["ts"].to_numpy()
        assert (np.diff(ts) >= 0).all()
