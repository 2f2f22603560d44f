"""An engine that has become twice as slow is found out, and fitted exponents are what they say."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import regressions
from benchmarks.growth import exponent
from benchmarks.regressions import Pair, main

if TYPE_CHECKING:
    from pathlib import Path

VALUES = np.random.default_rng(1).random(200_000)


def sort(times: int) -> None:
    for _ in range(times):
        np.sort(VALUES)


@pytest.mark.parametrize(("times", "code"), [(2, 0), (4, 1)])
def test_twice_as_slow_fails_and_as_fast_as_ever_does_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, times: int, code: int
) -> None:
    stored = tmp_path / "stored.json"
    stored.write_text(json.dumps({"sorting": 2.0}))
    monkeypatch.setattr(regressions, "STORED", stored)
    pairs = {"sorting": Pair(partial(sort, times), partial(sort, 1))}
    monkeypatch.setattr(regressions, "pairs", lambda: pairs)
    result = CliRunner().invoke(main)
    assert result.exit_code == code, result.output
    assert ("SLOWER  sorting" in result.output) == bool(code)


def test_every_ratio_is_stored() -> None:
    assert set(json.loads(regressions.STORED.read_text())) == set(regressions.pairs())


def test_exponents_are_slopes_of_logarithms() -> None:
    assert exponent([1, 2, 4], [3, 6, 12]) == pytest.approx(1)
    assert exponent([1, 10, 100], [0.5, 0.5, 0.5]) == pytest.approx(0)
