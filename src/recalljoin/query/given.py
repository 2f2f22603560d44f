"""What parameters are given: a value of the right kind, or a fault that names the parameter.

Python would go on with a wrong value until something deep inside fails, or, worse, take it for
something else: the text "no" for true.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
from os import PathLike
from typing import Any, Final

from recalljoin.errors import InvalidSetting
from recalljoin.query.spelling import shortened


@dataclass(frozen=True)
class Kind:
    """Values that a parameter takes.

    Parameters
    ----------
    words
        What they are, for messages.
    example
        One of them, as code.
    fits
        Whether a value is one of them.
    """

    words: str
    example: str
    fits: Callable[[Any], bool]

    def faults(self, name: str, value: object) -> list[str]:
        """What is wrong with a value: nothing, or one sentence.

        Examples
        --------
        >>> SWITCH.faults("flush", "no")
        ["`flush` must be True or False, got 'no'; write for example True"]
        """
        if self.fits(value):
            return []
        return [
            f"`{name}` must be {self.words}, got {shortened(repr(value))}; write for example "
            f"{self.example}"
        ]

    def check(self, name: str, value: object) -> None:
        """See that a value is one of them.

        Raises
        ------
        InvalidSetting
            When it is not.
        """
        faults = self.faults(name, value)
        if faults:
            raise InvalidSetting(*faults)


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _has_names(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


SWITCH: Final = Kind("True or False", "True", lambda value: isinstance(value, bool))
COUNT: Final = Kind("a whole number", "4", _is_whole)
NAME: Final = Kind("a name", "'orders'", lambda value: isinstance(value, str) and value != "")
FOLDER: Final = Kind(
    "the path of a folder", "'logs/orders'",
    lambda value: isinstance(value, str | PathLike) and str(value) != "",
)  # fmt: skip
SQL: Final = Kind("SQL as text", "'o.id = p.order_id'", lambda value: isinstance(value, str))
SELECTION: Final = Kind("SQL as text", "'o.id, p.ts AS paid'", lambda value: isinstance(value, str))
INPUTS: Final = Kind(
    "a dictionary with the data of each stream by its name", "{'o': orders, 'p': payments}",
    _has_names,
)  # fmt: skip
OPTIONS: Final = Kind("a dictionary of options by name", "{'memory': 20}", _has_names)
POLICY: Final = Kind(
    "the name of a policy, or a function that makes one", "'slack'",
    lambda value: isinstance(value, str) or callable(value),
)  # fmt: skip
