"""From text to syntax trees.

sqlglot parses SQL. Windows and recall, which are not SQL, are taken out of the text before
(:mod:`recalljoin.query.outline`). Functions are not interpreted: every call becomes a plain name
with arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import ErrorLevel, Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError

from recalljoin.errors import InvalidQuery
from recalljoin.query.outline import Outline, RecallClause, Window
from recalljoin.query.spelling import did_you_mean
from recalljoin.query.syntax import Source, unclosed, unexpected
from recalljoin.query.tokens import PREFIX, tokenize, with_plain_functions
from recalljoin.query.trees import TEXT, conjuncts, present, sql_of

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Statement:
    """A query in its parts."""

    select: exp.Expr
    """The query as plain SQL, without windows and recall."""
    windows: tuple[Window | None, ...]
    """Windows by position in FROM."""
    recall: RecallClause | None
    outputs: str
    """The list after SELECT, as written."""
    conditions: tuple[str, ...]
    """What follows each ON and WHERE, as written."""


def parse_statement(text: str) -> Statement:
    """One query in its parts; a semicolon may end it.

    Raises
    ------
    InvalidQuery
        When the text does not follow the grammar.
    """
    source = Source(text, "query")
    tokens = _tokens(source)
    _refuse_other_statements(source, tokens)
    outline = Outline(tokens, source)
    select = _parse(source, outline.sql)
    return Statement(
        select=select,
        windows=tuple(outline.windows),
        recall=outline.recall,
        outputs=_outputs_text(select, text[slice(*outline.outputs)].strip()),
        conditions=_condition_texts(
            select, [text[slice(*span)].strip() for span in outline.conditions]
        ),
    )


def parse_condition(text: str) -> exp.Expr:
    """The syntax tree of a condition on its own, as after WHERE."""
    source = Source(text, "condition")
    tokens = _tokens(source)
    tree = _parse(source, tokens, into=exp.Condition)
    _keep_texts(text, conjuncts(tree), _cut(tokens, _is_and()))
    return tree


def parse_outputs(text: str) -> list[exp.Expr]:
    """The syntax trees of a list of outputs, as after SELECT."""
    source = Source("SELECT " + text, "select", skipped=len("SELECT "))
    tokens = _tokens(source)
    select = _parse(source, tokens)
    if not isinstance(select, exp.Select) or set(present(select)) - {"expressions"}:
        fault = f"`select` must be a list of outputs and nothing else, got {text!r}"
        raise InvalidQuery(fault + "; write for example 's1.a1, s2.ts AS t'")
    outputs = list(select.expressions)
    values = [each.this if isinstance(each, exp.Alias) else each for each in outputs]
    if values == outputs:
        _keep_texts(source.text, outputs, _cut(tokens[1:], _is_comma))
    return outputs


def _tokens(source: Source) -> list[Token]:
    try:
        tokens = tokenize(source.text)
    except TokenError:
        raise InvalidQuery(unclosed(source)) from None
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if not source.shown.strip() or not tokens:
        fault = f"the {source.what} is empty; write it out or leave it away"
        raise InvalidQuery(fault)
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            message = "another statement begins here; write one at a time"
            raise InvalidQuery(source.marked(message, token.start, token.end))
    return tokens


def _parse(source: Source, tokens: list[Token], into: type[exp.Expr] | None = None) -> exp.Expr:
    parser = Dialect.get_or_raise("spark").parser(error_level=ErrorLevel.IMMEDIATE)
    plain = with_plain_functions(tokens)
    try:
        trees = (
            parser.parse_into(into, plain, source.text)
            if into
            else parser.parse(plain, source.text)
        )
    except ParseError as error:
        raise InvalidQuery(unexpected(source, error, tokens)) from None
    except RecursionError:
        fault = f"the {source.what} is nested too deeply; drop parentheses or split it"
        raise InvalidQuery(fault) from None
    # The parser makes no tree of a word that ends what was never begun, such as ELSE alone.
    tree = trees[0] if trees else None
    if tree is None and tokens:
        first, last = tokens[0], tokens[-1]
        message = f"unexpected `{first.text}`"
        raise InvalidQuery(source.marked(message, first.start, last.end))
    if tree is None:
        fault = f"the {source.what} is empty; write it out or leave it away"
        raise InvalidQuery(fault)
    for call in tree.find_all(exp.Anonymous):
        call.set("this", call.name.removeprefix(PREFIX))
    return tree


def _refuse_other_statements(source: Source, tokens: list[Token]) -> None:
    first = tokens[0]
    if first.token_type != TokenType.SELECT:
        meant = did_you_mean(first.text, ["SELECT"])
        hint = f"did you mean `{meant}`?" if meant else "write SELECT ... FROM ... WHERE ..."
        message = f"a query starts with SELECT, got `{first.text}`; {hint}"
        raise InvalidQuery(source.marked(message, first.start, first.end))


def _outputs_text(select: exp.Expr, guess: str) -> str:
    """The text of the outputs: ``guess``, if it parses to the same outputs."""
    outputs = select.expressions
    if not outputs:
        return ""
    try:
        confirmed = parse_outputs(guess) == outputs
    except InvalidQuery:
        confirmed = False
    return guess if confirmed else ", ".join(map(sql_of, outputs))


def _condition_texts(select: exp.Expr, guesses: list[str]) -> tuple[str, ...]:
    """The texts of all conditions: the guesses, if they parse to the same conditions."""
    joins = select.args.get("joins") or ()
    trees = [join.args["on"] for join in joins if join.args.get("on")]
    trees += [select.args["where"].this] if select.args.get("where") else []
    try:
        confirmed = [parse_condition(guess) for guess in guesses] == trees
    except InvalidQuery:
        confirmed = False
    return tuple(guesses) if confirmed else tuple(map(sql_of, trees))


def _keep_texts(text: str, trees: list[exp.Expr], pieces: list[list[Token]]) -> None:
    """Note with each tree the text it comes from, for messages to quote."""
    if len(trees) == len(pieces) and all(pieces):
        for tree, piece in zip(trees, pieces, strict=True):
            tree.meta[TEXT] = text[piece[0].start : piece[-1].end + 1]


def _cut(tokens: list[Token], ends: Callable[[Token], bool]) -> list[list[Token]]:
    """The tokens in pieces, cut where ``ends`` says so outside of parentheses and CASE."""
    pieces: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth -= token.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END)
        if depth == 0 and ends(token):
            pieces.append([])
        else:
            pieces[-1].append(token)
        depth += token.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE)
    return pieces


def _is_comma(token: Token) -> bool:
    return token.token_type == TokenType.COMMA


def _is_and() -> Callable[[Token], bool]:
    """A test whether a token is an AND between conditions, and not the AND of a BETWEEN."""
    open_betweens = 0

    def is_and(token: Token) -> bool:
        nonlocal open_betweens
        open_betweens += token.token_type == TokenType.BETWEEN
        if token.token_type != TokenType.AND:
            return False
        if open_betweens:
            open_betweens -= 1
            return False
        return True

    return is_and
