"""The documentation site, as ``docs/conf.py`` sets it up, over two small pages."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.documents import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("furo", reason="the site is built with the packages of the group `docs`")


def test_links_show_the_titles_of_pages_and_figures_turn_dark(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "index.md").write_text("# Home\n\nSee [other.md](other.md), or [this](other.md).\n")
    (pages / "other.md").write_text("---\norphan: true\n---\n# The other page\n")
    site = tmp_path / "site"
    subprocess.run(
        [
            sys.executable, "-m", "sphinx", "--fail-on-warning", "--quiet", "-b", "html",
            "-c", str(ROOT / "docs"), str(pages), str(site),
        ],
        check=True,
    )  # fmt: skip
    html = (site / "index.html").read_text("utf-8")
    assert 'href="other.html"><span>The other page</span></a>' in html
    assert ">this</span></a>" in html
    assert "figures.css" in html
    assert "invert(.91)" in (site / "_static" / "figures.css").read_text("utf-8")
