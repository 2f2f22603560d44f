"""Functions of the user's own, such as the paper's ``dist(x1, y1, x2, y2)``.

A function is *vectorised* (called once with numpy arrays, returns one array) or *scalar* (called
once per row with plain Python values). It must depend on its arguments alone: a join may call it
in any order, for any subset of rows, or not at all.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, overload
from typing import Literal as OneOf

import numpy as np
import pyarrow as pa

from recalljoin.errors import InvalidQuery
from recalljoin.query.arrow_types import canonical
from recalljoin.query.built_ins import TAKEN_NAMES

_F = TypeVar("_F", bound=Callable[..., Any])
Nulls = OneOf["propagate", "pass"]

_TYPE_NAMES: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "bool": pa.bool_(),
    "bigint": pa.int64(),
    "int": pa.int64(),
    "double": pa.float64(),
    "float": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
}


@dataclass(frozen=True)
class UserFunction:
    """One registered function; made by :meth:`Functions.register`."""

    name: str
    function: Callable[..., Any]
    returns: pa.DataType
    arguments: tuple[pa.DataType, ...] | None
    """Types that the arguments are converted to; None passes arguments as they are."""
    scalar: bool
    nulls: Nulls
    fewest: int
    most: int | None

    def accepts(self, count: int) -> bool:
        """Whether the function can be called with ``count`` arguments."""
        return self.fewest <= count and (self.most is None or count <= self.most)


class Functions(Mapping[str, UserFunction]):
    """The functions a query may call besides the built-in ones; names ignore case.

    Examples
    --------
    >>> functions = Functions()
    >>> @functions.register
    ... def dist(x1, y1, x2, y2):
    ...     return np.hypot(x1 - x2, y1 - y2)
    >>> @functions.register(returns="boolean", scalar=True)
    ... def same_initial(a, b):
    ...     return a[:1] == b[:1]
    >>> list(functions)
    ['dist', 'same_initial']
    """

    def __init__(self, functions: Iterable[UserFunction] = ()) -> None:
        self._by_name = {function.name.lower(): function for function in functions}

    @overload
    def register(self, function: _F, /) -> _F: ...

    @overload
    def register(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        returns: str | pa.DataType = "double",
        arguments: Sequence[str | pa.DataType] | None = None,
        scalar: bool = False,
        nulls: Nulls = "propagate",
    ) -> Callable[[_F], _F]: ...

    @overload
    def register(
        self,
        function: _F,
        /,
        *,
        name: str | None = None,
        returns: str | pa.DataType = "double",
        arguments: Sequence[str | pa.DataType] | None = None,
        scalar: bool = False,
        nulls: Nulls = "propagate",
    ) -> _F: ...

    def register(
        self,
        function: _F | None = None,
        /,
        *,
        name: str | None = None,
        returns: str | pa.DataType = "double",
        arguments: Sequence[str | pa.DataType] | None = None,
        scalar: bool = False,
        nulls: Nulls = "propagate",
    ) -> _F | Callable[[_F], _F]:
        """Make a function callable from queries; usable as a decorator.

        Parameters
        ----------
        function
            Vectorised unless ``scalar``: takes numpy arrays of one length, returns an array of
            that length. Numbers arrive as int64, uint64 or float64 arrays, booleans as bool,
            text and decimals as objects, dates and timestamps as datetime64.
        name
            Name of the function in queries; by default the name of the Python function.
        returns
            Arrow type of the result, or one of the words boolean, bigint, double, string, date.
        arguments
            Types that arguments are converted to before the call; by default none is converted.
        scalar
            Call the function once per row with plain Python values. Simple, and slow.
        nulls
            ``"propagate"``: rows with a null argument give null, without a call.
            ``"pass"``, for scalar functions only: the function is called with None.

        Raises
        ------
        InvalidQuery
            When the name is taken or a type is unknown.
        """
        if function is None:

            def decorator(decorated: _F) -> _F:
                return self.register(
                    decorated,
                    name=name,
                    returns=returns,
                    arguments=arguments,
                    scalar=scalar,
                    nulls=nulls,
                )

            return decorator
        called = str(name or getattr(function, "__name__", ""))
        faults = self._name_faults(called)
        result = _type_from(returns, called, faults)
        types = (
            None
            if arguments is None
            else tuple(_type_from(each, called, faults) for each in arguments)
        )
        if nulls == "pass" and not scalar:
            faults.append(
                f"function `{called}`: nulls='pass' needs scalar=True, because numpy arrays "
                "have no nulls; leave one of the two out"
            )
        if faults:
            raise InvalidQuery(faults)
        fewest, most = _arity(function) if types is None else (len(types), len(types))
        self._by_name[called.lower()] = UserFunction(
            name=called,
            function=function,
            returns=result,
            arguments=types,
            scalar=scalar,
            nulls=nulls,
            fewest=fewest,
            most=most,
        )
        return function

    def __getitem__(self, name: str) -> UserFunction:
        return self._by_name[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return (function.name for function in self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __repr__(self) -> str:
        return f"Functions({', '.join(self)})"

    def copy(self) -> Functions:
        """The same functions in a registry of their own."""
        return Functions(self._by_name.values())

    def _name_faults(self, name: str) -> list[str]:
        if not name.isidentifier():
            return [
                f"a function cannot be called {name!r}: names are letters, digits and "
                "underscores; register it with name='...'"
            ]
        if name.lower() in TAKEN_NAMES:
            return [f"function `{name}` is built in; register yours under another name"]
        if name.lower() in self._by_name:
            return [f"function `{name}` is already registered; give the second another name"]
        return []


def _type_from(given: str | pa.DataType, function: str, faults: list[str]) -> pa.DataType:
    if isinstance(given, str):
        if given.lower() in _TYPE_NAMES:
            return _TYPE_NAMES[given.lower()]
        words = "boolean, bigint, double, string, date"
        faults.append(
            f"function `{function}`: unknown type {given!r}; write {words}, or a pyarrow type"
        )
    elif not isinstance(given, pa.DataType) or canonical(given) is None:
        faults.append(
            f"function `{function}`: conditions cannot compute with {given!s}; "
            "use a number, text, boolean, date or timestamp type"
        )
    return given


def _arity(function: Callable[..., Any]) -> tuple[int, int | None]:
    """Fewest and most arguments; no limit where Python cannot tell."""
    if isinstance(function, np.ufunc):
        return function.nin, function.nin
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0, None
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    fewest = sum(p.default is p.empty for p in positional)
    unlimited = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return fewest, None if unlimited else len(positional)
