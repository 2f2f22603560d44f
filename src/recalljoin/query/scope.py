"""Names: which column of which stream is meant.

An unquoted name is looked up as written and, if that finds nothing, without regard to case. A
quoted name must match exactly. A dotted name starts with a stream: ``stream.column`` or
``stream.column.field``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.types as pt

from recalljoin.query.arrow_types import STRING
from recalljoin.query.expressions import Call, Column, Expression, Literal
from recalljoin.query.spelling import listed, way_out

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_T = TypeVar("_T")


@dataclass(frozen=True)
class Name:
    """One part of a dotted name."""

    text: str
    quoted: bool = False


class UnknownName(Exception):
    """A name that means nothing, or more than one thing; the message says which."""


def matching(name: Name, candidates: Sequence[str]) -> list[int]:
    """Positions of the candidates that ``name`` may mean: none, one, or several."""
    exact = [at for at, candidate in enumerate(candidates) if candidate == name.text]
    if exact or name.quoted:
        return exact
    wanted = name.text.lower()
    return [at for at, candidate in enumerate(candidates) if candidate.lower() == wanted]


def find(name: str, given: Mapping[str, _T]) -> _T | None:
    """The entry called ``name``; case is ignored if just one entry then matches."""
    keys = list(given)
    places = matching(Name(name), keys)
    return given[keys[places[0]]] if len(places) == 1 else None


class Scope:
    """The streams of a query and their columns.

    Parameters
    ----------
    streams
        Names in the order of the query.
    schemas
        Columns of the streams. A stream whose columns are not known yet has None, and any column of
        it may exist.
    times
        Columns of event time of the streams.
    """

    def __init__(
        self,
        streams: Sequence[str],
        schemas: Sequence[pa.Schema | None],
        times: Sequence[str] = (),
    ) -> None:
        self.streams = tuple(streams)
        self.schemas = tuple(schemas)
        self.times = tuple(times)

    @property
    def is_complete(self) -> bool:
        """Whether the columns of all streams are known."""
        return all(schema is not None for schema in self.schemas)

    def resolve(self, parts: Sequence[Name]) -> Expression | None:
        """The column or field that a dotted name means; None when the columns are not known.

        Raises
        ------
        UnknownName
            When the name means nothing, or more than one thing.
        """
        if len(parts) == 1:
            return self._unqualified(parts[0])
        return self._in_stream(self.stream(parts[0]), parts[1:])

    def stream(self, name: Name) -> int:
        """Index of the stream called ``name``.

        Raises
        ------
        UnknownName
            When there is none.
        """
        found = matching(name, self.streams)
        if not found:
            raise UnknownName(self._no_stream(name))
        return found[0]

    def is_time(self, expression: Expression | None) -> bool:
        """Whether the expression is a stream's column of event time."""
        return isinstance(expression, Column) and bool(
            matching(Name(self.times[expression.stream]), [expression.name])
        )

    def _unqualified(self, name: Name) -> Expression | None:
        holders = self._holders(name)
        if len(holders) > 1:
            names = [self.streams[stream] for stream in holders]
            spellings = [f"{stream}.{name.text}" for stream in names]
            message = (
                f"column `{name.text}` is in streams {listed(names, last=' and ')}; "
                f"write {listed(spellings, last=' or ')}"
            )
            raise UnknownName(message)
        if not self.is_complete:
            return None
        if not holders:
            every = [column for schema in self.schemas if schema for column in schema.names]
            message = f"no stream has a column `{name.text}`; " + self._column_way_out(name, every)
            raise UnknownName(message)
        return self._in_stream(holders[0], [name])

    def _in_stream(self, stream: int, parts: Sequence[Name]) -> Expression | None:
        schema = self.schemas[stream]
        if schema is None:
            return None
        name = parts[0]
        found = matching(name, schema.names)
        if not found:
            message = (
                f"stream `{self.streams[stream]}` has no column `{name.text}`; "
                + self._column_way_out(name, schema.names)
            )
            raise UnknownName(message)
        if len(found) > 1:
            message = (
                f"stream `{self.streams[stream]}` has several columns `{name.text}`; "
                "rename all but one of them"
            )
            raise UnknownName(message)
        field = schema.field(found[0])
        return self._descend(Column(stream, field.name, field.type), parts[1:])

    def _descend(self, column: Column, fields: Sequence[Name]) -> Expression:
        value: Expression = column
        path = f"{self.streams[column.stream]}.{column.name}"
        for name in fields:
            if not pt.is_struct(value.type):
                message = f"`{path}` is {value.type} and has no field `{name.text}`; leave it out"
                raise UnknownName(message)
            names = [value.type.field(at).name for at in range(value.type.num_fields)]
            found = matching(name, names)
            if len(found) != 1:
                message = f"`{path}` has no field `{name.text}`; "
                raise UnknownName(message + way_out(name.text, names, known_as="fields"))
            field = value.type.field(found[0])
            path = f"{path}.{field.name}"
            value = Call("field", (value, Literal(field.name, STRING)), field.type)
        return value

    def _holders(self, name: Name) -> list[int]:
        return [
            stream
            for stream, schema in enumerate(self.schemas)
            if schema is not None and matching(name, schema.names)
        ]

    def _no_stream(self, name: Name) -> str:
        message = f"no stream `{name.text}` in FROM; "
        holders = self._holders(name)
        if holders:
            stream = self.streams[holders[0]]
            return message + f"a field of column `{name.text}` is `{stream}.{name.text}...`"
        return message + way_out(name.text, self.streams, known_as="streams")

    @staticmethod
    def _column_way_out(name: Name, columns: Sequence[str]) -> str:
        if name.quoted:
            return f"if it is meant as text, write '{name.text}' in single quotes"
        return way_out(name.text, list(dict.fromkeys(columns)), known_as="columns")
