"""From sqlglot's syntax trees to typed expressions.

Every fault met on the way is recorded and the walk goes on, so that one message can tell them all.
A part that is faulty, or whose columns are not known yet, lowers to None, and so does everything
that contains it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from recalljoin.query import rules
from recalljoin.query.arrow_types import BOOL, NULL, STRING
from recalljoin.query.coercion import Mismatch, is_written
from recalljoin.query.constants import (
    Unreadable,
    cast_target,
    interval_literal,
    number_literal,
    time_literal,
)
from recalljoin.query.expressions import Expression, Literal
from recalljoin.query.names import AGGREGATES, BUILT_INS, arity_text
from recalljoin.query.scope import UnknownName
from recalljoin.query.spelling import did_you_mean, shortened
from recalljoin.query.trees import (
    conjuncts,
    flattened,
    names_of,
    present,
    text_of,
    with_backslashes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    exp.DPipe: "concat",
}
_SUBQUERIES: Final = (exp.Query, exp.Subquery, exp.Exists)
_SUPPORTED: Final = (
    "supported are arithmetic, comparison, AND, OR, NOT, BETWEEN, IN, IS NULL, LIKE, CASE, CAST "
    "and functions"
)


class Lowering:
    """Lowers the parts of one query; collects their faults.

    Parameters
    ----------
    scope
        What names mean.
    functions
        The user's own functions.
    """

    def __init__(self, scope: Scope, functions: Functions) -> None:
        self.scope = scope
        self.functions = functions
        self.faults: list[str] = []
        self._place = ""

    def condition(self, tree: exp.Expr) -> list[Expression]:
        """The parts of a condition that must all be true."""
        found = []
        for part in conjuncts(tree):
            with_type = self.expression(part)
            if with_type is not None:
                found.append(self._checked(part, rules.condition, with_type))
        return [part for part in found if part is not None]

    def expression(self, tree: exp.Expr) -> Lowered:
        """One expression; None if it is faulty or its type cannot be known."""
        known_faults = len(self.faults)
        try:
            self._place = shortened(text_of(tree))
            lowered = self._lower(tree)
        except RecursionError:
            return self._fault("it is nested too deeply; split it")
        if lowered is None and len(self.faults) == known_faults and self.scope.is_complete:
            # Nothing may be dropped in silence: a condition less is another result.
            return self._unsupported(tree)
        return lowered

    def _lower(self, node: exp.Expr) -> Lowered:
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
        """Refuse parts that would otherwise be overlooked, such as a NOT inside a LIKE."""
        if set(present(node)) <= set(known):
            return True
        self._unsupported(node)
        return False

    def _unsupported(self, node: exp.Expr) -> Lowered:
        return self._fault(f"`{shortened(text_of(node))}` is not supported; {_SUPPORTED}")

    def _fault(self, message: str) -> Lowered:
        """Record a fault; returns what a faulty part lowers to."""
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
            return Literal(node.this, STRING, written=True)
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
        operand = self._lower(node.this)
        negated = self._apply("negate", node, [operand])
        if operand is not None and is_written(operand) and isinstance(negated, Literal):
            return replace(negated, written=True)
        return negated

    def _not(self, node: exp.Not) -> Lowered:
        return self._apply("not", node, [self._truth(node.this)])

    def _and(self, node: exp.And) -> Lowered:
        return self._apply("and", node, [self._truth(each) for each in flattened(node, exp.And)])

    def _or(self, node: exp.Or) -> Lowered:
        return self._apply("or", node, [self._truth(each) for each in flattened(node, exp.Or)])

    def _truth(self, node: exp.Expr) -> Lowered:
        """Something that is true or not, refused at its own place otherwise."""
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
        return self._apply("coalesce", node, [tested, Literal(False, BOOL)])

    def _same(self, node: exp.NullSafeEQ | exp.NullSafeNEQ) -> Lowered:
        one, other = self._lower(node.this), self._lower(node.expression)
        nulls = [self._apply("is_null", node, [each]) for each in (one, other)]
        equal = self._apply("eq", node, [one, other])
        equal = self._apply("coalesce", node, [equal, Literal(False, BOOL)])
        same = self._apply("or", node, [self._apply("and", node, nulls), equal])
        return same if isinstance(node, exp.NullSafeEQ) else self._apply("not", node, [same])

    def _like(self, node: exp.Like | exp.ILike, escape: str = "\\") -> Lowered:
        if not self._only(node, "this", "expression", "negate"):
            return None
        value, pattern = self._lower(node.this), self._lower(node.expression)
        if value is None or pattern is None:
            return None
        if not isinstance(pattern, Literal):
            return self._fault("the pattern of LIKE must be a constant, such as 'a%'")
        if isinstance(pattern.value, str):
            pattern = Literal(with_backslashes(pattern.value, escape), pattern.type)
        args: list[Lowered] = [value, pattern]
        if isinstance(node, exp.ILike):
            args = [self._apply("lower", node, [arg]) for arg in args]
        like = self._apply("like", node, args)
        return self._apply("not", node, [like]) if node.args.get("negate") else like

    def _escape(self, node: exp.Escape) -> Lowered:
        mark = node.expression
        if not isinstance(node.this, exp.Like | exp.ILike):
            return self._unsupported(node)
        if not (isinstance(mark, exp.Literal) and mark.is_string and len(mark.this) == 1):
            return self._fault("ESCAPE takes one character, such as '!'")
        return self._like(node.this, mark.this)

    def _if(self, node: exp.If) -> Lowered:
        otherwise = node.args.get("false") or exp.Null()
        test = self._truth(node.this)
        return self._apply("if", node, [test, *map(self._lower, (node.args["true"], otherwise))])

    def _case(self, node: exp.Case) -> Lowered:
        result = self._lower(node.args.get("default") or exp.Null())
        for branch in reversed(node.args["ifs"]):
            test = exp.EQ(this=node.this, expression=branch.this) if node.this else branch.this
            then = self._lower(branch.args["true"])
            result = self._apply("if", node, [self._truth(test), then, result])
        return result

    def _cast(self, node: exp.Cast) -> Lowered:
        if not self._only(node, "this", "to", "safe"):
            return None
        written = node.this
        if isinstance(written, exp.Literal) and written.is_string:
            try:
                read = time_literal(written.this, node.to)
            except Unreadable as problem:
                return self._fault(str(problem))
            if read is not None:
                return read
        value = self._lower(written)
        try:
            target = cast_target(node.to, value.type if value is not None else NULL)
        except Unreadable as problem:
            return self._fault(str(problem))
        return None if value is None else self._checked(node, rules.cast, value, target)

    # Functions ----------------------------------------------------------------------------------

    def _substring(self, node: exp.Substring) -> Lowered:
        return self._built_in("substring", node, [node.args[name] for name in present(node)])

    def _trim(self, node: exp.Trim) -> Lowered:
        if not self._only(node, "this", "expression", "position"):
            return None
        side = str(node.args.get("position") or "both").lower()
        function = {"leading": "ltrim", "trailing": "rtrim"}.get(side, "trim")
        operands = [node.this, *([node.expression] if node.expression else [])]
        return self._call(function, node, operands)

    def _function(self, node: exp.Anonymous) -> Lowered:
        name, operands = node.name, node.expressions
        if name in self.functions:
            return self._user_function(name, node, operands)
        if name.lower() in BUILT_INS:
            return self._built_in(name, node, operands)
        if name.lower() in AGGREGATES:
            return self._fault(
                f"`{name}` is an aggregate; the only one is SELECT count(*), on its own"
            )
        for operand in operands:
            self._lower(operand)
        meant = did_you_mean(name, [*self.functions, *BUILT_INS])
        hint = f"did you mean `{meant}`? " if meant else ""
        return self._fault(
            f"unknown function `{name}`; {hint}your own are made known with `Functions.register`"
        )

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
    exp.Like: Lowering._like,
    exp.ILike: Lowering._like,
    exp.Escape: Lowering._escape,
    exp.If: Lowering._if,
    exp.Case: Lowering._case,
    exp.Cast: Lowering._cast,
    exp.TryCast: Lowering._cast,
    exp.Substring: Lowering._substring,
    exp.Trim: Lowering._trim,
    exp.Anonymous: Lowering._function,
}
