"""Every exception the library raises on purpose.

One base class, so that ``except RecallJoinError`` catches them all; each subclass also inherits
the built-in a caller would expect.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class RecallJoinError(Exception):
    """Base of all errors raised by recalljoin."""


class InvalidQuery(RecallJoinError, ValueError):
    """A query that cannot be run, with every fault found in it.

    Parameters
    ----------
    faults
        One sentence per fault, or a single sentence.

    Examples
    --------
    >>> error = InvalidQuery(["stream `s1` has no window", "stream `s2` has no window"])
    >>> error.faults
    ('stream `s1` has no window', 'stream `s2` has no window')
    >>> print(error)
    2 faults:
      1. stream `s1` has no window
      2. stream `s2` has no window
    """

    faults: tuple[str, ...]

    def __init__(self, faults: str | Sequence[str]) -> None:
        self.faults = (faults,) if isinstance(faults, str) else tuple(faults)
        super().__init__(_one_message(self.faults))

    def __reduce__(self) -> tuple[type[InvalidQuery], tuple[tuple[str, ...]]]:
        # The default would rebuild the error from its message and merge the faults into one.
        return (type(self), (self.faults,))


class InvalidTarget(InvalidQuery):
    """A quality target that cannot be aimed at, such as a recall of 95."""


class InvalidJob(InvalidQuery):
    """A job file that cannot be run, with every fault found in it."""


class InvalidSetting(RecallJoinError, ValueError):
    """A setting outside its range, or settings that contradict each other."""


class StateVersionError(RecallJoinError, ValueError):
    """A state that is damaged, or was written in a layout that this version cannot read."""


class ControlLogError(RecallJoinError, OSError):
    """A control log that cannot be read or written, or that has lost what results depend on."""


class DatasetError(RecallJoinError, ValueError):
    """A dataset that is missing, malformed or asked for with wrong parameters."""


class FunctionError(RecallJoinError, RuntimeError):
    """A function or policy of the user's failed, or returned what it must not."""


class BufferFull(RecallJoinError, RuntimeError):
    """More tuples wait for a stream that is behind than may wait."""


class TooManyResults(RecallJoinError, OverflowError):
    """A tuple, or one call, with more results than can be counted."""


@contextmanager
def undamaged(what: str) -> Iterator[None]:
    """Turn whatever damaged bytes lead to into one error.

    Parameters
    ----------
    what
        What is read, for the message.

    Raises
    ------
    StateVersionError
        When it cannot be read.
    """
    try:
        yield
    except RecallJoinError:
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        message = (
            f"{what} is damaged, or no part of this join: {reason}. Put it back from a copy, or "
            "start anew"
        )
        raise StateVersionError(message) from error


def _one_message(faults: tuple[str, ...]) -> str:
    if len(faults) == 1:
        return faults[0]
    # Further lines of one fault, such as a marked place, stay under its first line.
    lines = (
        f"  {number}. " + fault.replace("\n", "\n     ")
        for number, fault in enumerate(faults, start=1)
    )
    return f"{len(faults)} faults:\n" + "\n".join(lines)
