"""A query as the user states it in Python: streams, a condition, outputs, a quality target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from recalljoin.errors import InvalidQuery
from recalljoin.query.binding import Faults, bind, check, columns_for_spark
from recalljoin.query.durations import DurationLike, TimeUnit, nanoseconds
from recalljoin.query.functions import Functions
from recalljoin.query.given import SELECTION, SQL
from recalljoin.query.options import named_options
from recalljoin.query.quality import Quality
from recalljoin.query.spelling import shortened

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from recalljoin.query.bound_query import BoundQuery
    from recalljoin.query.kinds import Emit, How


@named_options
@dataclass(frozen=True)
class Stream:
    """One input of a join.

    Parameters
    ----------
    name
        Name of the stream in the condition.
    data
        The tuples: a Spark DataFrame for :func:`recalljoin.join`, an Arrow table for
        :func:`recalljoin.replay`; for :func:`recalljoin.explain` a DataFrame, a table, a file or a
        schema. None where the data are given beside the query.
    time
        Column with the event time: an integer, or a timestamp.
    window
        Size of the sliding window: text such as ``"5 seconds"``, whole milliseconds, or a
        timedelta. A tuple joins with tuples of other streams that are at most this much younger.
        With 0 only tuples of equal time join. None: the window follows from comparisons of event
        times in the condition.
    arrival
        Column that says when a tuple arrived, to replay recorded data; None for live data.
    source
        Column that says which source a tuple is from: a sensor, a device, a partition. Sources
        are mostly in order by themselves, so the join can wait for the one that is behind instead
        of waiting all the time. None: the stream is one source.
    table
        Name of the table the tuples come from, if other than ``name``: two streams of a query
        may read one table.

    Raises
    ------
    InvalidQuery
        When the window is no duration, or a name is empty.

    Examples
    --------
    >>> Stream("o", window="5 seconds")
    Stream('o', time='ts', window='5 seconds')
    """

    name: str
    data: Any = field(default=None, compare=False)
    time: str = field(default="ts", kw_only=True)
    window: DurationLike | None = field(default=None, kw_only=True)
    arrival: str | None = field(default=None, kw_only=True)
    source: str | None = field(default=None, kw_only=True)
    table: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Check what can be checked without a schema."""
        examples = {"name": "orders", "time": "ts", "arrival": "arrived", "source": "device"}
        given: dict[str, object] = {role: getattr(self, role) for role in examples}
        for role in ("arrival", "source"):
            if given[role] is None:
                del given[role]
        faults = [
            f"`{role}` of a stream must be a name, got {value!r}; write {examples[role]!r} instead"
            for role, value in given.items()
            if not isinstance(value, str) or not value
        ]
        try:
            if self.window is not None:
                nanoseconds(self.window, name="window")
        except InvalidQuery as error:
            faults.extend(f"stream `{self.name}`: {fault}" for fault in error.faults)
        if faults:
            raise InvalidQuery(faults)

    def __repr__(self) -> str:
        # The data are shown by their kind: a whole table would bury the rest.
        data = () if self.data is None else (f"<{type(self.data).__name__}>",)
        roles = ("time", "window", "arrival", "source", "table")
        others = {role: getattr(self, role) for role in roles}
        named = [f"{role}={value!r}" for role, value in others.items() if value is not None]
        return f"Stream({', '.join([repr(self.name), *data, *named])})"


@named_options
@dataclass(frozen=True, kw_only=True)
class Query:
    """A sliding-window join of two or more streams.

    Parameters
    ----------
    streams
        The inputs; their order is the order of the result's columns.
    condition
        What must hold for a result, as SQL: ``"o.id = p.order_id AND p.amount > 10"``. None joins
        everything within the windows.
    select
        ``"*"``: one struct per stream. ``"count(*)"``: only the number of results. Otherwise a
        list such as ``"o.id, p.ts AS paid"``.
    quality
        How complete the result must be; without a target (None) K is chosen in another way.
    functions
        Functions of your own that the condition and the outputs call.
    how
        Which rows a join of two streams has: pairs (``"inner"``); pairs, and tuples of the first,
        the second or both streams without a partner (``"left"``, ``"right"``, ``"full"``); tuples
        of the first stream that have a partner (``"semi"``), or have none (``"anti"``).
    emit
        When a result leaves: in order, when the watermark passes it (``"ordered"``), or as soon as
        its last member has arrived (``"eager"``).
    where
        What must be true of a row to come out, beside a join that is not inner.

    Raises
    ------
    InvalidQuery
        With every fault that shows without knowing the columns.

    Examples
    --------
    >>> import pyarrow as pa
    >>> query = Query(
    ...     streams=[Stream("o", window="5 s"), Stream("p", window="1 min", time="paid")],
    ...     condition="o.id = p.order_id AND abs(o.amount - p.amount) < 1",
    ... )
    >>> bound = query.bind({
    ...     "o": pa.schema({"id": pa.int64(), "amount": pa.float64(), "ts": pa.int64()}),
    ...     "p": pa.schema({"order_id": pa.int32(), "amount": pa.float64(), "paid": pa.int64()}),
    ... })
    >>> [stream.window for stream in bound.streams], bound.unit
    ([5000, 60000], 'ms')
    """

    streams: Sequence[Stream]
    condition: str | None = None
    select: str = "*"
    quality: Quality | None = None
    functions: Functions = field(default_factory=Functions)
    how: How = "inner"
    emit: Emit = "ordered"
    where: str | None = None

    def __post_init__(self) -> None:
        """Check what can be checked without schemas, and make the parts unchangeable."""
        refused = list(_of_another_kind(self))
        if refused:
            raise InvalidQuery(refused)
        object.__setattr__(self, "streams", tuple(self.streams))
        object.__setattr__(self, "functions", self.functions.copy())
        faults = Faults()
        check(self, faults)
        faults.refuse()

    def spark_columns(self, schemas: Mapping[str, pa.Schema]) -> dict[str, dict[str, str]]:
        """What Spark must compute for the condition: for each stream, SQL by column name.

        Parameters
        ----------
        schemas
            By name of the stream, or of its table.
        """
        return columns_for_spark(self, schemas)

    def bind(
        self,
        schemas: Mapping[str, pa.Schema],
        *,
        time_unit: TimeUnit = "ms",
        computed: Mapping[str, pa.Schema] | None = None,
    ) -> BoundQuery:
        """Resolve names and types against the columns the streams have.

        Parameters
        ----------
        schemas
            By name of the stream, or of its table.
        time_unit
            What integer time columns count in: ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``. The query
            counts in the finest unit among its time columns.
        computed
            Where Spark runs the query: for each stream the columns that Spark adds, as
            :meth:`spark_columns` names them. None: the engine computes everything itself.

        Raises
        ------
        InvalidQuery
            With every fault found; :class:`~recalljoin.errors.InvalidTarget` when only the quality
            target is at fault.
        """
        faults = Faults()
        bound = bind(self, schemas, faults, time_unit=time_unit, computed=computed)
        faults.refuse()
        assert bound is not None
        return bound


def _of_another_kind(query: Query) -> Iterator[str]:
    """What is wrong with the kinds of a query's parts."""
    if not _are_streams(query.streams):
        yield (
            f"`streams` must be a list of streams, got {shortened(repr(query.streams))}; write for "
            "example [Stream('o', window='5 s'), Stream('p', window='5 s')]"
        )
    for name in ("condition", "where"):
        value = getattr(query, name)
        if value is not None:
            yield from SQL.faults(name, value)
    yield from SELECTION.faults("select", query.select)
    if not isinstance(query.functions, Functions):
        yield (
            f"`functions` must be functions of your own, got {shortened(repr(query.functions))}; "
            "register them with rj.Functions()"
        )
    if not isinstance(query.quality, Quality | None):
        yield (
            f"`quality` must be a target, got {shortened(repr(query.quality))}; write for example "
            "Quality(recall=0.95)"
        )


def _are_streams(value: object) -> bool:
    return isinstance(value, Sequence) and all(isinstance(each, Stream) for each in value)
