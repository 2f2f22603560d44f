"""Queries as tokens: cut by sqlglot's tokenizer, then looked at one after the other.

Tokens are where clauses that are not SQL are read, and where function names are hidden from
sqlglot, which would interpret them. Tokens tell quoted text and comments from code, and keep their
place in the text. The parser of sqlglot is used as it is, because its compiled build allows no
subclass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, NoReturn

from sqlglot import Token, Tokenizer, TokenType

from recalljoin.errors import InvalidQuery

if TYPE_CHECKING:
    from recalljoin.query.syntax import Source

PREFIX: Final = "recalljoin_function_"
"""Put before the name of every function, so that sqlglot recognises none."""

# fmt: off
_GRAMMATICAL: Final = frozenset({
    "ALL", "AND", "ANY", "BETWEEN", "BY", "CASE", "CAST", "COLLATE", "DISTINCT", "DIV", "ELSE",
    "END", "ESCAPE", "EXCEPT", "EXISTS", "EXTRACT", "FILTER", "FROM", "HAVING", "IF", "ILIKE", "IN",
    "INTERSECT", "INTERVAL", "IS", "JOIN", "LATERAL", "LIKE", "LIMIT", "NOT", "ON", "OR", "OVER",
    "RLIKE", "SELECT", "SOME", "SUBSTRING", "THEN", "TRIM", "TRY_CAST",
    "UNION", "UNNEST", "USING", "VALUES", "WHEN", "WHERE", "WITH", "WITHIN",
})
# fmt: on
"""Words before a parenthesis that are no function, or a function with its own grammar."""


class _Tokenizer(Tokenizer):
    """Standard SQL, with names in backticks as well as in double quotes."""

    IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]
    # No keyword may turn the rest into one token: a condition may begin with a function `show`.
    COMMANDS: ClassVar[set[TokenType]] = set()


def tokenize(text: str) -> list[Token]:
    """The tokens of ``text``, without comments.

    Raises
    ------
    sqlglot.errors.TokenError
        When a quote or a comment is not closed.
    """
    return _Tokenizer().tokenize(text)


def with_plain_functions(tokens: list[Token]) -> list[Token]:
    """The same tokens, with the names of functions made unknown to sqlglot.

    sqlglot would check arguments by rules of its own, spell some functions differently, and leave
    no name to the user's functions.
    """
    plain = []
    before = TokenType.SELECT
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        called = after is not None and after.token_type == TokenType.L_PAREN
        # No functions: `DECIMAL` in `CAST(x AS DECIMAL(5, 2))` and `x::DECIMAL(5, 2)`, or `a.b()`.
        named = before not in (TokenType.ALIAS, TokenType.DCOLON, TokenType.DOT)
        if called and named and _is_name(token):
            name = PREFIX + token.text
            plain.append(Token(TokenType.VAR, name, token.line, token.col, token.start, token.end))
        else:
            plain.append(token)
        before = token.token_type
    return plain


def _is_name(token: Token) -> bool:
    if token.token_type == TokenType.IDENTIFIER:
        return True
    is_text = token.token_type in (TokenType.STRING, TokenType.NUMBER)
    return not is_text and token.text.isidentifier() and token.text.upper() not in _GRAMMATICAL


class Cursor:
    """A place among tokens, from which the clauses that are not SQL are read."""

    def __init__(self, tokens: list[Token], source: Source) -> None:
        self.tokens = tokens
        self.source = source
        self.at = 0

    @property
    def token(self) -> Token | None:
        """The token at this place; None at the end."""
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    @property
    def before(self) -> Token:
        """The token just passed."""
        return self.tokens[self.at - 1]

    def has(self, *words: str) -> bool:
        """Whether the next tokens are these words, in any case."""
        following = self.tokens[self.at : self.at + len(words)]
        plain = [token for token in following if token.token_type != TokenType.IDENTIFIER]
        return [token.text.upper() for token in plain] == list(words)

    def takes(self, *words: str) -> bool:
        """Whether the next tokens are these words; if so, they are passed."""
        found = self.has(*words)
        if found:
            self.at += len(words)
        return found

    def takes_type(self, kind: TokenType) -> Token | None:
        """Pass the next token if it is of this kind; returns the token, or None."""
        token = self.token
        if token is None or token.token_type != kind:
            return None
        self.at += 1
        return token

    def number(self) -> str | None:
        """A number, if one comes next; ``.5`` comes as a dot and a number."""
        start = self.at
        dot = "." if self.takes_type(TokenType.DOT) else ""
        token = self.takes_type(TokenType.NUMBER)
        if token is None:
            self.at = start
            return None
        return dot + token.text

    def duration(self, rule: str) -> str:
        """``1 MINUTE 30 SECONDS`` as text; the caller finds out whether it is a duration."""
        words = []
        while (number := self.number()) is not None:
            words.append(number)
            token = self.token
            if token is not None and token.text.isalpha() and not self.has("ON"):
                words.append(token.text)
                self.at += 1
        if not words:
            self.refuse(rule, self.token or self.before)
        return " ".join(words)

    def refuse(self, message: str, token: Token) -> NoReturn:
        """Raise an error that marks ``token``."""
        raise InvalidQuery(self.source.marked(message, token.start, token.end))
