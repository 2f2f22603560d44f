"""The reader of DEBS 2013 match files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from recalljoin.datasets import Q_X2, read_match
from recalljoin.datasets.debs import BALLS, FIRST_HALF, REFEREE, SECOND_HALF, SENSORS
from recalljoin.errors import DatasetError

if TYPE_CHECKING:
    from pathlib import Path

REST = ",0,0,0,0,0,0,0,0,0"


def write(path: Path, *readings: tuple[int, int, int, int]) -> Path:
    """Write a match file from (sensor, milliseconds, x in mm, y in mm)."""
    lines = [f"{sid},{ms * 10**9 + 123},{x},{y}{REST}" for sid, ms, x, y in readings]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_sensors_become_players_of_two_teams(tmp_path: Path) -> None:
    path = write(
        tmp_path / "match.csv",
        (13, 1_000, 26_245, -33_960),  # left boot of A's goalkeeper
        (8, 1_001, 1, 1),  # ball
        (44, 1_002, 1_500, 2_500),  # right boot of B's last player
        (105, 1_003, 1, 1),  # referee
        (28, 1_004, 0, 7),  # right boot of A's last player
        (61, 1_004, 4, -5),  # left boot of B's goalkeeper
    )
    match = read_match(path)
    assert match.table("s1").to_pydict() == {
        "arrival": [0, 4],
        "ts": [1_000, 1_004],
        "sID": [1, 8],
        "x": [26.245, 0.0],
        "y": [-33.96, 0.007],
        "sensor": [13, 28],
    }
    assert match.table("s2").to_pydict() == {
        "arrival": [2, 5],
        "ts": [1_002, 1_004],
        "sID": [16, 9],
        "x": [1.5, 0.004],
        "y": [2.5, -0.005],
        "sensor": [44, 61],
    }
    assert match.report.skipped == {"ball": 1, "referee": 1}
    assert (match.query, match.simulated, match.name) == (Q_X2, False, "soccer_debs2013")


def test_every_player_wears_two_boots_and_the_goalkeepers_gloves() -> None:
    assert len(SENSORS) == 2 * 16 + 4
    for player in range(1, 17):
        worn = [sensor.limb for sensor in SENSORS.values() if sensor.player == player]
        gloves = ["left arm", "right arm"] if player in (1, 9) else []
        assert worn == ["left leg", "right leg", *gloves]
    teams = {sensor.player: sensor.team for sensor in SENSORS.values()}
    assert [teams[player] for player in range(1, 17)] == ["A"] * 8 + ["B"] * 8
    assert not (BALLS | REFEREE) & set(SENSORS)
    assert (SENSORS[88], SENSORS[100]) == (("A", 3, "right leg"), ("B", 9, "right arm"))


def test_gloves_and_unknown_sensors_are_counted_and_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", (14, 1, 0, 0), (97, 2, 0, 0), (999, 3, 0, 0), (-5, 4, 0, 0))
    match = read_match(path)
    assert match.table("s1")["ts"].to_pylist() == [1]
    assert match.report.skipped == {"unknown sensor": 2, "goalkeeper's arm": 1}
    assert read_match(path, arms=True).table("s1")["ts"].to_pylist() == [1, 2]


def test_one_reading_in_n_is_kept_of_each_sensor(tmp_path: Path) -> None:
    # Two sensors in turn; thinning by row number would lose one of them.
    readings = [(13 if n % 2 == 0 else 61, n, 0, 0) for n in range(20)]
    match = read_match(write(tmp_path / "m.csv", *readings), every=4)
    assert match.table("s1")["ts"].to_pylist() == [0, 8, 16]
    assert match.table("s2")["ts"].to_pylist() == [1, 9, 17]
    assert match.report.skipped == {"thinned by `every`": 14}


def test_a_file_read_in_many_batches_is_read_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = [(13 if n % 3 else 61, n, n, -n) for n in range(500)]
    path = write(tmp_path / "m.csv", *readings)
    at_once = read_match(path, every=7)
    monkeypatch.setattr("recalljoin.datasets.debs._BATCH_BYTES", 1_000)  # some 30 lines
    in_batches = read_match(path, every=7)
    for name in at_once.streams:
        assert in_batches.table(name).equals(at_once.table(name))
    assert in_batches.report == at_once.report


def test_a_half_can_be_cut_out(tmp_path: Path) -> None:
    readings = [(13, n, 0, 0) for n in range(10)]
    match = read_match(write(tmp_path / "m.csv", *readings), between=(3 * 10**9, 6 * 10**9))
    assert match.table("s1")["ts"].to_pylist() == [3, 4, 5]  # 6 ms and 123 ps is past the end
    assert match.report.skipped == {"outside `between`": 7}
    # Half an hour each: 30:04 and 29:53 minutes.
    halves = [(end - begin) / 10**12 for begin, end in (FIRST_HALF, SECOND_HALF)]
    assert halves == pytest.approx([1_804, 1_793])


def test_order_of_the_file_is_order_of_arrival(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", (13, 5, 0, 0), (13, 3, 0, 0), (13, 4, 0, 0))
    table = read_match(path).table("s1")
    assert table["arrival"].to_pylist() == [0, 1, 2]
    assert table["ts"].to_pylist() == [5, 3, 4]


def test_a_missing_file_is_named() -> None:
    with pytest.raises(DatasetError) as caught:
        read_match("no/such/match.csv")
    assert str(caught.value) == "`path` must be an existing file, got 'no/such/match.csv'"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("13,1000,5,5", "Expected 13 columns, got 4"),
        ("13,soon,5,5" + REST, "invalid value 'soon'"),
        ("", "Empty CSV file"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "other.csv"
    path.write_text(line and line + "\n")
    with pytest.raises(DatasetError) as caught:
        read_match(path)
    assert str(caught.value).startswith(
        f"{path} is not a DEBS 2013 match file, which has 13 comma-separated columns of whole "
        "numbers and no header: "
    )
    assert reason in str(caught.value)


def test_a_file_without_players_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "balls.csv", (4, 1, 0, 0), (8, 2, 0, 0))
    with pytest.raises(DatasetError) as caught:
        read_match(path)
    assert str(caught.value) == (
        f"no usable line in {path}: 0 rows kept; skipped 2 (2 ball); "
        "check that it is the right kind of file"
    )


def test_keeping_one_in_none_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", (13, 1, 0, 0))
    with pytest.raises(DatasetError, match="`every` must be at least 1, got 0"):
        read_match(path, every=0)


@pytest.mark.data
def test_the_ball_heavy_sample_has_one_player_of_each_team(data_dir: Path) -> None:
    match = read_match(data_dir / "debs2013-mini-soccer" / "mini_soccer.csv")
    assert match.report.skipped == {"ball": 41_551}
    for name, rows, player in (("s1", 4_665, 1), ("s2", 3_784, 9)):
        table = match.table(name)
        assert table.num_rows == rows
        assert set(table["sID"].to_pylist()) == {player}
        ts = table["ts"].to_pylist()
        assert ts == sorted(ts)
        assert ts[-1] - ts[0] == pytest.approx(21_365, abs=100)
    # Both goalkeepers wait before kick-off, on the pitch's own metres.
    assert match.table("s1")["x"].to_numpy().min() > 20.0
    assert match.table("s1")["x"].to_numpy().max() < 30.0


@pytest.mark.data
def test_the_sample_from_kick_off_has_all_players(data_dir: Path) -> None:
    match = read_match(data_dir / "debs2013-mini-soccer" / "socstream_dataset.csv")
    assert match.report.kept == 2_067
    assert not match.report.skipped
    players = [set(match.table(name)["sID"].to_pylist()) for name in match.streams]
    # Both of one player's sensors are missing in the third of a second it covers.
    assert players[0] == {1, 2, 4, 5, 6, 7, 8}
    assert players[1] == set(range(9, 17))
    for name in match.streams:
        assert abs(match.table(name)["y"].to_numpy()).max() < 35.0
