"""Public recordings in a folder of files, with a join that makes sense for each recording.

The files are not part of the package. The phones are sessions D-1 and D-2 of JR-DIGITAL's
out-of-order collection; the market feeds are examples of the project hftbacktest.
:attr:`PublicRecording.files` has the paths of the files below the folder.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from recalljoin.datasets.binance import read_binance
from recalljoin.datasets.umts import read_umts
from recalljoin.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Callable

    from recalljoin.datasets.recordings import Recording

__all__ = ["PUBLIC", "PublicRecording"]


@dataclass(frozen=True)
class PublicRecording:
    """A recording and how it is joined.

    Parameters
    ----------
    title
        Name of the recording in figures.
    about
        What was recorded and which results are counted, in a sentence or two.
    files
        Paths below the folder of all recordings.
    reader
        Makes the streams from the files, given in the order of ``files``.
    query
        The join, without a target.
    minutes, tuples
        Rough length, and rough number of tuples.
    largest_delay
        Upper bound of the delays, in milliseconds.
    tick
        Length of a tick that suits the delays, in milliseconds of arrival time.
    periods
        Periods over which recall is measured, in milliseconds; experiments try one after another.
    """

    title: str
    about: str
    files: tuple[str, ...]
    reader: Callable[..., Recording]
    query: str
    minutes: float
    tuples: int
    largest_delay: int
    tick: int
    periods: tuple[int, ...]

    def missing(self, folder: str | Path) -> list[Path]:
        """The files that are not there."""
        return [path for path in self._paths(folder) if not path.is_file()]

    def read(self, folder: str | Path) -> Recording:
        """Return the streams with the query of this join.

        Raises
        ------
        DatasetError
            When a file is missing or is not this recording.
        """
        absent = self.missing(folder)
        if absent:
            message = (
                f"`folder` must hold {', '.join(self.files)} for {self.title}, got {str(folder)!r} "
                f"without {', '.join(path.name for path in absent)}"
            )
            raise DatasetError(message)
        return replace(self.reader(*self._paths(folder)), query=self.query)

    def digest(self, folder: str | Path) -> str:
        """Return a short text that changes with the content of the files."""
        content = hashlib.sha256()
        for path in self._paths(folder):
            content.update(path.read_bytes())
        return content.hexdigest()[:16]

    def _paths(self, folder: str | Path) -> list[Path]:
        return [Path(folder) / name for name in self.files]


def _phones(session: str, devices: int, tuples: int) -> PublicRecording:
    return PublicRecording(
        title=f"phones over UMTS, {session.upper()}",
        about=(
            f"{devices} phones and computers send a message every 500 ms over a public mobile "
            "network. Their messages are dealt out to two streams; a result is a pair of messages "
            "within 500 ms of each other."
        ),
        files=(f"jr-ooo-dataset-umts/{session}.csv.gz",),
        reader=read_umts,
        query="SELECT count(*) FROM s1 [500 ms], s2 [500 ms]",
        minutes=10,
        tuples=tuples,
        largest_delay=5_000,
        tick=100,
        periods=(60_000,),
    )


_FEEDS = ("binance/spot_btcusdt_20240808.gz", "binance/usdm_btcusdt_20240808.gz")

PUBLIC: dict[str, PublicRecording] = {
    "umts-1": _phones("d-1", 8, 9_600),
    "umts-2": _phones("d-2", 9, 10_800),
    "trades": PublicRecording(
        title="market feeds, trades",
        about=(
            "Two feeds of a market, bitcoin on the spot and as futures, in which messages of "
            "several channels overtake one another. By the time a message was sent; a result is a "
            "trade of each feed within 1 s."
        ),
        files=_FEEDS,
        reader=partial(read_binance, time="E"),
        query=(
            "SELECT count(*) FROM s1 [1 SEC], s2 [1 SEC] "
            "WHERE s1.channel = 'trade' AND s2.channel = 'trade'"
        ),
        minutes=5.7,
        tuples=107_000,
        largest_delay=40,
        tick=10,
        periods=(10_000, 60_000),
    ),
    "quotes": PublicRecording(
        title="market feeds, trades and prices",
        about=(
            "The same feeds by the time at which the market acted. A result is a trade on the spot "
            "and a best price of the futures within 100 ms."
        ),
        files=_FEEDS,
        reader=partial(read_binance, time="T"),
        query=(
            "SELECT count(*) FROM s1 [100 ms], s2 [100 ms] "
            "WHERE s1.channel = 'trade' AND s2.channel = 'bookTicker'"
        ),
        minutes=5.7,
        tuples=104_000,
        largest_delay=140,
        tick=10,
        periods=(10_000, 60_000),
    ),
}
"""All public recordings, by name."""
