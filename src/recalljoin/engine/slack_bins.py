"""Bins for the required slack of results: fine for short slacks, bounded in number for any.

The bins are log-linear, as in HdrHistogram. Bin 0 holds every negative slack. Slacks below 256
units of time have a bin each. From 256 on every octave is cut into 128 bins of equal width, so that
the width of a bin is less than 0.8 % of the slacks in it. There is nothing to set: delays of a
market feed in milliseconds and delays of a day in nanoseconds are told apart equally well.

    slack   < 0   0   1   ...   255   256-257   258-259   ...   510-511   512-515   ...
    bin       0   1   2   ...   256       257       258   ...       384       385   ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recalljoin.engine.compiled import inlined

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s

EXACT = 256
"""Slacks below this, in units of time, have a bin of their own."""
_PER_OCTAVE = 128

# A floating-point number has 52 bits of fraction below its exponent. With only the upper seven bits
# of the fraction, the number counts 128ths of octaves.
_FRACTION = 52 - 7
_OFFSET = (int(np.float64(EXACT).view(np.int64)) >> _FRACTION) - (1 + EXACT)
# Floating-point numbers have 53 bits. The lower bits of larger integers are cleared, as rounding
# might take a slack into the next bin.
_LARGEST_FLOAT, _KEPT = 1 << 53, -(1 << 10)


@inlined
def slack_bin(base: int, ts: int) -> int:
    """Bin of the required slack ``base - ts``; the difference must fit 64 bits, or be negative."""
    if base < ts:
        return 0
    slack = base - ts
    if slack < EXACT:
        return 1 + slack
    if slack >= _LARGEST_FLOAT:
        slack &= _KEPT
    return int(np.float64(slack).view(np.int64) >> _FRACTION) - _OFFSET


def _make_enough() -> Int64s:
    enough = list(range(EXACT + 1))
    for width in (1 << octave for octave in range(1, 56)):
        first = enough[-1]
        enough.extend(first + width * n for n in range(1, _PER_OCTAVE + 1))
    # The last bin ends at the largest 64-bit integer.
    enough[-1] -= 1
    return np.array(enough, dtype=np.int64)


ENOUGH = _make_enough()
"""For every bin the smallest K that is larger than each slack in the bin: with this K, all results
of the bin are produced. The K of bin 0 is 0, and the K of the last bin is the largest 64-bit
integer."""
ENOUGH.setflags(write=False)
N_BINS = len(ENOUGH)
