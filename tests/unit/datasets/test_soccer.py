"""The simulated match: late like the paper's recording, and plausible on the pitch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from recalljoin.datasets import Q_X2, SimulatedMatch
from recalljoin.datasets.motion import PITCH_LENGTH, PITCH_WIDTH, PLAYERS, locate_player
from recalljoin.errors import DatasetError

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

SHORT = SimulatedMatch(seed=3, duration=150_000)


def columns(table: pa.Table) -> dict[str, NDArray[Any]]:
    return {name: table[name].to_numpy() for name in table.column_names}


@pytest.mark.parametrize("block_length", [333, 20_000, 1_000_000])
def test_the_length_of_blocks_does_not_change_the_rows(block_length: int) -> None:
    # 30 s suffice for the smallest blocks: each looks back over the longest silence.
    match = replace(SHORT, duration=30_000) if block_length < 1_000 else SHORT
    for name in match.streams:
        assert replace(match, block_length=block_length).table(name).equals(match.table(name))


def test_the_same_seed_is_the_same_match_and_another_seed_another() -> None:
    first, again, other = (
        SimulatedMatch(seed=seed, duration=10_000).table("s1") for seed in (1, 1, 2)
    )
    assert first.equals(again)
    assert first["arrival"] != other["arrival"]
    assert first["x"] != other["x"]


def test_it_is_labelled_as_simulated_and_comes_with_the_paper_s_query() -> None:
    assert SHORT.simulated
    assert SHORT.name == "soccer_simulated"
    assert SHORT.query == Q_X2


def test_no_reading_is_lost_or_doubled_on_its_way() -> None:
    # 16 sensors, one reading each 49 ms, in [1, 150 000) after kick-off: about 48 980.
    for name in SHORT.streams:
        table = columns(SHORT.table(name))
        assert len(table["ts"]) == pytest.approx(16 * 150_000 / 49, abs=16)
        for player in np.unique(table["sID"]):
            moments = np.sort(table["ts"][table["sID"] == player])
            # Two sensors a player, in turn: the distances alternate but sum to 49.
            assert (moments[2:] - moments[:-2] == 49).all()


def test_players_are_numbered_as_in_the_recording() -> None:
    assert np.unique(columns(SHORT.table("s1"))["sID"]).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert np.unique(columns(SHORT.table("s2"))["sID"]).tolist() == list(range(9, 17))


def test_without_resending_only_a_silent_sensor_is_late() -> None:
    match = replace(SHORT, resent=0.0)
    for name in match.streams:
        table = columns(match.table(name))
        late = table["arrival"] > table["ts"]
        assert late.any()
        # Silences begin in one minute each; a sensor belongs to one player.
        begun = (table["ts"][late] - match.start) // 60_000
        assert len(np.unique(table["sID"][late])) <= 1 + begun.max()


def test_a_silent_sensor_catches_up_oldest_first_and_fast() -> None:
    match = SimulatedMatch(seed=3, duration=10 * 60_000, resent=0.0)
    table = columns(match.table("s1"))
    delay = table["arrival"] - table["ts"]
    worst = int(delay.argmax())
    # Team A falls silent longest in its ninth minute; the first reading held back waits longest.
    assert delay[worst] == pytest.approx(22_000, abs=60)
    assert 8 * 60_000 <= table["ts"][worst] - match.start < 9 * 60_000
    burst = (delay > 0) & (np.abs(table["arrival"] - table["arrival"][worst]) < 1_000)
    burst &= table["sID"] == table["sID"][worst]
    assert burst.sum() == pytest.approx(22_000 / 49, abs=20)
    assert (np.diff(table["ts"][burst]) > 0).all()
    assert np.ptp(table["arrival"][burst]) <= 22_000 / 50 + 60


def test_a_match_of_the_paper_s_length_has_its_size_and_delays() -> None:
    match = SimulatedMatch()
    for name, longest in zip(match.streams, (22_000, 26_000), strict=True):
        table = columns(match.table(name))
        assert len(table["ts"]) == pytest.approx(450_000, rel=0.01)
        behind = np.maximum.accumulate(table["ts"]) - table["ts"]
        assert behind.max() == pytest.approx(longest, abs=100)
        # Without slack a result is lost when the later of its tuples is late: for a recall around
        # 0.5, about half the tuples must be.
        assert (behind > 0).mean() == pytest.approx(0.53, abs=0.05)
        # A second of slack is to suffice for a recall of 0.99, as in the paper.
        assert (behind > 1_000).mean() < 0.01
        assert (behind > 13_000).mean() > 0.0005


def test_readings_still_on_their_way_at_the_end_arrive_after_it() -> None:
    # Kick-off to the middle of the silence that starts in the ninth minute of team A.
    match = SimulatedMatch(seed=3, duration=10 * 60_000, resent=0.0)
    begin = int(columns(match.table("s1"))["ts"][_worst(match)] - match.start)
    cut = columns(replace(match, duration=begin + 5_000).table("s1"))
    assert cut["arrival"].max() > match.start + begin + 20_000
    assert cut["ts"].max() < match.start + begin + 5_000


def _worst(match: SimulatedMatch) -> int:
    table = columns(match.table("s1"))
    return int((table["arrival"] - table["ts"]).argmax())


def test_players_stay_on_the_pitch_and_run_like_people() -> None:
    moments = np.arange(0, 600_000, 100)
    for team in (0, 1):
        for player in range(PLAYERS):
            x, y = locate_player(0, team, player, elapsed=moments)
            assert x.min() >= 0.0
            assert x.max() <= PITCH_WIDTH
            assert np.abs(y).max() <= PITCH_LENGTH / 2
            speed = np.hypot(np.diff(x), np.diff(y)) / 0.1
            assert speed.max() < 11.0
            assert speed.mean() > 0.2


def test_goalkeepers_stay_near_opposite_goals() -> None:
    moments = np.arange(0, 600_000, 100)
    assert locate_player(0, 0, 0, elapsed=moments)[1].max() < -25.0
    assert locate_player(0, 1, 0, elapsed=moments)[1].min() > 25.0


def test_where_a_player_is_needs_no_history() -> None:
    whole = locate_player(5, 1, 3, elapsed=np.arange(100_000))
    alone = locate_player(5, 1, 3, elapsed=np.array([77_777]))
    assert (alone[0][0], alone[1][0]) == (whole[0][77_777], whole[1][77_777])


def test_positions_scatter_around_the_player_by_a_step_and_a_little_noise() -> None:
    table = columns(SHORT.table("s2"))
    x, y = locate_player(3, 1, 6, elapsed=(table["ts"] - SHORT.start)[table["sID"] == 15])
    off_x, off_y = table["x"][table["sID"] == 15] - x, table["y"][table["sID"] == 15] - y
    # Boots stand 0.2 m left and right of him; noise has a standard deviation of 0.08 m.
    assert np.abs(off_x).mean() == pytest.approx(0.2, abs=0.01)
    assert off_y.std() == pytest.approx(0.08, abs=0.005)
    assert off_y.mean() == pytest.approx(0.0, abs=0.01)


def test_all_faulty_settings_are_reported_together() -> None:
    with pytest.raises(DatasetError) as caught:
        SimulatedMatch(
            seed=-2, duration=0, resent=0.9, backoff=-1.0, longest=(-1, 5), block_length=0
        )
    assert str(caught.value) == (
        "`duration` must be at least 1, got 0; "
        "`block_length` must be at least 1, got 0; "
        "`seed` must not be negative, got -2; "
        "`resent` must be in [0, 0.75], got 0.9; "
        "`backoff` must not be negative, got -1.0; "
        "`longest` must not be negative, got (-1, 5)"
    )
