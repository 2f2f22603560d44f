"""Queries as text, in the form the paper writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from recalljoin.errors import InvalidQuery, InvalidSetting, InvalidTarget
from recalljoin.query.binding import Faults, bind, check
from recalljoin.query.functions import Functions
from recalljoin.query.given import SQL
from recalljoin.query.grammar import parse_statement
from recalljoin.query.model import Query, Stream
from recalljoin.query.quality import Quality
from recalljoin.query.scope import Name, find, matching
from recalljoin.query.spelling import shortened, way_out
from recalljoin.query.trees import present, text_of

if TYPE_CHECKING:
    import pyarrow as pa

    from recalljoin.query.durations import TimeUnit
    from recalljoin.query.grammar import Statement
    from recalljoin.query.kinds import Emit, How
    from recalljoin.query.outline import RecallClause, Window

_CLAUSES: Final = {
    "distinct": "DISTINCT",
    "laterals": "LATERAL",
    "sample": "TABLESAMPLE",
    "group": "GROUP BY",
    "having": "HAVING",
    "qualify": "QUALIFY",
    "windows": "WINDOW",
    "order": "ORDER BY",
    "limit": "LIMIT",
    "offset": "OFFSET",
}
"""Clauses of SQL that a join has no use for, in the order in which they are written."""
_JOINS: Final[dict[str, How]] = {
    "": "inner",
    "CROSS": "inner",
    "INNER": "inner",
    "LEFT": "left",
    "LEFT OUTER": "left",
    "RIGHT": "right",
    "RIGHT OUTER": "right",
    "FULL": "full",
    "FULL OUTER": "full",
    "SEMI": "semi",
    "LEFT SEMI": "semi",
    "ANTI": "anti",
    "LEFT ANTI": "anti",
}
"""Words before JOIN, and the kind of join that they mean."""
_KNOWN_CLAUSES: Final = {"expressions", "from_", "joins", "where"}
_TABLE_PARTS: Final = {"this", "alias", "db", "catalog"}


def parse_query(
    text: str,
    *,
    functions: Functions | None = None,
    time: str | Mapping[str, str] = "ts",
    arrival: str | Mapping[str, str] | None = None,
    schemas: Mapping[str, pa.Schema] | None = None,
    time_unit: TimeUnit = "ms",
    emit: Emit = "ordered",
) -> Query:
    """Read a query.

    Parameters
    ----------
    text
        ``SELECT outputs FROM stream [window], ... WHERE condition WITH RECALL share OVER period``.
        The condition and the recall may be left out, as may a window that follows from the
        condition. ``JOIN ... ON`` may stand for the comma. Two streams may be joined by ``LEFT``,
        ``RIGHT`` or ``FULL JOIN``, ``LEFT SEMI JOIN`` or ``LEFT ANTI JOIN``.
    functions
        Functions of your own that the query calls.
    time
        Time column, of all streams or by stream; ``[5 SEC ON column]`` in the text overrides it.
        ``[5 SEC SOURCE column]`` says which source a tuple is from.
    arrival
        Column that says when a tuple arrived, of all streams or by stream.
    schemas
        If given, columns and types are checked as well, so that faults of the columns are reported
        together with faults of the text. The query still has to be bound.
    time_unit
        What integer time columns count in, for the check against ``schemas``.
    emit
        When results leave: ``"ordered"`` or ``"eager"``.

    Raises
    ------
    InvalidQuery
        With every fault found; :class:`~recalljoin.errors.InvalidTarget` when only the quality
        target is at fault.

    Examples
    --------
    >>> query = parse_query(
    ...     "SELECT * FROM s1 [5 SEC], s2 [5 SEC] WHERE s1.a1 = s2.a1 "
    ...     "WITH RECALL 0.95 OVER 1 MINUTE"
    ... )
    >>> query.condition, query.quality.recall
    ('s1.a1 = s2.a1', 0.95)
    """
    SQL.check("query", text)
    reading = _Reading(time, arrival, emit)
    draft = reading.read(parse_statement(text), functions or Functions())
    if schemas is None:
        check(draft, reading.faults)
    else:
        bind(draft, schemas, reading.faults, time_unit=time_unit)
    reading.faults.refuse()
    return Query(
        streams=draft.streams,
        condition=draft.condition,
        select=draft.select,
        quality=draft.quality,
        functions=draft.functions,
        how=draft.how,
        emit=draft.emit,
        where=draft.where,
    )


def stated_query(query: str | Query) -> Query:
    """A query that may be given as text.

    Raises
    ------
    InvalidQuery
        With every fault of the text.
    InvalidSetting
        When it is neither a query nor text.
    """
    if isinstance(query, Query):
        return query
    if not isinstance(query, str):
        message = (
            f"`query` must be text such as 'SELECT * FROM o [5 SEC], p [5 SEC] WHERE o.id = "
            f"p.order_id', or a recalljoin.Query, got {shortened(repr(query))}"
        )
        raise InvalidSetting(message)
    return parse_query(query)


@dataclass(frozen=True)
class _Draft:
    """The parts of a query, some of them perhaps stand-ins for parts that have faults."""

    streams: Sequence[Stream]
    condition: str | None
    select: str
    quality: Quality | None
    functions: Functions
    how: How
    emit: Emit
    where: str | None


class _Reading:
    """Goes through the syntax tree of a query and collects what it finds, right or wrong."""

    def __init__(
        self,
        time: str | Mapping[str, str],
        arrival: str | Mapping[str, str] | None,
        emit: Emit,
    ) -> None:
        self.faults = Faults()
        self._how: How = "inner"
        self._emit = emit
        self._time = time
        self._arrival = arrival
        self._streams: list[Stream] = []

    def read(self, statement: Statement, functions: Functions) -> _Draft:
        query = statement.select
        if not isinstance(query, exp.Select):
            message = f"a query is one SELECT, got {query.key.upper()}; run its parts one by one"
            raise InvalidQuery(message)
        self._refuse_clauses(query)
        tables = self._tables(query)
        # Where the outline met other tables than the parser, something else is at fault as well.
        windows = [*statement.windows, *(None for _ in tables)]
        for table, window in zip(tables, windows, strict=False):
            self._read_table(table, window)
        for role, given in (("time", self._time), ("arrival", self._arrival)):
            self._refuse_strangers(role, given)
        conditions, where = list(statement.conditions), None
        if self._how != "inner" and query.args.get("where"):
            # It is about the rows that come out, and no part of the join.
            where = conditions.pop()
        return _Draft(
            how=self._how,
            emit=self._emit,
            where=where,
            streams=tuple(self._streams),
            condition=_conjunction(conditions),
            select=statement.outputs,
            quality=self._read_quality(statement.recall),
            functions=functions,
        )

    def _fault(self, message: str) -> None:
        self.faults.query.append(message)

    def _refuse_clauses(self, query: exp.Select) -> None:
        others = set(present(query)) - _KNOWN_CLAUSES
        for clause in [each for each in _CLAUSES if each in others] + sorted(others - {*_CLAUSES}):
            name = _CLAUSES.get(clause, clause.upper())
            self._fault(f"{name} is not supported; apply it to the result of the join")

    def _tables(self, query: exp.Select) -> list[exp.Expr]:
        source = query.args.get("from_")
        if source is None:
            self._fault("a query reads streams; write FROM s1 [5 SEC], s2 [5 SEC]")
            return []
        joins = query.args.get("joins") or []
        for join in joins:
            words = (str(join.args.get(part) or "") for part in ("method", "side", "kind"))
            kind = " ".join(word for word in words if word)
            if kind not in _JOINS:
                self._fault(
                    f"{kind} JOIN is not supported; write JOIN, LEFT JOIN, RIGHT JOIN, FULL JOIN, "
                    "LEFT SEMI JOIN or LEFT ANTI JOIN"
                )
            elif _JOINS[kind] != "inner":
                self._how = _JOINS[kind]
            if join.args.get("using"):
                self._fault("USING is not supported; write ON s1.a1 = s2.a1")
        return [source.this, *(join.this for join in joins)]

    def _read_table(self, table: exp.Expr, window: Window | None) -> None:
        if (
            not isinstance(table, exp.Table)
            or not isinstance(table.this, exp.Identifier)
            or set(present(table)) - _TABLE_PARTS
        ):
            message = f"`{shortened(text_of(table))}` in FROM is not supported"
            self._fault(message + "; write `stream [5 SEC] AS alias`")
            return
        if table.args.get("alias") and table.args["alias"].columns:
            self._fault(f"`{shortened(text_of(table))}` in FROM: columns cannot be renamed there")
        full_name = ".".join(part.name for part in table.parts)
        self._add_stream(table.alias or table.name, full_name, window)

    def _add_stream(self, name: str, table: str, window: Window | None) -> None:
        settings: dict[str, Any] = {
            "time": (window and window.time) or _for_stream(self._time, name, table) or "ts",
            "arrival": _for_stream(self._arrival, name, table),
            "source": window and window.source,
            "table": None if table == name else table,
        }
        try:
            stream = Stream(name, window=window.duration if window else None, **settings)
        except InvalidQuery as error:
            self.faults.query.extend(error.faults)
            stream = Stream(name, window=None, **settings)
        self._streams.append(stream)

    def _refuse_strangers(self, role: str, given: str | Mapping[str, str] | None) -> None:
        """Refuse columns for streams that the query does not have."""
        names = [stream.name for stream in self._streams]
        known = [*names, *(stream.table or stream.name for stream in self._streams)]
        for name in given if isinstance(given, Mapping) else ():
            if not matching(Name(str(name)), known):
                hint = way_out(str(name), names, known_as="streams")
                self._fault(f"`{role}` names the stream `{name}`, which is not in FROM; {hint}")

    def _read_quality(self, clause: RecallClause | None) -> Quality | None:
        if clause is None:
            return None
        try:
            precision = clause.null_precision
            return Quality(
                recall=_number(clause.recall),
                null_precision=None if precision is None else _number(precision),
                **clause.durations,
            )
        except InvalidTarget as error:
            self.faults.target.extend(error.faults)
            return None


def _conjunction(conditions: Sequence[str]) -> str | None:
    if len(conditions) > 1:
        return " AND ".join(f"({condition})" for condition in conditions)
    return conditions[0] if conditions else None


def _for_stream(given: str | Mapping[str, str] | None, name: str, table: str) -> str | None:
    """What is given for a stream: by its own name, else by that of its table."""
    if not isinstance(given, Mapping):
        return given
    return find(name, given) or find(table, given)


def _number(text: str) -> float:
    # A whole number stays an integer, so that messages show the number as it was written.
    return int(text) if text.lstrip("-").isdigit() else float(text)
