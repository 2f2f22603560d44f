"""Sizes of memory as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from recalljoin.errors import InvalidSetting
from recalljoin.query.sizes import n_bytes


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("64 MB", 64_000_000),
        ("256MB", 256_000_000),
        (" 1.5 gb ", 1_500_000_000),
        ("2 KiB", 2048),
        ("1 TiB", 1 << 40),
        ("12 bytes", 12),
        ("0 B", 0),
        (4096, 4096),
    ],
)
def test_sizes_are_text_with_a_unit_or_bytes(written: str | int, size: int) -> None:
    assert n_bytes(written, name="horizon_memory") == size


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("64", "`horizon_memory` of '64' has no unit; write B, kB, MB, GB, TB, KiB, MiB, GiB or"),
        ("64 MX", "`horizon_memory` of '64 MX' has the unknown unit `MX`; write B, kB, MB"),
        ("much", "`horizon_memory` must be a size of memory, got 'much'; write text such as"),
        ("-1 MB", "`horizon_memory` must be a size of memory, got '-1 MB'"),
        (-1, "`horizon_memory` must not be negative, got -1; write text such as '256 MB'"),
        (1.5, "`horizon_memory` must be a size of memory, got 1.5"),
        (True, "`horizon_memory` must be a size of memory, got True"),
    ],
)
def test_other_things_are_refused(written: Any, message: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        n_bytes(written, name="horizon_memory")
    assert str(caught.value).startswith(message)
