"""The grammar of queries: SQL as sqlglot parses it, with the two clauses of the paper.

* A window in brackets follows a stream's name, before or after its alias: ``orders [5 SEC] AS o``.
  ``[RANGE 5 SECONDS]`` is the same window, and ``[5 SEC ON column]`` names the time column.
* ``WITH RECALL 0.95 OVER 1 MINUTE EVERY 1 SECOND MAX WAIT 10 SECONDS`` closes the query; all but
  the recall may be left out.

Both are parsed from tokens, so that brackets and keywords inside text or comments are left alone.
Functions are not interpreted here: every call becomes a plain name with arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from recalljoin.errors import InvalidQuery
from recalljoin.query.spelling import did_you_mean
from recalljoin.query.syntax import Source, unclosed, unexpected
from recalljoin.query.trees import TEXT, present

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOW: Final = "recalljoin.window"
"""Key of a table's :class:`Window` among its notes."""
RECALL: Final = "recalljoin.recall"
"""Key of a query's :class:`RecallClause` among its notes."""
OUTPUTS: Final = "recalljoin.outputs"
"""Key under which the first output keeps the text of all outputs."""


@dataclass(frozen=True)
class Window:
    """``[5 SEC ON column]`` as written."""

    duration: str
    time: str | None


@dataclass(frozen=True)
class RecallClause:
    """``WITH RECALL ...`` as written; settings by their names in ``Quality``."""

    recall: str
    durations: dict[str, str]


def parse_statement(text: str) -> exp.Expr:
    """The syntax tree of one query; a semicolon may end it.

    Raises
    ------
    InvalidQuery
        When the text is not SQL, is empty, or holds several statements.
    """
    return _parse(Source(text, "query"), whole=True)


def parse_condition(text: str) -> exp.Expr:
    """The syntax tree of a condition on its own, as after WHERE."""
    return _parse(Source(text, "condition"))


def parse_outputs(text: str) -> list[exp.Expr]:
    """The syntax trees of a list of outputs, as after SELECT."""
    select = _parse(Source("SELECT " + text, "select", skipped=len("SELECT ")), whole=True)
    if not isinstance(select, exp.Select) or set(present(select)) - {"expressions"}:
        fault = f"`select` must be a list of outputs and nothing else, got {text!r}"
        raise InvalidQuery(fault + "; write for example 's1.a1, s2.ts AS t'")
    return list(select.expressions)


def _parse(source: Source, *, whole: bool = False) -> exp.Expr:
    if not source.shown.strip():
        fault = f"the {source.what} is empty; write it out or leave it away"
        raise InvalidQuery(fault)
    try:
        tokens = _Tokenizer().tokenize(source.text)
        parser = _Parser(error_level=ErrorLevel.IMMEDIATE)
        parser.source = source
        if whole:
            _refuse_other_statements(source, tokens)
            trees = parser.parse(tokens, source.text)
        else:
            trees = parser.parse_into(exp.Condition, tokens, source.text)
    except ParseError as error:
        raise InvalidQuery(unexpected(source, error)) from None
    except TokenError as error:
        raise InvalidQuery(unclosed(source, error)) from None
    except RecursionError:
        fault = f"the {source.what} is nested too deeply; drop parentheses or split it"
        raise InvalidQuery(fault) from None
    statements = [tree for tree in trees if tree is not None]
    if len(statements) != 1:
        fault = f"the {source.what} holds {len(statements)} statements; write one at a time"
        raise InvalidQuery(fault)
    return statements[0]


def _refuse_other_statements(source: Source, tokens: list[Token]) -> None:
    first = tokens[0]
    if first.token_type != TokenType.SELECT:
        meant = did_you_mean(first.text, ["SELECT"])
        hint = f"did you mean `{meant}`?" if meant else "write SELECT ... FROM ... WHERE ..."
        message = f"a query starts with SELECT, got `{first.text}`; {hint}"
        raise InvalidQuery(source.marked(message, first.start, first.end))


class _Tokenizer(Tokenizer):
    """Standard SQL, with names in backticks as well as in double quotes."""

    IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]


class _Parser(Parser):
    """sqlglot's parser with windows, the recall clause, and functions left as plain names."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    # The few calls with a grammar of their own, such as CAST(x AS type).
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: Parser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST", "SUBSTRING", "TRIM")
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: Parser.NO_PAREN_FUNCTION_PARSERS[name] for name in ("CASE", "IF")
    }

    # Keywords such as SHOW or OVERWRITE are fine names for a user's function.
    FUNC_TOKENS: ClassVar[set[TokenType]] = Parser.FUNC_TOKENS | Parser.ID_VAR_TOKENS

    source: Source

    def raise_error(self, message: str, token: Token | None = None) -> None:
        """Keep the exact place: sqlglot tells neither where a token starts nor that text ended."""
        at_end = not token and not self._curr
        token = token or self._curr or self._prev
        place = {"description": message, "start": token.start, "end": token.end, "at_end": at_end}
        raise ParseError(message, [place])

    def _parse_table(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        if self._curr.token_type in (TokenType.L_PAREN, TokenType.SELECT):
            # A subquery: parsed as it is, to be refused by name.
            return super()._parse_table(*args, **kwargs)
        table = self._parse_table_parts()
        assert table is not None
        window = self._parse_stream_window()
        alias = self._parse_table_alias()
        if alias is not None:
            table.set("alias", alias)
        table.meta[WINDOW] = window or self._parse_stream_window()
        return table

    # Expressions keep their text on several levels, so that messages can quote what was written:
    # a whole condition, one comparison, a sum, a single operand.

    def _parse_disjunction(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        return self._with_text(super()._parse_disjunction, *args, **kwargs)

    def _parse_equality(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        return self._with_text(super()._parse_equality, *args, **kwargs)

    def _parse_term(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        return self._with_text(super()._parse_term, *args, **kwargs)

    def _parse_unary(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        return self._with_text(super()._parse_unary, *args, **kwargs)

    def _with_text(
        self, parse: Callable[..., exp.Expr | None], *args: Any, **kwargs: Any
    ) -> exp.Expr | None:
        start = self._curr
        expression = parse(*args, **kwargs)
        if expression is not None:
            expression.meta[TEXT] = self._text_since(start)
        return expression

    def _parse_projections(self) -> tuple[list[exp.Expr], list[exp.Expr] | None]:
        start = self._curr
        outputs, kind = super()._parse_projections()
        if outputs:
            outputs[0].meta[OUTPUTS] = self._text_since(start)
        return outputs, kind

    def _parse_query_modifiers(self, this: Any) -> Any:
        this = super()._parse_query_modifiers(this)
        if isinstance(this, exp.Select) and self._match_text_seq("WITH", "RECALL"):
            if RECALL in this.meta:
                self._refuse("`WITH RECALL` is written twice; keep one of the two", self._prev)
            this.meta[RECALL] = self._parse_recall()
        return this

    def _parse_stream_window(self) -> Window | None:
        if not self._match(TokenType.L_BRACKET):
            return None
        bracket = self._prev
        if self._match_text_seq("ROWS"):
            self._refuse("windows are lengths of time, not numbers of rows", self._prev)
        self._match_text_seq("RANGE")
        duration = self._parse_duration("a window is a duration in brackets, such as `[5 SEC]`")
        time = None
        if self._match(TokenType.ON):
            column = self._parse_id_var()
            if column is None:
                self._refuse("the name of the time column is missing after ON", self._prev)
            time = column.name
        if not self._match(TokenType.R_BRACKET):
            if not self._curr:
                self._refuse("the window's bracket is not closed; write `]` after it", bracket)
            self._refuse(f"expected `]` to end the window, got `{self._curr.text}`", self._curr)
        return Window(duration, time)

    def _parse_recall(self) -> RecallClause:
        recall = ("-" if self._match(TokenType.DASH) else "") + self._parse_recall_number()
        durations: dict[str, str] = {}
        while True:
            keyword = self._curr
            name = self._match_recall_setting()
            if name is None:
                return RecallClause(recall, durations)
            if name in durations:
                self._refuse(f"`{keyword.text}` is written twice; keep one of the two", keyword)
            example = f"a duration belongs after `{self._prev.text}`, such as `10 SECONDS`"
            durations[name] = self._parse_duration(example)

    def _parse_recall_number(self) -> str:
        number = self._match_number()
        if number is None:
            self._refuse("a number belongs after RECALL, such as `RECALL 0.95`", self._prev)
        if self._match(TokenType.MOD):
            self._refuse(f"recall is a share; write {float(number) / 100:g} for it", self._prev)
        return number

    def _match_recall_setting(self) -> str | None:
        if self._match_text_seq("OVER"):
            return "period"
        if self._match_text_seq("EVERY"):
            return "interval"
        return "max_wait" if self._match_text_seq("MAX", "WAIT") else None

    def _parse_duration(self, rule: str) -> str:
        """``1 MINUTE 30 SECONDS`` as text; whether it is a duration is checked by its owner."""
        words = []
        while (number := self._match_number()) is not None:
            words.append(number)
            if self._curr and self._curr.text.isalpha() and self._curr.token_type != TokenType.ON:
                words.append(self._curr.text)
                self._advance()
        if not words:
            self._refuse(rule, self._curr or self._prev)
        return " ".join(words)

    def _match_number(self) -> str | None:
        # `.5` comes as a dot and a number.
        dot = "." if self._match(TokenType.DOT) else ""
        return dot + self._prev.text if self._match(TokenType.NUMBER) else None

    def _text_since(self, start: Token) -> str:
        return self.source.text[start.start : self._prev.end + 1]

    def _refuse(self, message: str, token: Token) -> NoReturn:
        # Not as a ParseError, which sqlglot takes as a reason to try another reading.
        raise InvalidQuery(self.source.marked(message, token.start, token.end))
