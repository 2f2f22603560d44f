"""From sqlglot's syntax trees to typed expressions.

Every fault is recorded and the walk goes on, so that one message can report all faults. A part that
is faulty, or whose columns are not known yet, lowers to None, and so does every expression that
contains the part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from recalljoin.query import rules
from recalljoin.query.arrow_types import BOOL, NULL, STRING
from recalljoin.query.built_ins import AGGREGATES, BUILT_INS, CHANGING, GENERATORS, arity_text
from recalljoin.query.constants import Unreadable, interval_literal, number_literal
from recalljoin.query.expressions import Expression, Literal
from recalljoin.query.one_stream import OneStream, computed_column, function_name, names_in
from recalljoin.query.rules import Mismatch
from recalljoin.query.scope import UnknownName
from recalljoin.query.spelling import did_you_mean, shortened
from recalljoin.query.trees import conjuncts, flattened, names_of, present, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from recalljoin.query.functions import Functions
    from recalljoin.query.scope import Scope

Lowered = Expression | None

_BINARY: Final[dict[type[exp.Expr], str]] = {
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.Mod: "modulo",
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
}
_SUBQUERIES: Final = (exp.Query, exp.Subquery, exp.Exists)
_KNOWN: Final = (
    "comparison, AND, OR, NOT, BETWEEN, IN, IS NULL, arithmetic, mathematical functions and "
    "functions of your own"
)
_OF_SEVERAL: Final = (
    f"over several streams there are {_KNOWN}; let each part of it read one stream, or register a "
    "function with `Functions.register`"
)
_NEEDS_SPARK: Final = (
    f"only Spark can compute it, in `rj.join`; here there are {_KNOWN}, so add it to the input as "
    "a column"
)


class Lowering:
    """Lowers the parts of one query; collects their faults.

    Parameters
    ----------
    scope
        What names mean.
    functions
        The user's own functions.
    computed
        For each stream the columns that Spark computes for the condition; None without Spark.
    """

    def __init__(
        self,
        scope: Scope,
        functions: Functions,
        computed: Sequence[pa.Schema] | None = None,
    ) -> None:
        self.scope = scope
        self.functions = functions
        self.faults: list[str] = []
        self.one_stream = OneStream(scope, functions)
        self._computed = computed
        self._place = ""

    def condition(self, tree: exp.Expr) -> list[Expression]:
        """The parts of a condition that must all be true."""
        found = []
        for part in conjuncts(tree):
            with_type = self.expression(part)
            if with_type is not None:
                found.append(self._checked(part, rules.condition, with_type))
        return [part for part in found if part is not None]

    def check(self, tree: exp.Expr, *, output: bool = False) -> None:
        """Record the faults of a condition or an output that show before columns are known."""
        self._place = shortened(text_of(tree))
        if any(isinstance(part, _SUBQUERIES) for part in tree.walk()):
            self._fault("subqueries are not supported; join the stream instead")
        else:
            self._refused_for(tree, output=output)

    def expression(self, tree: exp.Expr) -> Lowered:
        """One expression; None if it is faulty or its type cannot be known."""
        known_faults = len(self.faults)
        try:
            self._place = shortened(text_of(tree))
            lowered = self._lower(tree)
        except RecursionError:
            return self._fault("it is nested too deeply; split it")
        if lowered is None and len(self.faults) == known_faults and self.scope.is_complete:
            # No condition may be dropped in silence, as that would change the results.
            return self._unsupported(tree)
        return lowered

    def _lower(self, node: exp.Expr) -> Lowered:
        if self._computed is not None:
            stream = self.one_stream.stream_of(node)
            if stream is not None:
                return computed_column(stream, node, self._computed[stream])
        function = _BINARY.get(type(node))
        if function is not None:
            if not self._only(node, "this", "expression", "safe", "typed"):
                return None
            return self._call(function, node, [node.this, node.expression])
        method = _METHODS.get(type(node))
        if method is not None:
            return method(self, node)
        if isinstance(node, _SUBQUERIES):
            return self._fault("subqueries are not supported; join the stream instead")
        return self._unsupported(node)

    def _call(self, function: str, node: exp.Expr, operands: Sequence[exp.Expr]) -> Lowered:
        args = [self._lower(operand) for operand in operands]
        return self._apply(function, node, args)

    def _apply(self, function: str, node: exp.Expr, args: Sequence[Lowered]) -> Lowered:
        known = [arg for arg in args if arg is not None]
        if len(known) < len(args):
            return None
        return self._checked(node, rules.apply, function, known)

    def _checked(self, node: exp.Expr, rule: Callable[..., Expression], *args: Any) -> Lowered:
        try:
            return rule(*args)
        except Mismatch as mismatch:
            text = shortened(text_of(node))
            where = "" if text == self._place else f"`{text}`: "
            return self._fault(f"{where}{mismatch}")

    def _only(self, node: exp.Expr, *known: str) -> bool:
        """Refuse parts that would otherwise be overlooked, such as a SYMMETRIC in a BETWEEN."""
        if set(present(node)) <= set(known):
            return True
        self._unsupported(node)
        return False

    def _unsupported(self, node: exp.Expr) -> Lowered:
        """Refuse a node of an unknown kind; faults of names in the node are reported instead."""
        if not self._refused_for(node):
            alone = self._computed is None and not self.one_stream.reads_several(node)
            meant = None
            if isinstance(node, exp.Anonymous):
                meant = did_you_mean(node.name, [*self.functions, *BUILT_INS])
            hint = f"; or did you mean `{meant}`?" if meant else ""
            reason = _NEEDS_SPARK if alone else _OF_SEVERAL
            self._fault(f"`{shortened(text_of(node))}`: {reason}{hint}")
        return None

    def _refused_for(self, node: exp.Expr, *, output: bool = False) -> bool:
        """Whether the name of a function, or of a column, is reason enough to refuse ``node``."""
        before = len(self.faults)
        for name in names_in(node):
            self._column(name)
        for part in node.walk():
            called = function_name(part)
            if called is None or called in self.functions:
                continue
            if called in AGGREGATES:
                self._fault(
                    f"`{called}` is an aggregate; the only one is SELECT count(*), on its own"
                )
            elif called in CHANGING and not output:
                self._fault(
                    f"`{called}` may give another value each time, and a condition may be checked "
                    "at any time; add what it gives to the stream as a column"
                )
            elif called in GENERATORS and not output:
                self._fault(f"`{called}` makes several rows of one; apply it to the stream before")
        return len(self.faults) > before

    def _fault(self, message: str) -> Lowered:
        """Record a fault; returns None, which a faulty part lowers to."""
        self.faults.append(f"in `{self._place}`: {message}")
        return None

    # Names and constants ------------------------------------------------------------------------

    def _column(self, node: exp.Expr) -> Lowered:
        parts = names_of(node)
        if parts is None:
            return self._unsupported(node)
        try:
            return self.scope.resolve(parts)
        except UnknownName as unknown:
            return self._fault(str(unknown))

    def _literal(self, node: exp.Literal) -> Lowered:
        if node.is_string:
            return Literal(node.this, STRING)
        return self._read(number_literal, node.this)

    def _boolean(self, node: exp.Boolean) -> Lowered:
        return Literal(bool(node.this), BOOL)

    def _null(self, _node: exp.Null) -> Lowered:
        return Literal(None, NULL)

    def _interval(self, node: exp.Interval) -> Lowered:
        amount, unit = node.this, node.args.get("unit")
        if not isinstance(amount, exp.Literal) or not isinstance(unit, exp.Var | None):
            return self._unsupported(node)
        return self._read(interval_literal, amount.name, unit.name if unit else "")

    def _read(self, reader: Callable[..., Literal], *args: Any) -> Lowered:
        try:
            return reader(*args)
        except Unreadable as problem:
            return self._fault(str(problem))

    # Operators ----------------------------------------------------------------------------------

    def _paren(self, node: exp.Paren) -> Lowered:
        return self._lower(node.this)

    def _negate(self, node: exp.Neg) -> Lowered:
        return self._call("negate", node, [node.this])

    def _not(self, node: exp.Not) -> Lowered:
        return self._apply("not", node, [self._truth(node.this)])

    def _and(self, node: exp.And) -> Lowered:
        return self._apply("and", node, [self._truth(each) for each in flattened(node, exp.And)])

    def _or(self, node: exp.Or) -> Lowered:
        return self._apply("or", node, [self._truth(each) for each in flattened(node, exp.Or)])

    def _truth(self, node: exp.Expr) -> Lowered:
        """A boolean expression; any other expression is refused at its own place."""
        value = self._lower(node)
        return None if value is None else self._checked(node, rules.condition, value)

    def _between(self, node: exp.Between) -> Lowered:
        if not self._only(node, "this", "low", "high"):
            return None
        value, low, high = map(self._lower, (node.this, node.args["low"], node.args["high"]))
        at_least = self._apply("ge", node, (value, low))
        at_most = self._apply("le", node, (value, high))
        return self._apply("and", node, (at_least, at_most))

    def _in(self, node: exp.In) -> Lowered:
        if node.args.get("query"):
            return self._fault("subqueries are not supported; join the stream instead")
        if not self._only(node, "this", "expressions"):
            return None
        if not node.expressions:
            return self._fault("IN takes at least one value, such as IN (1, 2)")
        return self._call("in", node, [node.this, *node.expressions])

    def _is(self, node: exp.Is) -> Lowered:
        tested = self._lower(node.this)
        if isinstance(node.expression, exp.Null):
            return self._apply("is_null", node, [tested])
        if not isinstance(node.expression, exp.Boolean):
            return self._unsupported(node)
        if not node.expression.this:
            tested = self._apply("not", node, [tested])
        return self._apply("is_true", node, [tested])

    def _same(self, node: exp.NullSafeEQ | exp.NullSafeNEQ) -> Lowered:
        one, other = self._lower(node.this), self._lower(node.expression)
        nulls = [self._apply("is_null", node, [each]) for each in (one, other)]
        equal = self._apply("is_true", node, [self._apply("eq", node, [one, other])])
        same = self._apply("or", node, [self._apply("and", node, nulls), equal])
        return same if isinstance(node, exp.NullSafeEQ) else self._apply("not", node, [same])

    # Functions ----------------------------------------------------------------------------------

    def _function(self, node: exp.Anonymous) -> Lowered:
        name, operands = node.name, node.expressions
        if name in self.functions:
            return self._user_function(name, node, operands)
        if name.lower() in BUILT_INS:
            return self._built_in(name, node, operands)
        return self._unsupported(node)

    def _built_in(self, name: str, node: exp.Expr, operands: Sequence[exp.Expr]) -> Lowered:
        built_in = BUILT_INS[name.lower()]
        if len(operands) < built_in.fewest or len(operands) > (built_in.most or len(operands)):
            return self._wrong_count(name, built_in.fewest, built_in.most, len(operands))
        return self._call(built_in.function, node, operands)

    def _user_function(
        self, name: str, node: exp.Anonymous, operands: Sequence[exp.Expr]
    ) -> Lowered:
        user = self.functions[name]
        if not user.accepts(len(operands)):
            return self._wrong_count(name, user.fewest, user.most, len(operands))
        args = [self._lower(operand) for operand in operands]
        known = [arg for arg in args if arg is not None]
        if len(known) < len(args):
            return None
        return self._checked(node, rules.apply_user, user, known)

    def _wrong_count(self, name: str, fewest: int, most: int | None, got: int) -> Lowered:
        return self._fault(f"`{name}` takes {arity_text(fewest, most)}, got {got}")


_METHODS: Final[dict[type[exp.Expr], Callable[[Lowering, Any], Lowered]]] = {
    exp.Column: Lowering._column,
    exp.Dot: Lowering._column,
    exp.Literal: Lowering._literal,
    exp.Boolean: Lowering._boolean,
    exp.Null: Lowering._null,
    exp.Interval: Lowering._interval,
    exp.Paren: Lowering._paren,
    exp.Neg: Lowering._negate,
    exp.Not: Lowering._not,
    exp.And: Lowering._and,
    exp.Or: Lowering._or,
    exp.Between: Lowering._between,
    exp.In: Lowering._in,
    exp.Is: Lowering._is,
    exp.NullSafeEQ: Lowering._same,
    exp.NullSafeNEQ: Lowering._same,
    exp.Anonymous: Lowering._function,
}
