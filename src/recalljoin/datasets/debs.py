"""Reader for the match files of the DEBS 2013 Grand Challenge.

A line is ``sid,ts,x,y,z,|v|,|a|,vx,vy,vz,ax,ay,az`` without a header: the sensor, picoseconds,
millimetres, and motion that is not needed here. The files hold no time of arrival and are sorted by
``ts``; ``arrival`` is therefore the number of the line, which is right for files in any order.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv

from recalljoin.datasets.base import stream_names
from recalljoin.datasets.recordings import Recording, make_report, require_file
from recalljoin.datasets.soccer import POSITIONS, Q_X2
from recalljoin.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["BALLS", "FIRST_HALF", "REFEREE", "SECOND_HALF", "SENSORS", "Sensor", "read_match"]


class Sensor(NamedTuple):
    """Who wears a sensor, and where."""

    team: str
    player: int
    limb: str


# Left and right boot of each player in the order of the match sheet; the goalkeeper stands first.
# Players are numbered 1-8 in team A and 9-16 in team B.
_BOOTS = {
    "A": ((13, 14), (47, 16), (49, 88), (19, 52), (53, 54), (23, 24), (57, 58), (59, 28)),
    "B": ((61, 62), (63, 64), (65, 66), (67, 68), (69, 38), (71, 40), (73, 74), (75, 44)),
}
_GLOVES = {"A": (97, 98), "B": (99, 100)}


def _wearers() -> dict[int, Sensor]:
    sensors: dict[int, Sensor] = {}
    player = 0
    for team, boots in _BOOTS.items():
        keeper = player + 1
        for left, right in boots:
            player += 1
            sensors[left] = Sensor(team, player, "left leg")
            sensors[right] = Sensor(team, player, "right leg")
        left, right = _GLOVES[team]
        sensors[left] = Sensor(team, keeper, "left arm")
        sensors[right] = Sensor(team, keeper, "right arm")
    return sensors


SENSORS: Mapping[int, Sensor] = _wearers()
"""The sensors of the players by their id."""

BALLS = frozenset({4, 8, 10, 12})
"""Ids of the balls; 12 came into play in the second half."""

REFEREE = frozenset({105, 106})
"""Ids of the referee's left and right leg."""

FIRST_HALF = (10_753_295_594_424_116, 12_557_295_594_424_116)
"""Kick-off and half-time in the picoseconds of the files."""

SECOND_HALF = (13_086_639_146_403_495, 14_879_639_146_403_495)
"""Second kick-off and final whistle in the picoseconds of the files."""

_COLUMNS = ["sid", "ts", "x", "y", "z", "v", "a", "vx", "vy", "vz", "ax", "ay", "az"]
_USED = ("sid", "ts", "x", "y")
_BATCH_BYTES = 16 << 20
_PICOSECONDS = 1_000_000_000  # in a millisecond
_MILLIMETRES = 1_000  # in a metre

# Roles of a sensor id in the look-up table below; players are 1-16.
_UNKNOWN, _BALL, _REFEREE, _GLOVE = 0, -1, -2, -3
_SKIP_REASONS = {
    _UNKNOWN: "unknown sensor",
    _BALL: "ball",
    _REFEREE: "referee",
    _GLOVE: "goalkeeper's arm",
}


def read_match(
    path: str | Path,
    *,
    every: int = 1,
    between: tuple[int, int] | None = None,
    arms: bool = False,
) -> Recording:
    """Read a match into one stream per team: ``s1`` is team A, ``s2`` team B.

    Balls, referee and unknown sensors are left out and counted in the report. The query is
    `~recalljoin.datasets.Q_X2`, two players of different teams within 5 metres.

    Parameters
    ----------
    path
        A file of the Grand Challenge, plain or compressed (``.gz``).
    every
        Keep one of every ``every`` readings of each sensor. Sensors measure 200 times a second;
        with 10, the rate is close to the paper's 450 000 tuples a team in 23 minutes.
    between
        First and last time to keep in picoseconds, for example `FIRST_HALF`; all by default.
    arms
        Whether to keep the goalkeepers' gloves too.

    Returns
    -------
    Recording
        Columns ``arrival`` (line number from 0), ``ts`` (milliseconds), ``sID`` (the player),
        ``x`` and ``y`` (metres).
    """
    source = require_file(path)
    if every < 1:
        message = f"`every` must be at least 1, got {every!r}"
        raise DatasetError(message)
    roles = _role_table(arms=arms)
    skipped: Counter[str] = Counter()
    seen: Counter[int] = Counter()
    parts = []
    line = 0
    for batch in _read_lines(source):
        sid, ts, x, y = (batch.column(name).to_numpy() for name in _USED)
        role = roles[np.clip(sid, 0, len(roles) - 1)]
        for code, reason in _SKIP_REASONS.items():
            skipped[reason] += int((role == code).sum())
        wanted = role > 0
        if between is not None:
            inside = wanted & (ts >= between[0]) & (ts <= between[1])
            skipped["outside `between`"] += int(wanted.sum() - inside.sum())
            wanted = inside
        if every > 1:
            thinned = _each_nth(sid, wanted, every, seen)
            skipped["thinned by `every`"] += int(wanted.sum() - thinned.sum())
            wanted = thinned
        rows = np.flatnonzero(wanted)
        parts.append(
            (
                rows + line,
                ts[rows] // _PICOSECONDS,
                role[rows],
                x[rows] / _MILLIMETRES,
                y[rows] / _MILLIMETRES,
                sid[rows],
            )
        )
        line += batch.num_rows
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    report = make_report(source, len(columns[0]), skipped=skipped, rejected=Counter())
    table = pa.Table.from_arrays([pa.array(column) for column in columns], schema=POSITIONS)
    in_team_a = columns[2] <= len(_BOOTS["A"])
    tables = {
        name: table.filter(pa.array(members))
        for name, members in zip(stream_names(2), (in_team_a, ~in_team_a), strict=True)
    }
    return Recording(name="soccer_debs2013", query=Q_X2, tables=tables, report=report)


def _read_lines(source: Path) -> Iterator[pa.RecordBatch]:
    """Open the file in batches of lines, so that 4 GB of match need no 4 GB of memory."""
    types = dict.fromkeys(_USED, pa.int64())
    try:
        yield from pv.open_csv(
            source,
            read_options=pv.ReadOptions(column_names=_COLUMNS, block_size=_BATCH_BYTES),
            convert_options=pv.ConvertOptions(column_types=types, include_columns=list(_USED)),
        )
    except pa.ArrowInvalid as fault:
        message = (
            f"{source} is not a DEBS 2013 match file, which has {len(_COLUMNS)} comma-separated "
            f"columns of whole numbers and no header: {fault}"
        )
        raise DatasetError(message) from fault


def _role_table(*, arms: bool) -> NDArray[np.int64]:
    """Return the role of each sensor id; ids past the end count as the last, unknown one."""
    roles = np.full(max(*SENSORS, *BALLS, *REFEREE) + 2, _UNKNOWN, dtype=np.int64)
    roles[list(BALLS)] = _BALL
    roles[list(REFEREE)] = _REFEREE
    for sid, sensor in SENSORS.items():
        is_glove = sensor.limb.endswith("arm")
        roles[sid] = _GLOVE if is_glove and not arms else sensor.player
    return roles


def _each_nth(
    sid: NDArray[np.int64], wanted: NDArray[np.bool_], every: int, seen: Counter[int]
) -> NDArray[np.bool_]:
    """Mark one wanted reading in ``every`` of each sensor; ``seen`` carries on between batches."""
    keep = np.zeros(len(sid), dtype=np.bool_)
    for sensor in np.unique(sid[wanted]).tolist():
        rows = np.flatnonzero(wanted & (sid == sensor))
        keep[rows[-seen[sensor] % every :: every]] = True
        seen[sensor] += len(rows)
    return keep
