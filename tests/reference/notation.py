"""Short ways to write tuples down in tests."""

from __future__ import annotations

import re

from tests.reference.model import StreamTuple


def timeline(text: str) -> list[StreamTuple]:
    """Tuples in the order of their arrival, ``stream:ts`` each; ``|`` starts the next tick.

    Examples
    --------
    >>> [(e.stream, e.ts, e.tick) for e in timeline("s1:4 s2:7 | | s1:-3")]
    [(0, 4, 0), (1, 7, 0), (0, -3, 2)]
    """
    tuples: list[StreamTuple] = []
    for tick, part in enumerate(text.split("|")):
        for word in part.split():
            stream, ts = word.removeprefix("s").split(":")
            tuples.append(StreamTuple(int(stream) - 1, int(ts), len(tuples), tick=tick))
    return tuples


def letters(text: str) -> list[StreamTuple]:
    """Tuples in the order of their arrival, as the paper's Figures 1 and 5 write them.

    A letter is the value of the join attribute, a capital one for a tuple of the first stream, and
    the number after it is the ts.

    Examples
    --------
    >>> [(e.stream, e.values["x"], e.ts) for e in letters("C4 c3")]
    [(0, 'c', 4), (1, 'c', 3)]
    """
    tuples: list[StreamTuple] = []
    for word in text.split():
        match = re.fullmatch(r"([A-Za-z])(\d+)", word)
        assert match is not None, f"not a letter and a number: {word!r}"
        letter, ts = match.groups()
        stream = 0 if letter.isupper() else 1
        tuples.append(StreamTuple(stream, int(ts), len(tuples), {"x": letter.lower()}))
    return tuples


def in_letters(e: StreamTuple) -> str:
    """Undo `letters` for one tuple."""
    letter = str(e.values["x"])
    return f"{letter.upper() if e.stream == 0 else letter}{e.ts}"
