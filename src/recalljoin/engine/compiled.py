"""One door to the compiler, so that every kernel is compiled and cached in the same way."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import numba

_LOG = logging.getLogger(__name__)
_F = TypeVar("_F", bound=Callable[..., object])


def compiled(function: _F) -> _F:
    """Compile ``function`` at its first call and keep the machine code on disk.

    The interpreter lock is released while a kernel runs, and a division by zero gives
    infinity as in numpy instead of an exception.
    """
    return _compiled(function, _nrt=True)


def lean(function: _F) -> _F:
    """Like :func:`compiled`, for kernels that make no arrays but get all memory from their caller.

    Elsewhere numba counts references, with atomic instructions, wherever an array is taken out of
    a named tuple, and in a loop over tuples the counting takes half of the time. A lean kernel must
    not call a kernel that returns a new array, because nobody would free that array.
    """
    return _compiled(function, _nrt=False)


def inlined(function: _F) -> _F:
    """Like :func:`lean`, for short parts of inner loops.

    A call hands over every array by its seven fields, which is most of the cost of a function of
    a few steps.
    """
    return _compiled(function, _nrt=False, forceinline=True)


def _compiled(function: _F, **options: Any) -> _F:
    try:
        kernel: Any = numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    except RuntimeError:
        # On a cluster's workers it may be that neither the package's folder nor the user's cache
        # can be written. Every process then compiles its kernels anew.
        _LOG.debug("no place to keep compiled code of %s", function)
        kernel = numba.njit(nogil=True, error_model="numpy", **options)(function)
    result: _F = kernel
    return result
