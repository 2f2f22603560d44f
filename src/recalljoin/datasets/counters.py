"""Random numbers with an address: the n-th draw of a key, without the draws before it.

The generators of this package are functions of (seed, what is drawn, row number). A worker that
makes rows 50 000 .. 59 999 jumps straight to row 50 000, and neither the size of the blocks nor
their order can change a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["derive_key", "draw_uniform"]

_WORDS_PER_COUNTER = 4  # Philox 4x64 turns one counter value into four 64-bit words


def derive_key(seed: int, *path: int) -> NDArray[np.uint64]:
    """Return the key of one independent sequence, named by non-negative integers.

    Parameters
    ----------
    seed
        The seed of the data set.
    path
        What the sequence is for, for example stream number and attribute number.
    """
    # The path is a spawn key, not a part of the seed: otherwise different seeds and paths could
    # give the same sequence.
    state = np.random.SeedSequence(seed, spawn_key=path).generate_state(2, np.uint64)
    return state.astype(np.uint64, copy=False)


def draw_uniform(key: NDArray[np.uint64], start: int, count: int) -> NDArray[np.float64]:
    """Return draws ``start`` to ``start + count - 1`` of a key, uniform in [0, 1).

    The raw words are turned into floats here and not by `numpy.random.Generator`: NumPy keeps
    the words of a bit generator fixed between its releases, but not the floats made from them.

    Examples
    --------
    >>> key = derive_key(7, 0, 1)
    >>> bool((draw_uniform(key, 0, 100)[60:] == draw_uniform(key, 60, 40)).all())
    True
    """
    counter, offset = divmod(start, _WORDS_PER_COUNTER)
    words = np.random.Philox(counter=counter, key=key).random_raw(offset + count)[offset:]
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
