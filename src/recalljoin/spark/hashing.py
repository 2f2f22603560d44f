"""Hashes of the content of columns: the same in every process and on every retry."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from recalljoin.engine.codes import is_own_code, own_codes

UInt64s = NDArray[np.uint64]

_NULL = np.uint64(0x9E3779B97F4A7C15)


def mixed(values: UInt64s) -> UInt64s:
    """Spread the bits of 64-bit values (the finisher of splitmix64)."""
    x = values
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


_OF_BYTE = mixed(np.arange(1, 257, dtype=np.uint64) * _NULL)
_FACTOR = np.uint64(0xD1342543DE82EF95)


def hashed(values: pa.Array) -> UInt64s:
    """A hash of each value; equal values of one type have equal hashes.

    As in the join, NaN equals NaN and -0.0 equals 0.0. Nulls share one hash. Of nested values, at
    most the number of entries enters the hash.
    """
    known = np.asarray(values.is_valid())
    if is_own_code(values.type):
        hashes = mixed(own_codes(values).view(np.uint64))
    elif pt.is_nested(values.type):
        hashes = np.zeros(len(values), dtype=np.uint64)
    else:
        encoded = values.dictionary_encode()
        of_entries = _hashed_bytes(_as_bytes(encoded.dictionary))
        places = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        if not len(of_entries):
            return np.full(len(values), _NULL, dtype=np.uint64)
        hashes = of_entries[places]
    if not known.all():
        hashes = np.where(known, hashes, _NULL)
    return hashes


def combined(first: UInt64s, second: UInt64s) -> UInt64s:
    """One hash of two, in this order."""
    return mixed(first * np.uint64(31) + second)


def to_share(hashes: UInt64s, share: int) -> NDArray[np.int64]:
    """A number from 0 to before ``share`` for each hash, all equally likely."""
    top = hashes >> np.uint64(32)
    return ((top * np.uint64(share)) >> np.uint64(32)).astype(np.int64)


def _as_bytes(values: pa.Array) -> pa.Array:
    if not (pt.is_binary(values.type) or pt.is_large_binary(values.type)):
        # Text is hashed as it is, wide decimals as their digits.
        values = values.cast(pa.large_string())
    return values.cast(pa.large_binary())


def _hashed_bytes(values: pa.Array) -> UInt64s:
    n = len(values)
    if not n:
        return np.empty(0, dtype=np.uint64)
    _, offsets, data = values.buffers()
    starts = np.frombuffer(offsets, dtype=np.int64)[values.offset : values.offset + n + 1]
    lengths = np.diff(starts)
    hashes = lengths.astype(np.uint64)
    if data is None or not lengths.any():
        return mixed(hashes)
    content = np.frombuffer(data, dtype=np.uint8)[starts[0] : starts[-1]]
    # Each byte enters as a random number times a power that depends on its place in the value.
    places = np.arange(len(content)) - np.repeat(starts[:-1] - starts[0], lengths)
    powers = np.cumprod(np.full(int(lengths.max()), _FACTOR, dtype=np.uint64))
    sums = np.cumsum(_OF_BYTE[content] * powers[places], dtype=np.uint64)
    sums = np.concatenate((np.zeros(1, dtype=np.uint64), sums))
    ends = starts - starts[0]
    return mixed(hashes + sums[ends[1:]] - sums[ends[:-1]])


def spark_hash(value: int, seed: int = 42) -> int:
    """Spark's hash of a long (Murmur3, 32 bits), which decides on the partition of a group."""
    bits = value & 0xFFFFFFFFFFFFFFFF
    h = seed
    for word in (bits & 0xFFFFFFFF, bits >> 32):
        k = (word * 0xCC9E2D51) & 0xFFFFFFFF
        k = ((k << 15) | (k >> 17)) & 0xFFFFFFFF
        h ^= (k * 0x1B873593) & 0xFFFFFFFF
        h = ((h << 13) | (h >> 19)) & 0xFFFFFFFF
        h = (h * 5 + 0xE6546B64) & 0xFFFFFFFF
    h ^= 8
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
    h ^= h >> 16
    return h - (1 << 32) if h & (1 << 31) else h
