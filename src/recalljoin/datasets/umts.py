"""Reader for recordings of phones that send messages over UMTS, with both times of each message.

The files are data sets D-1 .. D-5 of JR-DIGITAL's out-of-order collection (CC BY-SA 4.0; W. Weiss,
V. Exposito Jimenez, H. Zeiner, IoTBDS 2017): a message every 500 ms from each of seven to nine
devices, one line per message in the order the server received them.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from recalljoin.datasets.base import stream_names
from recalljoin.datasets.recordings import Recording, make_report, require_file, sort_by_arrival
from recalljoin.errors import DatasetError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read_umts"]

_EVENT_TIMES = {"detection": "S.Client.Detection.Time", "send": "C.Send.Time"}
# Column of the stream <- column of the file; all but the device are whole numbers.
_COLUMNS = {
    "arrival": "S.Message.received.time.ms",
    "device": "S.Device.ID",
    "message": "S.Message.ID",
    "length": "S.Http.Content.Length",
}
_ORDER = ("arrival", "ts", "device", "message", "length")


def read_umts(
    path: str | Path,
    *,
    streams: int | None = 2,
    event: Literal["detection", "send"] = "detection",
) -> Recording:
    """Read one session and deal its devices out to streams.

    The query finds messages with the same number, one from each stream, within 5 seconds.

    Parameters
    ----------
    path
        A ``d-<n>.csv`` file, plain or compressed (``.gz``).
    streams
        Number of streams; devices are dealt out in turn, in the order of their numbers. None gives
        every device a stream of its own.
    event
        Which of the client's times becomes ``ts``: when the client noticed the event, or when it
        sent the message.

    Returns
    -------
    Recording
        Columns ``arrival`` and ``ts`` (milliseconds since 1970), ``device``, ``message`` (its
        number within the device) and ``length`` (bytes). Lines with the wrong number of fields or
        without a whole number where one belongs are counted in ``report.rejected``.
    """
    source = require_file(path)
    if event not in _EVENT_TIMES:
        message = f"`event` must be one of {', '.join(_EVENT_TIMES)}, got {event!r}"
        raise DatasetError(message)
    rejected: Counter[str] = Counter()
    table = sort_by_arrival(_read_numbers(source, _COLUMNS | {"ts": _EVENT_TIMES[event]}, rejected))
    report = make_report(source, table.num_rows, skipped=Counter(), rejected=rejected)
    # Devices are sorted by number: dev_2 before dev_10.
    devices = sorted(table["device"].unique().to_pylist(), key=lambda name: (len(name), name))
    count = len(devices) if streams is None else streams
    if not 1 <= count <= len(devices):
        message = (
            f"`streams` must be in [1, {len(devices)}], the number of devices in {source}, "
            f"got {streams!r}; None gives every device a stream"
        )
        raise DatasetError(message)
    names = stream_names(count)
    tables = {
        name: table.filter(pc.is_in(table["device"], value_set=pa.array(devices[number::count])))
        for number, name in enumerate(names)
    }
    query = "SELECT * FROM " + ", ".join(f"{name} [5 SEC]" for name in names)
    if count > 1:
        query += " WHERE " + " AND ".join(
            f"{left}.message = {right}.message" for left, right in pairwise(names)
        )
    return Recording(name=f"umts_{_session(source)}", query=query, tables=tables, report=report)


def _read_numbers(source: Path, columns: dict[str, str], rejected: Counter[str]) -> pa.Table:
    """Return the wanted columns under the stream's names, without lines that lack a number."""

    def reject(_: pv.InvalidRow) -> Literal["skip"]:
        rejected["wrong number of fields"] += 1
        return "skip"

    wanted = [columns[name] for name in _ORDER]
    try:
        # Read as text first: Arrow's own conversion would refuse the file for one bad value.
        raw = pv.read_csv(
            source,
            read_options=pv.ReadOptions(use_threads=False),
            parse_options=pv.ParseOptions(delimiter=";", invalid_row_handler=reject),
            convert_options=pv.ConvertOptions(
                include_columns=wanted, column_types=dict.fromkeys(wanted, pa.string())
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError) as fault:
        message = (
            f"{source} is not a UMTS recording, which has ';' between fields and a header "
            f"with {', '.join(wanted)}: {fault}"
        )
        raise DatasetError(message) from fault
    raw = raw.rename_columns(list(_ORDER))
    sound = pa.array([True] * raw.num_rows)
    for name in _ORDER:
        if name != "device":
            sound = pc.and_(sound, pc.match_substring_regex(raw[name], r"^-?\d{1,18}$"))
    kept = raw.filter(sound)
    rejected["not a whole number"] += raw.num_rows - kept.num_rows
    types = [pa.string() if name == "device" else pa.int64() for name in _ORDER]
    return kept.cast(pa.schema(list(zip(_ORDER, types, strict=True))))


def _session(source: Path) -> str:
    return source.name.split(".")[0].replace("-", "")
