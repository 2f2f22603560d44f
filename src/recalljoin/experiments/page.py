"""Pages of figures, tables and words: as one HTML file that needs no other, or as Markdown."""

from __future__ import annotations

import base64
import re
import textwrap
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_CSS = """
:root { color-scheme: light dark; --ink: #1c1c1c; --paper: #fff; --rule: #ddd; --link: #0a58a6;
        --label: #fff3cd; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #dcdcdc; --paper: #171717; --rule: #3a3d42; --link: #7db8f0; --label: #4a3d12; }
  /* Figures are drawn for white paper: dark becomes light, and colours keep their hue. */
  figure img { filter: invert(.91) hue-rotate(180deg); }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       max-width: 1080px; margin: 2rem auto; padding: 0 1rem; }
p, ul { max-width: 48rem; }
h1 { line-height: 1.2; }
h2 { margin-top: 3rem; border-top: 1px solid var(--rule); padding-top: 1rem; }
nav ul { columns: 2; padding-left: 1.2rem; max-width: none; } a { color: var(--link); }
figure { margin: 1rem 0; } figure img { width: 100%; height: auto; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 14px; }
th, td { padding: .3rem .8rem; text-align: right; border-bottom: 1px solid var(--rule); }
th { border-bottom: 2px solid #888; }
th:first-child, td:first-child { text-align: left; }
td { white-space: nowrap; } table.words td { white-space: normal; }
table.words td, table.words th { text-align: left; vertical-align: top; }
/* On a phone letters in a figure would be too small to read: it is moved sideways instead. */
@media (max-width: 640px) {
  table.words:has(td:nth-child(3)) { min-width: 620px; }
  figure { overflow-x: auto; } figure img { width: 720px; } nav ul { columns: 1; }
}
.label { background: var(--label); border-left: 4px solid #e0a800; padding: .5rem 1rem; }
"""


_WIDTH = 100
"""Characters in a line of Markdown, but for tables and figures, which cannot be broken."""


@dataclass(frozen=True)
class Table:
    """A table of text; ``words`` if it holds sentences and not numbers."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: bool = False


@dataclass(frozen=True)
class Section:
    """A part of a page.

    Parameters
    ----------
    name
        Name of the figure's file, and of the section as the target of links.
    title, text
        Heading, and paragraphs below it.
    svg, png
        The figure, if it has one.
    table
        Numbers, if any.
    notes
        Sentences below figure and table, as a list.
    parts
        Sections inside this section.
    """

    name: str
    title: str
    text: tuple[str, ...] = ()
    svg: bytes | None = None
    png: bytes | None = None
    table: Table | None = None
    notes: tuple[str, ...] = ()
    parts: tuple[Section, ...] = ()

    def whole(self) -> Iterator[Section]:
        """Return this section and everything in it, in the order of the page."""
        yield self
        for part in self.parts:
            yield from part.whole()


@dataclass(frozen=True)
class Page:
    """A page: what it is, how far it may be trusted, and its parts."""

    title: str
    label: str
    text: tuple[str, ...]
    sections: tuple[Section, ...]

    def whole(self) -> Iterator[Section]:
        """All sections, including sections inside others."""
        for section in self.sections:
            yield from section.whole()


def as_html(page: Page) -> str:
    """One file with everything in it."""
    contents = "\n".join(
        f'<li><a href="#{section.name}">{escape(section.title)}</a></li>'
        for section in page.sections
    )
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(page.title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_CSS}</style></head><body>",
        f"<h1>{escape(page.title)}</h1>",
        f'<p class="label">{escape(page.label)}</p>' if page.label else "",
        *(f"<p>{_html_words(text)}</p>" for text in page.text),
        f"<nav><ul>\n{contents}\n</ul></nav>" if len(page.sections) > 1 else "",
        *(_html_section(section) for section in page.sections),
        "</body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _html_words(text: str) -> str:
    """HTML of a text in which code is written between backticks, as in Markdown.

    Examples
    --------
    >>> _html_words("call `f(a < b)`")
    'call <code>f(a &lt; b)</code>'
    """
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _html_section(section: Section, level: int = 2) -> str:
    parts = [f'<h{level} id="{section.name}">{escape(section.title)}</h{level}>']
    parts += [f"<p>{_html_words(text)}</p>" for text in section.text]
    if section.svg is not None:
        # Each figure is an image of its own, so that equal names in two figures do not collide.
        data = base64.b64encode(section.svg).decode("ascii")
        source = f"data:image/svg+xml;base64,{data}"
        parts.append(f'<figure><img alt="{escape(section.title)}" src="{source}"></figure>')
    if section.table is not None:
        parts.append(_html_table(section.table))
    if section.notes:
        notes = "".join(f"<li>{_html_words(note)}</li>" for note in section.notes)
        parts.append(f"<ul>{notes}</ul>")
    parts += [_html_section(part, level + 1) for part in section.parts]
    return "\n".join(parts)


def _html_table(table: Table) -> str:
    def row(cells: tuple[str, ...], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"

    kind = ' class="words"' if table.words else ""
    body = "\n".join(row(cells, "td") for cells in table.rows)
    return f'<div class="scroll"><table{kind}>\n{row(table.header, "th")}\n{body}\n</table></div>'


def as_markdown(page: Page, *, figures: str) -> str:
    """The page as Markdown; its figures are files in the folder ``figures`` beside it."""
    parts = [f"# {page.title}"]
    if page.label:
        parts.append(_wrapped(page.label, "> ", "> "))
    parts += [_wrapped(text) for text in page.text]
    for section in page.sections:
        parts += _markdown_section(section, figures)
    return "\n\n".join(parts) + "\n"


def _wrapped(text: str, first: str = "", rest: str = "") -> str:
    """A paragraph in lines that fit a page, after ``first`` and then ``rest``.

    A mark that would begin a list, a quotation or a title stays in the line of the word before it.

    Examples
    --------
    >>> print(_wrapped("wide " * 19 + "a - b", "- ", "  "))
    - wide wide wide wide wide wide wide wide wide wide wide wide wide wide wide wide wide wide wide
      a - b
    """
    held = re.sub(r" (?=(?:[-+*>]|#+|\d+[.)]) )", "\0", text)
    lines = textwrap.fill(
        held,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines.replace("\0", " ")


def _markdown_section(section: Section, figures: str, level: int = 2) -> list[str]:
    parts = [f"{level * '#'} {section.title}", *(_wrapped(text) for text in section.text)]
    if section.svg is not None:
        parts.append(f"![{section.title}]({figures}/{section.name}.svg)")
    if section.table is not None:
        parts.append(_markdown_table(section.table))
    if section.notes:
        parts.append("\n".join(_wrapped(note, "- ", "  ") for note in section.notes))
    for part in section.parts:
        parts += _markdown_section(part, figures, level + 1)
    return parts


def _markdown_table(table: Table) -> str:
    def row(cells: tuple[str, ...]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

    side = "---" if table.words else "---:"
    rule = ("---", *([side] * (len(table.header) - 1)))
    return "\n".join([row(table.header), row(rule), *(row(cells) for cells in table.rows)])
