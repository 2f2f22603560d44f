"""Reader for recorded market feeds of Binance, with the time of receipt and the exchange's time.

A line of a file is ``<local time in ns> <message as JSON>``. Each channel of a feed (trades, best
prices, changes of the order book) comes in order, but the channels overtake one another.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recalljoin.datasets.base import stream_names
from recalljoin.datasets.recordings import Recording, make_report, require_file, sort_by_arrival
from recalljoin.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["CHANNELS", "MESSAGES", "read_binance"]

CHANNELS = ("trade", "bookTicker", "depth")
"""The channels that can be read."""

MESSAGES = pa.schema(
    [
        ("arrival", pa.int64()),
        ("ts", pa.int64()),
        ("channel", pa.string()),
        ("symbol", pa.string()),
        ("id", pa.int64()),
        ("price", pa.float64()),
        ("quantity", pa.float64()),
        ("bid", pa.float64()),
        ("bid_quantity", pa.float64()),
        ("ask", pa.float64()),
        ("ask_quantity", pa.float64()),
        ("bids", pa.int64()),
        ("asks", pa.int64()),
    ]
)
"""Columns of a stream: ``id`` is the trade or the last update; price and quantity belong to trades,
bid and ask to best prices, bids and asks (levels that changed) to the book; the others are null."""

_NANOSECONDS = 1_000_000  # in a millisecond


class _Row(NamedTuple):
    """One message, with the fields of `MESSAGES`."""

    arrival: int
    ts: int
    channel: str
    symbol: str
    id: int
    price: float | None = None
    quantity: float | None = None
    bid: float | None = None
    bid_quantity: float | None = None
    ask: float | None = None
    ask_quantity: float | None = None
    bids: int | None = None
    asks: int | None = None


def read_binance(
    *paths: str | Path,
    by: Literal["file", "channel"] = "file",
    channels: Sequence[str] = CHANNELS,
    time: Literal["E", "T"] = "E",
) -> Recording:
    """Read one feed, or several feeds that were recorded by the same machine.

    The recorder's clock may be behind the exchange's. The smallest difference over all files is
    taken off every arrival, so that the fastest message has delay 0 and no delay is negative.

    The query finds trades of equal size on all feeds within a second, or, for streams by channel,
    messages about a symbol that carry the same time.

    Parameters
    ----------
    paths
        Files, compressed with gzip.
    by
        ``"file"`` makes a stream of each file with its channels mixed, as they came over one
        connection: this is where the disorder is. ``"channel"`` makes a stream of each channel of
        each file.
    channels
        What to keep, from `CHANNELS`.
    time
        Which time becomes ``ts``: ``"E"``, when the exchange sent the message, or ``"T"``, when
        its matching engine acted. Messages without this time are counted in ``report.skipped``;
        best prices of the spot market have neither time.

    Returns
    -------
    Recording
        ``arrival`` and ``ts`` in milliseconds since 1970 on the exchange's clock; see `MESSAGES`.
        Lines that cannot be read are counted in ``report.rejected``.
    """
    _check(paths, by=by, channels=channels, time=time)
    skipped: Counter[str] = Counter()
    rejected: Counter[str] = Counter()
    feeds = {
        path: _to_table(_read_rows(require_file(path), channels, time, skipped, rejected))
        for path in paths
    }
    report = make_report(
        ", ".join(map(str, paths)),
        sum(feed.num_rows for feed in feeds.values()),
        skipped=skipped,
        rejected=rejected,
    )
    offset = min(_smallest_delay(feed) for feed in feeds.values() if feed.num_rows)
    groups = [tuple(channels)] if by == "file" else [(channel,) for channel in channels]
    parts = []
    for path, feed in feeds.items():
        for group in groups:
            part = feed.filter(pc.is_in(feed["channel"], value_set=pa.array(group)))
            if not part.num_rows:
                message = (
                    f"no {' or '.join(group)} message in {path} has the time {time!r}; "
                    f"leave it out of `channels` or choose another `time`"
                )
                raise DatasetError(message)
            parts.append(_shift_arrival(part, offset))
    tables = dict(zip(stream_names(len(parts)), parts, strict=True))
    query = _query(tuple(tables), by=by)
    return Recording(name="binance", query=query, tables=tables, report=report)


def _check(paths: Sequence[str | Path], *, by: str, channels: Sequence[str], time: str) -> None:
    faults = []
    if not paths:
        faults.append("`paths` must name at least one file, got none")
    if by not in ("file", "channel"):
        faults.append(f"`by` must be 'file' or 'channel', got {by!r}")
    if not channels or not set(channels) <= set(CHANNELS):
        faults.append(f"`channels` must be some of {', '.join(CHANNELS)}, got {channels!r}")
    if time not in ("E", "T"):
        faults.append(f"`time` must be 'E' or 'T', got {time!r}")
    if faults:
        raise DatasetError("; ".join(faults))


def _read_rows(
    path: Path,
    channels: Sequence[str],
    time: str,
    skipped: Counter[str],
    rejected: Counter[str],
) -> Iterator[_Row]:
    """Yield the messages of the wanted channels and count all other lines by reason."""
    for line in _read_lines(path):
        local, _, text = line.partition(b" ")
        if not local.isdigit():
            rejected["no local time"] += 1
            continue
        try:
            message = json.loads(text)
        except ValueError:
            rejected["not JSON"] += 1
            continue
        try:
            if "lastUpdateId" in message:
                # The state of the whole book, fetched once at the start.
                skipped["snapshot"] += 1
                continue
            channel = message["stream"].split("@")[1]
            data = message["data"]
            if channel not in channels:
                skipped[f"{channel} not asked for"] += 1
            elif time not in data:
                skipped[f"{channel} without time {time}"] += 1
            else:
                yield _make_row(int(local) // _NANOSECONDS, data, channel, time)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            rejected["unexpected fields"] += 1


def _read_lines(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path) as lines:
            yield from lines
    except (EOFError, gzip.BadGzipFile, zlib.error) as fault:
        message = f"{path} is not a complete gzip file: {fault}"
        raise DatasetError(message) from fault


def _make_row(arrival: int, data: dict[str, Any], channel: str, time: str) -> _Row:
    ts, symbol = int(data[time]), str(data["s"])
    if channel == "trade":
        price, quantity = float(data["p"]), float(data["q"])
        return _Row(arrival, ts, channel, symbol, int(data["t"]), price=price, quantity=quantity)
    last = int(data["u"])
    if channel == "bookTicker":
        return _Row(
            arrival,
            ts,
            channel,
            symbol,
            last,
            bid=float(data["b"]),
            bid_quantity=float(data["B"]),
            ask=float(data["a"]),
            ask_quantity=float(data["A"]),
        )
    n_bids, n_asks = len(data["b"]), len(data["a"])
    return _Row(arrival, ts, channel, symbol, last, bids=n_bids, asks=n_asks)


def _to_table(rows: Iterator[_Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(MESSAGES)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, MESSAGES, strict=True)]
    return sort_by_arrival(pa.Table.from_arrays(arrays, schema=MESSAGES))


def _smallest_delay(table: pa.Table) -> int:
    return int(np.min(table["arrival"].to_numpy() - table["ts"].to_numpy()))


def _shift_arrival(table: pa.Table, offset: int) -> pa.Table:
    return table.set_column(0, MESSAGES.field("arrival"), pc.subtract(table["arrival"], offset))


def _query(streams: tuple[str, ...], *, by: str) -> str:
    """Return trades of equal size for whole feeds, messages of the same moment for channels."""
    first, *others = streams
    shared = "quantity" if by == "file" else "ts"
    conditions = [f"{name}.channel = 'trade'" for name in streams if by == "file"]
    conditions += [
        f"{first}.symbol = {name}.symbol AND {first}.{shared} = {name}.{shared}" for name in others
    ]
    windows = ", ".join(f"{name} [1 SEC]" for name in streams)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT * FROM {windows}{where}"
