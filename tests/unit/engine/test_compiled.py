"""The door to the compiler."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np
import pytest

from recalljoin.engine import compiled as module

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Pair(NamedTuple):
    """Two arrays, as kernels take them."""

    one: NDArray[np.int64]
    other: NDArray[np.int64]


def test_compiled_functions_compute_what_they_say() -> None:
    @module.compiled
    def halved(x: float, y: float) -> float:
        return x / y

    assert halved(3.0, 2.0) == 1.5
    # As in numpy, not as in Python.
    assert halved(1.0, 0.0) == float("inf")


def test_a_lean_kernel_counts_no_references_to_the_arrays_of_a_tuple() -> None:
    @module.lean
    def total(pair: Pair) -> int:
        found = 0
        for i in range(len(pair.one)):
            found += pair.one[i] * pair.other[i]
        return found

    assert total(Pair(np.arange(4), np.arange(4))) == 14
    kernel: Any = total
    # Code that an earlier run has left on disk cannot be looked into.
    kernel.recompile()
    (code,) = kernel.inspect_llvm().values()
    assert "NRT_incref" not in code


def test_a_lean_kernel_that_makes_an_array_is_refused() -> None:
    @module.lean
    def total(n: int) -> int:
        return int(np.ones(n).sum())

    with pytest.raises(numba.TypingError):
        total(4)


def test_without_a_place_for_machine_code_kernels_are_compiled_anew(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    original: Any = numba.njit

    def njit(*args: object, cache: bool = False, **options: object) -> object:
        if cache:
            message = "cannot cache function: no locator available"
            raise RuntimeError(message)
        return original(*args, **options)

    monkeypatch.setattr(numba, "njit", njit)
    with caplog.at_level(logging.DEBUG, logger=module.__name__):

        @module.compiled
        def doubled(x: int) -> int:
            return 2 * x

    assert doubled(4) == 8
    assert "no place to keep compiled code" in caplog.text
