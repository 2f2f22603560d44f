"""Players moving on a pitch: their places as a function of time, for any moment.

Paths are smooth curves through random points that lie a fixed time apart. The points are drawn by
their number (`counters`), so where a player is at any moment needs no history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recalljoin.datasets.counters import derive_key, draw_uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Millis = NDArray[np.int64]

__all__ = ["PITCH_LENGTH", "PITCH_WIDTH", "PLAYERS", "locate_player"]

# The half-size pitch of the DEBS 2013 recording, in metres: x runs along the halfway line from
# 0, y from one goal line to the other with 0 at the kick-off spot.
PITCH_WIDTH = 52.5
PITCH_LENGTH = 68.0
_HALF_LENGTH = PITCH_LENGTH / 2


class _Role(NamedTuple):
    """Where a player belongs and how much he roams; team 0 defends the goal at negative y."""

    x: float
    y: float
    follow: float  # share of the play's distance from the kick-off spot that he goes along with
    roam: float  # how far he strays from there on his own, in metres


_ROLES = (
    _Role(26.2, -32.0, 0.05, 1.5),  # goalkeeper
    _Role(11.0, -19.0, 0.45, 6.0),
    _Role(26.2, -22.0, 0.45, 6.0),
    _Role(41.0, -19.0, 0.45, 6.0),
    _Role(13.0, -2.0, 0.50, 8.0),
    _Role(26.2, -4.0, 0.50, 8.0),
    _Role(39.0, -2.0, 0.50, 8.0),
    _Role(26.2, 16.0, 0.45, 8.0),
)
PLAYERS = len(_ROLES)

# Play swings to another part of the pitch every 8 s, and a player chooses a new place every 5 s.
# With these times and the roles above, every player stays below a sprinter's 11 m/s.
_SWING = 8_000
_STEP = 5_000
_PLAY, _ROAM = 0, 1


def locate_player(seed: int, team: int, player: int, *, elapsed: Millis) -> tuple[Floats, Floats]:
    """Return x and y in metres of one player at the moments ``elapsed``.

    Parameters
    ----------
    seed
        Non-negative; the same seed is the same match.
    team, player
        0 or 1, and 0 .. `PLAYERS` - 1, where 0 is the goalkeeper.
    elapsed
        Milliseconds since kick-off, not negative, in any order.
    """
    role = _ROLES[player]
    side = 1.0 if team == 0 else -1.0
    across = _wander(derive_key(seed, _PLAY, 0), elapsed, every=_SWING) * PITCH_WIDTH / 2
    along = _wander(derive_key(seed, _PLAY, 1), elapsed, every=_SWING) * _HALF_LENGTH
    stray_x = _wander(derive_key(seed, _ROAM, team, player, 0), elapsed, every=_STEP) * role.roam
    stray_y = _wander(derive_key(seed, _ROAM, team, player, 1), elapsed, every=_STEP) * role.roam
    x = role.x + role.follow * across + stray_x
    y = side * role.y + role.follow * along + stray_y
    return np.clip(x, 0.0, PITCH_WIDTH), np.clip(y, -_HALF_LENGTH, _HALF_LENGTH)


def _wander(key: NDArray[np.uint64], elapsed: Millis, *, every: int) -> Floats:
    """Return a smooth random curve within [-1, 1] through one random value per ``every`` ms."""
    if not len(elapsed):
        return np.empty(0)
    knots, part = np.divmod(elapsed, every)
    first = int(knots.min())
    values = 2.0 * draw_uniform(key, first, int(knots.max()) - first + 2) - 1.0
    share = part / every
    ease = share * share * (3.0 - 2.0 * share)  # level at the knots: no sudden turns
    here = values[knots - first]
    there = values[knots - first + 1]
    curve: Floats = here + ease * (there - here)
    return curve
