"""Text functions. Positions and lengths count characters, not bytes."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from recalljoin.query.kernels.arrays import Kernel, Value, as_array, is_scalar, rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recalljoin.query.expressions import Call

_END = 2**31
"""Past the last character of any text Arrow can hold."""
_TRIMS = {"both": pc.utf8_trim, "leading": pc.utf8_ltrim, "trailing": pc.utf8_rtrim}


@lru_cache(maxsize=256)
def like_regex(pattern: str) -> str:
    r"""Regular expression for a LIKE pattern in which a backslash escapes.

    Examples
    --------
    >>> like_regex(r"50\% o__r%")
    '(?s)^50%\\ o..r.*$'
    """
    parts = re.split(r"(\\.|%|_)", pattern, flags=re.DOTALL)
    wild = {"%": ".*", "_": "."}
    return "(?s)^" + "".join(wild.get(part) or _quoted(part) for part in parts) + "$"


def _quoted(part: str) -> str:
    return re.escape(part[1:] if len(part) == 2 and part[0] == "\\" else part)


def _like(call: Call, args: Sequence[Value]) -> Any:
    text, pattern = args
    if not pattern.is_valid:
        return pa.nulls(len(text), call.type)
    return pc.match_substring_regex(text, like_regex(pattern.as_py()))


def _substring(call: Call, args: Sequence[Value]) -> Any:
    text, *bounds = args
    if is_scalar(text) or not all(is_scalar(each) for each in bounds):
        table = zip(*(as_array(arg, rows(args)).to_pylist() for arg in args), strict=True)
        return pa.array([_one_substring(*row) for row in table], call.type)
    if not all(each.is_valid for each in bounds):
        return pa.nulls(len(text), call.type)
    first, stop = _slice(*(each.as_py() for each in bounds))
    return pc.utf8_slice_codeunits(text, start=first, stop=stop)


def _one_substring(text: str | None, start: int | None, length: int | None = _END) -> str | None:
    if text is None or start is None or length is None:
        return None
    first, stop = _slice(start, length)
    return text[first:stop]


def _slice(start: int, length: int = _END) -> tuple[int, int | None]:
    """Python's slice for SQL's: the first character is 1, negative starts count from the end."""
    if length <= 0:
        return 0, 0
    start = max(-_END, min(start, _END))
    first = start - 1 if start > 0 else start
    stop = first + min(length, _END)
    # From the end backwards, a stop at or past the last character is the end of the text.
    return first, None if first < 0 <= stop else stop


def _trim(_call: Call, args: Sequence[Value]) -> Any:
    text, characters, side = args
    return _TRIMS[side.as_py()](text, characters=characters.as_py())


def _concat(_call: Call, args: Sequence[Value]) -> Any:
    return pc.binary_join_element_wise(*args, "", null_handling="emit_null")


STRING_KERNELS: dict[str, Kernel] = {
    "like": _like,
    "substring": _substring,
    "trim": _trim,
    "concat": _concat,
    "lower": lambda _call, args: pc.utf8_lower(args[0]),
    "upper": lambda _call, args: pc.utf8_upper(args[0]),
    "length": lambda call, args: pc.utf8_length(args[0]).cast(call.type),
}
