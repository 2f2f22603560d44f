"""Sizes of memory as people write them: ``"256 MB"``, ``"1.5 GiB"``, or a number of bytes."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from recalljoin.errors import InvalidSetting

SizeLike = str | int

_UNITS: Final = {
    "b": 1,
    "byte": 1,
    "bytes": 1,
    **{f"{prefix}b": 1000**n for n, prefix in enumerate("kmgt", 1)},
    **{f"{prefix}ib": 1024**n for n, prefix in enumerate("kmgt", 1)},
}
_SIZE: Final = re.compile(r"\s*(?P<number>\d+(?:\.\d*)?|\.\d+)\s*(?P<unit>[a-zA-Z]*)\s*")


def n_bytes(value: SizeLike, *, name: str) -> int:
    """Number of bytes of a size.

    Parameters
    ----------
    value
        Text with a unit, or a whole number of bytes.
    name
        What the size is for, as messages should call it.

    Raises
    ------
    InvalidSetting
        When ``value`` is no size, or is negative.

    Examples
    --------
    >>> n_bytes("64 MB", name="horizon_memory"), n_bytes("2 KiB", name="horizon_memory")
    (64000000, 2048)
    """
    advice = "write text such as '256 MB' or '1 GiB', or a whole number of bytes"
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            message = f"`{name}` must not be negative, got {value!r}; {advice}"
            raise InvalidSetting(message)
        return value
    written = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if written is None:
        message = f"`{name}` must be a size of memory, got {value!r}; {advice}"
        raise InvalidSetting(message)
    unit = written["unit"].lower()
    if unit not in _UNITS:
        fault = f"has the unknown unit `{written['unit']}`" if unit else "has no unit"
        message = f"`{name}` of {value!r} {fault}; write B, kB, MB, GB, TB, KiB, MiB, GiB or TiB"
        raise InvalidSetting(message)
    return int(Decimal(written["number"]) * _UNITS[unit])


def spelled(size: int) -> str:
    """Bytes as a person would write them.

    Examples
    --------
    >>> spelled(256_000_000), spelled(4_000_000_000), spelled(1500)
    ('256 MB', '4 GB', '1.5 kB')
    """
    for unit in ("GB", "MB", "kB"):
        if size >= _UNITS[unit.lower()]:
            return f"{size / _UNITS[unit.lower()]:g} {unit}"
    return f"{size} bytes"
