"""Syntax errors in words, with the place marked under the text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlglot import Token
    from sqlglot.errors import ParseError

_MISSING: Final = re.compile(r"Required keyword: '\w+' missing|Expected table name")
_EXPECTING: Final = re.compile(r"Expect(?:ing|ed) (?P<what>\S+)$")
_QUOTES: Final = "'\"`"
_CLOSED: Final = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|--[^\n]*|/\*.*?\*/""", re.DOTALL
)
"""Quoted text or a comment from its beginning to its end."""


@dataclass(frozen=True)
class Source:
    """The text being parsed."""

    text: str
    what: str
    """What the text is: a query, a condition, ..."""
    skipped: int = 0
    """Length of a prefix that the user has not written."""

    @property
    def shown(self) -> str:
        """The text as the user wrote it."""
        return self.text[self.skipped :]

    def marked(self, message: str, start: int, end: int) -> str:
        """``message`` with its place, and the line of that place with marks under it."""
        start = max(start - self.skipped, 0)
        end = max(end - self.skipped, start)
        before = self.shown[:start]
        line_start = before.rfind("\n") + 1
        line = self.shown[line_start:].split("\n", 1)[0]
        column = start - line_start
        marks = "^" * max(1, min(end + 1 - start, len(line) - column))
        return (
            f"syntax error in the {self.what}, line {before.count(chr(10)) + 1}, "
            f"column {column + 1}: {message}\n"
            f"    {line.expandtabs(1)}\n"
            f"    {' ' * column}{marks}"
        )


def unexpected(source: Source, error: ParseError, tokens: Sequence[Token]) -> str:
    """Message for text that does not follow the grammar.

    sqlglot marks the token it could not use, or the last one when the text ends too early.
    """
    place = error.errors[0]
    found = [each for each in tokens if (each.line, each.col) == (place["line"], place["col"])]
    token = found[0] if found else tokens[-1]
    start, end = token.start, token.end
    text = source.text[start : end + 1]
    description = str(place["description"])
    expecting = _EXPECTING.search(description)
    missing = expecting or _MISSING.search(description)
    at_end = missing and token is tokens[-1]
    where = f"after `{text}`" if at_end else f"before `{text}`"
    if expecting:
        message = f"`{expecting['what']}` is missing {where}"
    elif missing:
        message = f"something is missing {where}"
    else:
        message = f"unexpected `{text}`"
    if at_end:
        start = end = end + 1
    return source.marked(message, start, end)


def unclosed(source: Source) -> str:
    """Message for text that cannot be cut into words, because a quote or comment is not closed."""
    at = 0
    while at < len(source.text):
        closed = _CLOSED.match(source.text, at)
        if closed is None and source.text[at] in _QUOTES:
            return source.marked(f"the quote {source.text[at]} is not closed", at, at)
        if closed is None and source.text.startswith("/*", at):
            break
        at = closed.end() if closed else at + 1
    else:
        # Comments nest, so that one may be open although all of them seem to be closed.
        at = max(source.text.rfind("/*"), 0)
    return source.marked("the comment is not closed", at, at + 1)
