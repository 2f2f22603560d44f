"""Settings of the documentation site; ``make docs`` builds it."""

from __future__ import annotations

import re
from importlib.metadata import version as version_of
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "recalljoin"
author = "recalljoin developers"
copyright = "recalljoin developers"
version = release = version_of("recalljoin")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["operations/*"]
html_theme = "furo"
html_title = "recalljoin"
html_static_path = ["static"]
html_css_files = ["figures.css"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
# Pages also name files of the repository, which are no pages of the site.
suppress_warnings = ["myst.xref_missing"]

autodoc_typehints = "none"  # the docstrings say it
autodoc_member_order = "bysource"
napoleon_google_docstring = False
nitpicky = False


def name_pages(app: Sphinx, page: nodes.document, _name: str) -> None:
    """Let links that show the name of a file, as the repository wants them, show its title."""
    for link in page.findall(nodes.reference):
        shown = link.astext()
        if not re.fullmatch(r"[\w-]+\.md", shown) or not link.get("internal"):
            continue
        title: Any = app.env.titles.get(PurePosixPath(shown).stem)
        if title is not None:
            link.clear()
            link.append(nodes.inline("", title.astext()))


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("doctree-resolved", name_pages)
