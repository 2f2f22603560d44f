"""What each function of the typed tree does to Arrow arrays.

A kernel takes the call and its evaluated arguments, arrays or scalars with at least one array
among them, and returns an array of the call's type.
"""

from __future__ import annotations

from recalljoin.query.kernels.arithmetic import ARITHMETIC_KERNELS
from recalljoin.query.kernels.arrays import Kernel, Value
from recalljoin.query.kernels.choice import CHOICE_KERNELS
from recalljoin.query.kernels.conversion import CONVERSION_KERNELS
from recalljoin.query.kernels.logic import LOGIC_KERNELS
from recalljoin.query.kernels.strings import STRING_KERNELS
from recalljoin.query.kernels.user import call_user_function

__all__ = ["KERNELS", "Kernel", "Value", "call_user_function"]

KERNELS: dict[str, Kernel] = {
    **ARITHMETIC_KERNELS,
    **LOGIC_KERNELS,
    **CHOICE_KERNELS,
    **STRING_KERNELS,
    **CONVERSION_KERNELS,
}
