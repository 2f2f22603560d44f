"""What each function of the typed tree does to Arrow arrays.

A kernel takes the call and its evaluated arguments: arrays or scalars, at least one of which is an
array. The kernel returns an array of the call's type, and tells on which rows the value cannot be
computed; the array is null on these rows.
"""

from __future__ import annotations

from recalljoin.query.kernels.arithmetic import ARITHMETIC_KERNELS
from recalljoin.query.kernels.arrays import Computed, Kernel, Value
from recalljoin.query.kernels.logic import LOGIC_KERNELS
from recalljoin.query.kernels.numbers import NUMBER_KERNELS
from recalljoin.query.kernels.user import call_user_function
from recalljoin.query.kernels.widening import WIDENING_KERNELS

__all__ = ["KERNELS", "Computed", "Kernel", "Value", "call_user_function"]

KERNELS: dict[str, Kernel] = {
    **ARITHMETIC_KERNELS,
    **LOGIC_KERNELS,
    **NUMBER_KERNELS,
    **WIDENING_KERNELS,
}
