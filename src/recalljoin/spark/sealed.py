"""Values on their way to Python workers, which open each once and not in every task."""

from __future__ import annotations

import base64
import functools
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pyspark import cloudpickle

T = TypeVar("T")


@dataclass(frozen=True)
class Sealed(Generic[T]):
    """A value as bytes.

    To receive the bytes, a process need not load what the value is made of. Spark starts processes
    that receive a plan and never look at it.
    """

    content: bytes

    @classmethod
    def of(cls, value: T) -> Sealed[T]:
        """Seal a value."""
        return cls(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]

    @classmethod
    def from_text(cls, text: str) -> Sealed[T]:
        """From :meth:`to_text`."""
        return cls(base64.b64decode(text))

    def to_text(self) -> str:
        """As the value of an option."""
        return base64.b64encode(self.content).decode()

    def open(self) -> T:
        """The value, made once in each process."""
        value: T = _opened(self.content)
        return value


@functools.lru_cache(maxsize=64)
def _opened(content: bytes) -> Any:
    return cloudpickle.loads(content)
