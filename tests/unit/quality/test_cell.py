"""Which tuples count in a cell, by row number."""

from __future__ import annotations

import numpy as np

from recalljoin.quality.cell import Owned


def flags(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.bool_)


def at(owned: Owned, stream: int, *rows: int) -> list[bool]:
    streams = np.full(len(rows), stream, dtype=np.int8)
    counts: list[bool] = owned.at(streams, np.array(rows)).tolist()
    return counts


def test_tuples_without_a_flag_count_as_their_stream_does() -> None:
    owned = Owned(flags(1, 0))
    assert owned.append(0, 2, None).tolist() == [True, True]
    assert (at(owned, 0, 0, 1), at(owned, 1, 5)) == ([True, True], [False])


def test_flags_count_from_the_first_tuple_that_has_one() -> None:
    owned = Owned(flags(1, 1))
    owned.append(0, 3, None)
    owned.append(0, 2, flags(0, 1))
    owned.append(0, 1, None)
    assert at(owned, 0, 0, 2, 3, 4, 5) == [True, True, False, True, True]
    assert at(owned, 1, 3) == [True]


def test_flags_of_tuples_that_are_gone_are_forgotten() -> None:
    owned = Owned(flags(1, 1))
    owned.append(0, 4, flags(0, 1, 0, 1))
    owned.forget_before(0, 2)
    assert (owned.n_flags(0), at(owned, 0, 2, 3)) == (2, [False, True])
    # What is left says what the stream says: flags are needed no more.
    owned.forget_before(0, 3)
    assert (owned.n_flags(0), at(owned, 0, 3)) == (0, [True])
    owned.append(0, 1, flags(0))
    assert at(owned, 0, 3, 4) == [True, False]
