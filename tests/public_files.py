"""Small made-up files in the formats of the public recordings, where those would lie."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

UMTS = (
    '"S.Message.received.time.ms";"S.Http.Content.Length";"S.Device.ID";"S.Message.ID";'
    '"S.Client.Detection.Time";"C.Send.Time"'
)
LATE = 300
"""Milliseconds by which every tenth message of the phones is late."""


def write_recordings(folder: Path, *, seconds: int = 30, seed: int = 5) -> Path:
    """All files that the public recordings are read from; returns the folder."""
    rng = np.random.default_rng(seed)
    for session in ("d-1", "d-2"):
        write_phones(folder / f"jr-ooo-dataset-umts/{session}.csv.gz", rng, seconds=seconds)
    for market in ("spot", "usdm"):
        write_feed(folder / f"binance/{market}_btcusdt_20240808.gz", rng, seconds=seconds)
    return folder


def write_phones(path: Path, rng: np.random.Generator, *, seconds: int) -> None:
    """Four devices with a message each 500 ms; one in ten arrives late."""
    ts = 1_000 + np.arange(0, seconds * 1000, 125)
    arrival = ts + 20 + LATE * (rng.random(len(ts)) < 0.1)
    numbers = np.arange(len(ts))
    lines = [
        f'{arrival[n]};264;"dev_{n % 4}";{n // 4};{ts[n]};{ts[n]}'
        for n in numbers[np.argsort(arrival, kind="stable")]
    ]
    _write(path, [UMTS, *lines])


def write_feed(path: Path, rng: np.random.Generator, *, seconds: int) -> None:
    """Trades that come at once and best prices that take up to 20 ms longer."""
    ts = 1_000 + np.arange(0, seconds * 1000, 25)
    is_trade = rng.random(len(ts)) < 0.5
    arrival = ts + np.where(is_trade, 0, rng.integers(0, 20, len(ts)))
    lines = []
    for n in np.argsort(arrival, kind="stable").tolist():
        data = {"s": "BTCUSDT", "E": int(ts[n]), "T": int(ts[n])}
        if is_trade[n]:
            data |= {"t": n, "p": "1.5", "q": "2"}
        else:
            data |= {"u": n, "b": "1", "B": "2", "a": "3", "A": "4"}
        channel = "trade" if is_trade[n] else "bookTicker"
        message = {"stream": f"btcusdt@{channel}", "data": data}
        lines.append(f"{arrival[n] * 1_000_000} {json.dumps(message)}")
    _write(path, lines)


def _write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without the time of writing, so that equal lines are equal files.
    path.write_bytes(gzip.compress("\n".join([*lines, ""]).encode(), mtime=0))
