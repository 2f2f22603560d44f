"""Syntax errors in words, with the place marked under the text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sqlglot.errors import ParseError, TokenError

_MISSING: Final = re.compile(r"Required keyword: '\w+' missing")
_EXPECTING: Final = re.compile(r"Expect(?:ing|ed) (?P<what>\S+)$")
_UNCLOSED: Final = re.compile(r"Missing (?P<quote>.) from \d+:(?P<start>\d+)")


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


def unexpected(source: Source, error: ParseError) -> str:
    """Message for text that does not follow the grammar."""
    place = error.errors[0]
    start, end = place["start"], place["end"]
    token = source.text[start : end + 1]
    description = str(place["description"])
    expecting = _EXPECTING.search(description)
    where = f"after `{token}`" if place["at_end"] else f"before `{token}`"
    if expecting:
        message = f"`{expecting['what']}` is missing {where}"
    elif _MISSING.search(description) or place["at_end"]:
        message = f"something is missing {where}"
    else:
        message = f"unexpected `{token}`"
    if place["at_end"]:
        start = end = end + 1
    return source.marked(message, start, end)


def unclosed(source: Source, error: TokenError) -> str:
    """Message for text that cannot even be cut into words."""
    found = _UNCLOSED.search(str(error.__cause__))
    if found:
        start = int(found["start"])
        return source.marked(f"the quote {found['quote']} is not closed", start, start)
    start = max(source.text.rfind("/*"), 0)
    return source.marked("the comment is not closed", start, start + 1)
