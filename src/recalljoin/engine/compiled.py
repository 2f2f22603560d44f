"""One door to the compiler, so that every kernel is compiled and cached in the same way."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import numba
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

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


@intrinsic
def _prefetched(_: Any, array: Any, row: Any) -> tuple[Any, Callable[..., Any]]:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, (held, at) = signature.args[0], arguments
        data = context.make_array(kind)(context, builder, held)
        at = [at, *[at.type(0)] * (kind.ndim - 1)]
        place = _ITEM(context, builder, kind, data, at)
        # To be read, into all caches, data and not code.
        how = [ir.Constant(ir.IntType(32), number) for number in (0, 3, 1)]
        takes = ir.FunctionType(ir.VoidType(), [place.type, *(each.type for each in how)])
        instruction = builder.module.declare_intrinsic("llvm.prefetch", [place.type], takes)
        builder.call(instruction, [place, *how])
        return context.get_dummy_value()

    return numba.types.void(array, row), emit


_ITEM: Any = cgutils.get_item_pointer
_PREFETCHED: Any = _prefetched
_COMPILES = not vars(numba.config)["DISABLE_JIT"]
"""False where kernels run as plain Python, to be looked at."""


@inlined
def prefetch(array: Any, row: int) -> None:
    """Have the processor fetch the line of memory where a row begins, without waiting for it.

    A load would not do: while many loads wait for memory, the processor cannot go on with what
    comes behind them. The place need not exist.
    """
    if _COMPILES:
        _PREFETCHED(array, row)
