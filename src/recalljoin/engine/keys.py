"""Keys as integers: two tuples have equal codes exactly if their keys are equal.

Types that fit 64 bits are their own codes. All others (text, binary, wide decimals) are *interned*:
their bytes are kept once, and the code is the number of the entry. Entries no tuple uses any more
are swept, so memory follows the windows and not the keys ever seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recalljoin.engine.codes import as_bytes, is_own_code, own_codes
from recalljoin.engine.compiled import compiled, lean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s

_EMPTY = -1
# Columns of Interned.entries.
_HASH, _START, _LENGTH, _USED = range(4)
# Cells of Interned.state.
_NEXT, _N_FREE, _N_BUCKETS_USED, _N_BYTES = range(4)


class KeyCodes:
    """Codes for the values of one class of equal attributes.

    Parameters
    ----------
    kind
        The type all values are given in.
    """

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self.interned = None if is_own_code(kind) else Interned()

    def encode(self, values: pa.Array) -> tuple[Int64s, NDArray[np.bool_]]:
        """Codes, and which values are not null; the code of a null means nothing."""
        known = np.asarray(values.is_valid())
        if self.interned is None:
            return own_codes(values), known
        # Most batches repeat their keys, and Arrow is fast at finding the distinct keys.
        encoded = values.dictionary_encode()
        codes = self.interned.encode(as_bytes(encoded.dictionary))
        places = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        return np.where(known, codes[places], 0) if len(codes) else places * 0, known

    def needs_sweep(self, n_in_use: int) -> bool:
        """Whether most entries belong to no tuple any more."""
        return self.interned is not None and self.interned.n_entries > 2 * n_in_use + 4096

    def sweep(self, in_use: Int64s) -> None:
        """Forget all entries whose codes are not ``in_use``."""
        if self.interned is not None:
            self.interned.sweep(in_use)


class Interned:
    """Byte strings, each with a number."""

    def __init__(self) -> None:
        self._buckets = np.full(64, _EMPTY, dtype=np.int64)
        self._entries = np.zeros((16, 4), dtype=np.int64)
        self._free = np.empty(16, dtype=np.int64)
        self._bytes = np.empty(256, dtype=np.uint8)
        self._state = np.zeros(4, dtype=np.int64)

    @property
    def n_entries(self) -> int:
        """Byte strings known."""
        return int(self._state[_NEXT] - self._state[_N_FREE])

    def encode(self, values: Any) -> Int64s:
        """The numbers of byte strings without nulls; unknown byte strings are added."""
        n = len(values)
        codes = np.empty(n, dtype=np.int64)
        if n == 0:
            return codes
        _, offsets, data = values.buffers()
        starts = np.frombuffer(offsets, dtype=np.int64)[values.offset : values.offset + n + 1]
        content = np.frombuffer(data, dtype=np.uint8) if data else np.empty(0, dtype=np.uint8)
        self._make_room(n, int(starts[-1] - starts[0]))
        _intern(
            starts,
            content,
            self._buckets,
            self._entries,
            self._free,
            self._bytes,
            self._state,
            codes,
        )
        return codes

    def _make_room(self, n_new: int, n_bytes: int) -> None:
        wanted = self.n_entries + n_new
        if wanted > len(self._entries):
            self._entries = np.resize(self._entries, (2 * wanted, 4))
            self._free = np.resize(self._free, 2 * wanted)
        if int(self._state[_N_BYTES]) + n_bytes > len(self._bytes):
            self._bytes = np.resize(self._bytes, 2 * (int(self._state[_N_BYTES]) + n_bytes))
        if 2 * (int(self._state[_N_BUCKETS_USED]) + n_new) > len(self._buckets):
            size = 2 ** int(np.ceil(np.log2(4 * wanted)))
            self._buckets = np.full(max(64, size), _EMPTY, dtype=np.int64)
            _rebuild(self._buckets, self._entries, self._state)

    def to_table(self) -> pa.Table:
        """All byte strings with their numbers."""
        n = int(self._state[_NEXT])
        (codes,) = np.nonzero(self._entries[:n, _USED])
        content = self._bytes.tobytes()
        starts, lengths = self._entries[codes, _START], self._entries[codes, _LENGTH]
        pieces = [content[a : a + n] for a, n in zip(starts, lengths, strict=True)]
        return pa.table({"code": codes, "key": pa.array(pieces, pa.large_binary())})

    def sweep(self, in_use: Int64s) -> None:
        """Forget all byte strings whose numbers are not given."""
        n = int(self._state[_NEXT])
        used = np.zeros(n, dtype=np.bool_)
        used[in_use] = True
        self._entries[:n, _USED] &= used
        (free,) = np.nonzero(~self._entries[:n, _USED].astype(np.bool_))
        self._free[: len(free)] = free
        self._state[_N_FREE] = len(free)
        self._bytes = _compact(self._bytes, self._entries, self._state)
        self._buckets[:] = _EMPTY
        _rebuild(self._buckets, self._entries, self._state)


@lean
def _intern(
    starts: Int64s,
    content: NDArray[np.uint8],
    buckets: Int64s,
    entries: Int64s,
    free: Int64s,
    kept: NDArray[np.uint8],
    state: Int64s,
    codes: Int64s,
) -> None:
    mask = len(buckets) - 1
    for i in range(len(codes)):
        start, length = starts[i], starts[i + 1] - starts[i]
        # FNV-1a, then a finisher, as the low bits of FNV-1a alone are weak.
        x = np.uint64(0xCBF29CE484222325)
        for j in range(start, start + length):
            x = (x ^ np.uint64(content[j])) * np.uint64(0x100000001B3)
        x = (x ^ (x >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
        hashed = np.int64(x ^ (x >> np.uint64(29)))
        at = hashed & mask
        code = -1
        while buckets[at] != _EMPTY:
            other = buckets[at]
            if entries[other, _HASH] == hashed and entries[other, _LENGTH] == length:
                same = True
                begin = entries[other, _START]
                for j in range(length):
                    if kept[begin + j] != content[start + j]:
                        same = False
                        break
                if same:
                    code = other
                    break
            at = (at + 1) & mask
        if code < 0:
            if state[_N_FREE] > 0:
                state[_N_FREE] -= 1
                code = free[state[_N_FREE]]
            else:
                code = state[_NEXT]
                state[_NEXT] += 1
            buckets[at] = code
            state[_N_BUCKETS_USED] += 1
            entries[code, _HASH] = hashed
            entries[code, _START] = state[_N_BYTES]
            entries[code, _LENGTH] = length
            entries[code, _USED] = 1
            for j in range(length):
                kept[state[_N_BYTES] + j] = content[start + j]
            state[_N_BYTES] += length
        codes[i] = code


@lean
def _rebuild(buckets: Int64s, entries: Int64s, state: Int64s) -> None:
    mask = len(buckets) - 1
    used = 0
    for code in range(state[_NEXT]):
        if entries[code, _USED]:
            at = entries[code, _HASH] & mask
            while buckets[at] != _EMPTY:
                at = (at + 1) & mask
            buckets[at] = code
            used += 1
    state[_N_BUCKETS_USED] = used


@compiled
def _compact(kept: NDArray[np.uint8], entries: Int64s, state: Int64s) -> NDArray[np.uint8]:
    total = 0
    for code in range(state[_NEXT]):
        if entries[code, _USED]:
            total += entries[code, _LENGTH]
    packed = np.empty(max(256, 2 * total), dtype=np.uint8)
    end = 0
    for code in range(state[_NEXT]):
        if entries[code, _USED]:
            begin, length = entries[code, _START], entries[code, _LENGTH]
            packed[end : end + length] = kept[begin : begin + length]
            entries[code, _START] = end
            end += length
    state[_N_BYTES] = end
    return packed
