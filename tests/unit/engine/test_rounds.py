"""Rounds of several operator instances: in turn while they are short, then side by side."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from recalljoin.engine import step
from recalljoin.engine.step import Rounds, drain

if TYPE_CHECKING:
    from collections.abc import Generator


def work(number: int) -> Generator[pa.RecordBatch, None, tuple[int, int]]:
    """Puts out two pieces; returns its number and its thread."""
    for piece in range(2):
        yield pa.RecordBatch.from_pydict({"from": [number], "piece": [piece]})
    return number, threading.get_ident()


@pytest.mark.parametrize("is_long", [False, True])
def test_rounds_give_the_same_in_turn_and_side_by_side(
    monkeypatch: pytest.MonkeyPatch, is_long: bool
) -> None:
    monkeypatch.setattr(step, "_LONG_ROUND", -1.0 if is_long else 60.0)
    rounds = Rounds()
    for _ in range(2):
        pieces, returned = drain(rounds.run([work(n) for n in range(3)]))
        assert [number for number, _ in returned] == [0, 1, 2]
        found = [(each["from"][0].as_py(), each["piece"][0].as_py()) for each in pieces]
        assert sorted(found) == [(n, piece) for n in range(3) for piece in range(2)]
        threads = {thread for _, thread in returned}
        assert (threads == {threading.get_ident()}) != is_long


def test_what_goes_wrong_in_a_round_is_raised() -> None:
    def fails() -> Generator[pa.RecordBatch, None, None]:
        yield pa.RecordBatch.from_pydict({"from": [0]})
        message = "no"
        raise ValueError(message)

    with pytest.raises(ValueError, match="no"):
        drain(Rounds().run([fails()]))
