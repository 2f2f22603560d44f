"""What the user asks for: streams, windows, a condition, outputs and a quality target.

A query is stated in Python (:class:`Query`) or as text (:func:`parse_query`), and bound to the
schemas of its streams (:meth:`Query.bind`). The bound query has its condition taken apart into
classes of equal attributes and a residual of typed expressions, which :func:`evaluate` computes
on Arrow arrays. Nothing of a query is ever executed as Python.
"""

from __future__ import annotations

from recalljoin.query.bound_query import (
    BoundQuality,
    BoundQuery,
    BoundStream,
    Conjunct,
    EqualityClass,
    OutputColumn,
)
from recalljoin.query.durations import DurationLike, TimeUnit
from recalljoin.query.evaluate import compute, evaluate
from recalljoin.query.explain import explain
from recalljoin.query.expressions import Call, Column, Expression, Literal, columns, walk
from recalljoin.query.functions import Functions, UserFunction
from recalljoin.query.kernels import Computed
from recalljoin.query.model import Query, Stream
from recalljoin.query.quality import Quality
from recalljoin.query.stream_columns import with_columns, with_usual_arrival
from recalljoin.query.text import parse_query

__all__ = [
    "BoundQuality",
    "BoundQuery",
    "BoundStream",
    "Call",
    "Column",
    "Computed",
    "Conjunct",
    "DurationLike",
    "EqualityClass",
    "Expression",
    "Functions",
    "Literal",
    "OutputColumn",
    "Quality",
    "Query",
    "Stream",
    "TimeUnit",
    "UserFunction",
    "columns",
    "compute",
    "evaluate",
    "explain",
    "parse_query",
    "walk",
    "with_columns",
    "with_usual_arrival",
]
