"""Wording shared by the messages about wrong queries."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LONGEST_QUOTE = 90


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate most like ``name``, or None when nothing comes close.

    Examples
    --------
    >>> did_you_mean("amout", ["id", "amount", "ts"])
    'amount'
    """
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def way_out(name: str, candidates: Sequence[str], *, known_as: str) -> str:
    """End of a message about an unknown name: the likely spelling, or what there is.

    Examples
    --------
    >>> way_out("amout", ["id", "amount"], known_as="columns")
    'did you mean `amount`?'
    >>> way_out("price", ["id", "amount"], known_as="columns")
    'known columns: `id`, `amount`'
    """
    meant = did_you_mean(name, candidates)
    if meant is not None:
        return f"did you mean `{meant}`?"
    if not candidates:
        return f"there are no {known_as}"
    return f"known {known_as}: {listed(candidates)}"


def listed(names: Sequence[str], *, last: str = ", ") -> str:
    """Names in backticks, separated by commas.

    Examples
    --------
    >>> listed(["s1", "s2", "s3"], last=" and ")
    '`s1`, `s2` and `s3`'
    """
    quoted = [f"`{name}`" for name in names]
    if len(quoted) < 2:
        return "".join(quoted)
    return ", ".join(quoted[:-1]) + last + quoted[-1]


def shortened(text: str) -> str:
    """``text`` on one line, cut in the middle when it is too long to quote."""
    line = " ".join(text.split())
    if len(line) <= _LONGEST_QUOTE:
        return line
    half = (_LONGEST_QUOTE - 5) // 2
    return f"{line[:half]} ... {line[-half:]}"
