"""Keys as integers: equal codes exactly for equal keys, of any type."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recalljoin.engine.keys import Interned, KeyCodes

D = decimal.Decimal
DAY = datetime.date

DISTINCT: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int64": (pa.int64(), [0, 1, -1, 2**63 - 1, -(2**63), 2**53, 2**53 + 1]),
    "int8": (pa.int8(), [0, 1, -1, 127, -128]),
    "uint64": (pa.uint64(), [0, 1, 2**63 - 1, 2**63, 2**64 - 1]),
    "bool": (pa.bool_(), [True, False]),
    "float64": (pa.float64(), [0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 5e-324]),
    "date32": (pa.date32(), [DAY(1970, 1, 1), DAY(1969, 12, 31), DAY(2024, 2, 29)]),
    "timestamp": (pa.timestamp("us"), [0, 1, -1, 10**15]),
    "time64": (pa.time64("ns"), [0, 1, 86_399_999_999_999]),
    "duration": (pa.duration("ms"), [0, 1, -1]),
    "decimal(9, 2)": (pa.decimal128(9, 2), [D("0.00"), D("0.01"), D("-0.01"), D("9999999.99")]),
    "decimal(18, 0)": (pa.decimal128(18, 0), [D(0), D(10**18 - 1), D(1 - 10**18)]),
    "decimal(19, 0)": (pa.decimal128(19, 0), [D(0), D(10**19 - 1), D(1 - 10**19), D(2**63)]),
    "decimal(38, 10)": (pa.decimal128(38, 10), [D(0), D("1E-10"), D("-1E-10"), D("1E+27")]),
    "decimal256(60, 0)": (pa.decimal256(60, 0), [D(0), D(10**59), D(-(10**59)), D(2**64), D(1)]),
    "string": (pa.string(), ["", "a", "A", "a ", "ä", "a\x00", "\x00", "aa"]),
    "large_string": (pa.large_string(), ["", "a", "b"]),
    "binary": (pa.binary(), [b"", b"\x00", b"\x00\x00", b"a", b"\xff"]),
}


@pytest.mark.parametrize("name", DISTINCT)
def test_different_keys_have_different_codes_and_equal_ones_the_same(name: str) -> None:
    kind, values = DISTINCT[name]
    keys = KeyCodes(kind)
    twice, known = keys.encode(pa.array([*values, *values], kind))
    n = len(values)
    assert known.all()
    assert twice[:n].tolist() == twice[n:].tolist()
    assert len(set(twice.tolist())) == n
    # In another batch, another order and a slice of a longer array they are still the same.
    again, _ = keys.encode(pa.array([values[0], *reversed(values)], kind).slice(1))
    assert again.tolist() == list(reversed(twice[:n].tolist()))


@pytest.mark.parametrize("name", DISTINCT)
def test_nulls_are_told_from_keys(name: str) -> None:
    kind, values = DISTINCT[name]
    keys = KeyCodes(kind)
    codes, known = keys.encode(pa.array([None, values[0], None, values[1]], kind))
    assert known.tolist() == [False, True, False, True]
    assert codes[1] != codes[3]
    nothing, known = KeyCodes(kind).encode(pa.array([None, None], kind))
    assert (len(nothing), known.tolist()) == (2, [False, False])
    nothing, known = keys.encode(pa.array([], kind))
    assert (len(nothing), len(known)) == (0, 0)


def test_minus_zero_is_zero_and_every_nan_is_the_same() -> None:
    other_nan = np.array([0x7FF8000000000001, 0xFFF8000000000000], dtype=np.uint64).view(np.float64)
    keys = KeyCodes(pa.float64())
    codes, _ = keys.encode(pa.array([0.0, -0.0, math.nan, *other_nan], pa.float64()))
    assert codes[0] == codes[1]
    assert len(set(codes[2:].tolist())) == 1


def test_a_column_of_nothing_but_nulls_has_no_key() -> None:
    codes, known = KeyCodes(pa.null()).encode(pa.nulls(3))
    assert (codes.tolist(), known.tolist()) == ([0, 0, 0], [False] * 3)


def large_binary(values: list[bytes]) -> Any:
    return pa.array(values, pa.large_binary())


@given(
    batches=st.lists(st.lists(st.binary(max_size=3), unique=True, max_size=20), max_size=8),
    sweeps=st.lists(st.booleans(), min_size=8, max_size=8),
    data=st.data(),
)
def test_interned_strings_are_those_of_a_dictionary(
    batches: list[list[bytes]], sweeps: list[bool], data: st.DataObject
) -> None:
    interned = Interned()
    twin: dict[bytes, int] = {}
    for batch, sweep in zip(batches, sweeps, strict=False):
        codes = interned.encode(large_binary(batch)).tolist()
        for value, code in zip(batch, codes, strict=True):
            assert twin.setdefault(value, code) == code
        assert len(set(twin.values())) == len(twin) == interned.n_entries
        if sweep and twin:
            kept = data.draw(st.sets(st.sampled_from(sorted(twin))))
            interned.sweep(np.array([twin[value] for value in kept], dtype=np.int64))
            twin = {value: twin[value] for value in kept}
            assert interned.n_entries == len(twin)
    table = interned.to_table()
    assert dict(zip(table["key"].to_pylist(), table["code"].to_pylist(), strict=True)) == twin


def test_codes_of_swept_entries_are_given_to_new_ones_and_memory_does_not_grow() -> None:
    interned = Interned()
    first = interned.encode(large_binary([b"stays"]))
    sizes = set()
    for n in range(200):
        codes = interned.encode(large_binary([b"%d-%d" % (n, i) for i in range(50)]))
        assert codes.max() <= 100
        interned.sweep(np.concatenate((first, codes[:10])))
        assert interned.n_entries == 11
        sizes.add((len(interned._entries), len(interned._buckets), len(interned._bytes)))
    assert interned.encode(large_binary([b"stays"])).tolist() == first.tolist()
    # They settle after the first rounds.
    assert len(sizes) <= 3


def test_a_sweep_of_everything_leaves_nothing() -> None:
    interned = Interned()
    interned.encode(large_binary([b"a", b"b"]))
    interned.sweep(np.empty(0, dtype=np.int64))
    assert interned.n_entries == 0
    assert interned.to_table().num_rows == 0
    assert interned.encode(large_binary([b"c"])).tolist()[0] in (0, 1)


def test_long_strings_and_many_of_them() -> None:
    interned = Interned()
    values = [bytes([i % 256]) * (i % 300) + b"%d" % i for i in range(5000)]
    codes = interned.encode(large_binary(values))
    assert len(set(codes.tolist())) == 5000
    assert interned.encode(large_binary(values[::-1])).tolist() == codes[::-1].tolist()


def test_keys_that_are_their_own_codes_need_no_sweep() -> None:
    keys = KeyCodes(pa.int64())
    keys.encode(pa.array(range(10_000)))
    assert not keys.needs_sweep(0)
    keys.sweep(np.empty(0, dtype=np.int64))


def test_a_sweep_is_due_when_most_entries_are_unused() -> None:
    keys = KeyCodes(pa.string())
    keys.encode(pa.array([str(i) for i in range(10_000)]))
    assert keys.needs_sweep(100)
    assert not keys.needs_sweep(5000)
