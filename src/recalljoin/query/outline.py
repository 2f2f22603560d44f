"""The outline of a query: the places of its clauses, and the two clauses that are not SQL.

* A window in brackets follows a stream's name, before or after its alias: ``orders [5 SEC] AS o``.
  ``[RANGE 5 SECONDS]`` is the same window, ``[5 SEC ON column]`` names the time column, and
  ``[5 SEC SOURCE column]``, or ``[5 SEC ON column SOURCE column]``, the source of a tuple.
* ``WITH RECALL 0.95 OVER 1 MINUTE EVERY 1 SECOND MAX WAIT 10 SECONDS`` closes the query, with
  ``MIN WAIT`` and ``INITIAL WAIT`` as well, and ``NULL PRECISION 0.99`` after the recall of an
  outer join; all but the recall may be left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlglot import Token, TokenType

from recalljoin.query.spelling import way_out
from recalljoin.query.tokens import Cursor

if TYPE_CHECKING:
    from recalljoin.query.syntax import Source

_JOIN_WORDS: Final = frozenset(
    {
        TokenType.ANTI,
        TokenType.ASOF,
        TokenType.CROSS,
        TokenType.FULL,
        TokenType.INNER,
        TokenType.LEFT,
        TokenType.NATURAL,
        TokenType.OUTER,
        TokenType.RIGHT,
        TokenType.SEMI,
    }
)
_OTHER_CLAUSES: Final = frozenset(
    {
        TokenType.FETCH,
        TokenType.GROUP_BY,
        TokenType.HAVING,
        TokenType.LIMIT,
        TokenType.OFFSET,
        TokenType.ORDER_BY,
        TokenType.QUALIFY,
        TokenType.WINDOW,
    }
)
_AFTER_RECALL: Final = ("OVER", "EVERY", "MIN WAIT", "MAX WAIT", "INITIAL WAIT", "NULL PRECISION")
_OPENING: Final = (TokenType.L_PAREN, TokenType.L_BRACKET)
_CLOSING: Final = (TokenType.R_PAREN, TokenType.R_BRACKET)


@dataclass(frozen=True)
class Window:
    """``[5 SEC ON column SOURCE column]`` as written."""

    duration: str
    time: str | None
    source: str | None = None


@dataclass(frozen=True)
class RecallClause:
    """``WITH RECALL ...`` as written; settings by their names in ``Quality``."""

    recall: str
    durations: dict[str, str]
    null_precision: str | None = None


class Outline:
    """Goes through the tokens of one query.

    Attributes
    ----------
    sql
        The tokens without windows and recall.
    windows
        By position in FROM; None where a table has none.
    recall
        The closing clause, if there is one.
    outputs, conditions
        Where the text of SELECT, of each ON and of WHERE seems to be, as offsets. Words such as
        LIMIT may also be names, so that each place is a guess to be confirmed.
    """

    def __init__(self, tokens: list[Token], source: Source) -> None:
        self.sql: list[Token] = []
        self.windows: list[Window | None] = []
        self.recall: RecallClause | None = None
        self.outputs: tuple[int, int] = (0, 0)
        self.conditions: list[tuple[int, int]] = []
        self._cursor = Cursor(tokens, source)
        self._depth = 0
        self._clause = ""
        self._clause_start = 0
        self._walk()

    def _walk(self) -> None:
        cursor = self._cursor
        while (token := cursor.token) is not None:
            if token.token_type == TokenType.SELECT and self.sql:
                cursor.refuse("a query has one SELECT; join the stream instead", token)
            if self._depth == 0 and cursor.takes("WITH", "RECALL"):
                self._close_clause()
                self.recall = _read_recall(cursor)
                if cursor.token is not None:
                    hint = way_out(cursor.token.text, _AFTER_RECALL, known_as="parts")
                    message = f"unexpected `{cursor.token.text}`: WITH RECALL closes the query"
                    cursor.refuse(f"{message}; {hint}", cursor.token)
                return
            if self._depth == 0 and self.sql and cursor.takes("WITH"):
                message = "what stands behind WITH is `RECALL 0.95 OVER 1 MINUTE`"
                cursor.refuse(message, cursor.token or cursor.before)
            if self._depth == 0 and self._clause == "FROM" and cursor.takes_type(_OPENING[1]):
                self._take_window()
                continue
            self._note(token)
            self.sql.append(token)
            cursor.at += 1
        self._close_clause()

    def _take_window(self) -> None:
        bracket = self._cursor.before
        window = _read_window(self._cursor)
        if self.windows[-1] is not None:
            self._cursor.refuse("a stream has one window; a comma may be missing", bracket)
        self.windows[-1] = window

    def _note(self, token: Token) -> None:
        kind = token.token_type
        if kind in _CLOSING:
            self._depth -= 1
        if self._depth == 0 and not self._is_name_or_operator(token):
            self._change_clause(kind)
        if kind in _OPENING:
            self._depth += 1

    def _is_name_or_operator(self, token: Token) -> bool:
        """Whether a token belongs to an expression, as in ``a.limit`` or ``IS DISTINCT FROM``."""
        before = self.sql[-1].token_type if self.sql else None
        following = self._cursor.tokens[self._cursor.at + 1 : self._cursor.at + 2]
        called = bool(following) and following[0].token_type == TokenType.L_PAREN
        return (
            before == TokenType.DOT
            or (called and token.token_type in _JOIN_WORDS)
            or (token.token_type == TokenType.FROM and before == TokenType.DISTINCT)
        )

    def _change_clause(self, kind: TokenType) -> None:
        if kind == TokenType.SELECT:
            self._open_clause("SELECT")
        elif (kind == TokenType.FROM and self._clause == "SELECT") or (
            kind in (TokenType.COMMA, TokenType.JOIN) and self._clause in {"FROM", "ON", "JOIN"}
        ):
            self._open_table()
        elif self._clause == "ON" and kind in _JOIN_WORDS:
            self._open_clause("JOIN")
        elif self._clause == "FROM" and kind == TokenType.ON:
            self._open_clause("ON")
        elif kind == TokenType.WHERE:
            self._open_clause("WHERE")
        elif kind in _OTHER_CLAUSES:
            self._open_clause("other")

    def _open_table(self) -> None:
        self._open_clause("FROM")
        self.windows.append(None)

    def _open_clause(self, name: str) -> None:
        self._close_clause()
        self._clause = name
        self._clause_start = self._cursor.tokens[self._cursor.at].end + 1

    def _close_clause(self) -> None:
        if not self.sql:
            return
        span = (self._clause_start, self.sql[-1].end + 1)
        if self._clause == "SELECT":
            self.outputs = span
        elif self._clause in {"ON", "WHERE"}:
            self.conditions.append(span)
        self._clause = ""


def _read_window(cursor: Cursor) -> Window:
    bracket = cursor.before
    if cursor.takes("ROWS"):
        cursor.refuse("windows are lengths of time, not numbers of rows", cursor.before)
    cursor.takes("RANGE")
    duration = cursor.duration("a window is a duration in brackets, such as `[5 SEC]`")
    time = _read_column(cursor, "ON", "time")
    source = _read_column(cursor, "SOURCE", "source")
    if cursor.token is None:
        cursor.refuse("the window's bracket is not closed; write `]` after it", bracket)
    if not cursor.takes_type(TokenType.R_BRACKET):
        cursor.refuse(f"expected `]` to end the window, got `{cursor.token.text}`", cursor.token)
    return Window(duration, time, source)


def _read_column(cursor: Cursor, word: str, what: str) -> str | None:
    if not cursor.takes(word):
        return None
    column = cursor.token
    if column is None or column.token_type == TokenType.R_BRACKET:
        cursor.refuse(f"the name of the {what} column is missing after {word}", cursor.before)
    cursor.at += 1
    return str(column.text)


def _read_recall(cursor: Cursor) -> RecallClause:
    sign = "-" if cursor.takes_type(TokenType.DASH) else ""
    number = cursor.number()
    if number is None:
        cursor.refuse("a number belongs after RECALL, such as `RECALL 0.95`", cursor.before)
    if cursor.takes_type(TokenType.MOD):
        cursor.refuse(f"recall is a share; write {float(number) / 100:g} for it", cursor.before)
    durations: dict[str, str] = {}
    precision = None
    if cursor.takes("NULL", "PRECISION"):
        precision = cursor.number()
        if precision is None:
            cursor.refuse("a number belongs after PRECISION, such as `0.95`", cursor.before)
    while (name := _read_setting(cursor)) is not None:
        if name in durations:
            cursor.refuse("this is written twice; keep one of the two", cursor.before)
        example = f"a duration belongs after `{cursor.before.text}`, such as `10 SECONDS`"
        durations[name] = cursor.duration(example)
    return RecallClause(sign + number, durations, precision)


def _read_setting(cursor: Cursor) -> str | None:
    if cursor.takes("OVER"):
        return "period"
    if cursor.takes("EVERY"):
        return "interval"
    for word in ("MIN", "MAX", "INITIAL"):
        if cursor.takes(word, "WAIT"):
            return f"{word.lower()}_wait"
    return None
