"""Values of a job file that come from the environment, and are shown nowhere.

A text such as ``"${KAFKA_PASSWORD}"`` stands for the variable of that name. The values are put in
when Spark is called, and taken out of every message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SHORTEST: Final = 4
"""Letters of a value that is taken out of messages; shorter ones are in every text by chance."""


def names_in(value: Any) -> list[str]:
    """The variables that a value of a job file stands for, in whatever depth."""
    if isinstance(value, str):
        return _VARIABLE.findall(value)
    if isinstance(value, dict):
        return [name for each in value.values() for name in names_in(each)]
    if isinstance(value, list):
        return [name for each in value for name in names_in(each)]
    return []


@dataclass(frozen=True, repr=False)
class Secrets:
    """The variables that a job file names, with their values."""

    values: Mapping[str, str]

    def fill(self, text: str) -> str:
        """The text with the values in it.

        Examples
        --------
        >>> Secrets({"HOST": "kafka-1"}).fill("${HOST}:9092")
        'kafka-1:9092'
        """
        return _VARIABLE.sub(lambda found: self.values[found[1]], text)

    def hide(self, text: str) -> str:
        """A message without the values.

        Examples
        --------
        >>> Secrets({"PASSWORD": "s3cr3t"}).hide("login with s3cr3t failed")
        'login with ${PASSWORD} failed'
        """
        longest_first = sorted(self.values.items(), key=lambda each: -len(each[1]))
        for name, value in longest_first:
            if len(value) >= _SHORTEST:
                text = text.replace(value, f"${{{name}}}")
        return text

    def __repr__(self) -> str:
        return f"Secrets({', '.join(self.values)})"
