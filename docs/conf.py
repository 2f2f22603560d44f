"""Settings of the documentation site; ``make docs`` builds it."""

from importlib.metadata import version as version_of

project = "recalljoin"
author = "recalljoin developers"
copyright = "recalljoin developers"
version = release = version_of("recalljoin")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["operations/*"]
html_theme = "furo"
html_title = "recalljoin"

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
# Pages also name files of the repository, which are no pages of the site.
suppress_warnings = ["myst.xref_missing"]

autodoc_typehints = "none"  # the docstrings say it
autodoc_member_order = "bysource"
napoleon_google_docstring = False
nitpicky = False
