"""Reports of a few runs: one page that needs nothing else, figures, and the numbers as files."""

from __future__ import annotations

import base64
import importlib
import json
import re
import sys
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np
import pyarrow.parquet as pq
import pytest

pytest.importorskip("matplotlib", reason="reports have charts")
pytest.importorskip("pyspark", reason="experiments run on Spark")

from recalljoin.errors import InvalidSetting
from recalljoin.experiments.charts import over_time
from recalljoin.experiments.page import Page, Section, Table, as_html, as_markdown
from recalljoin.experiments.report import write_page, write_report
from recalljoin.experiments.run import Run
from tests.experiments.runs import record_of

if TYPE_CHECKING:
    from pathlib import Path

_OUTSIDE = re.compile(r"""(?:src|href)\s*=\s*["'](?!#|data:)|@import|url\(""")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("report")
    records = {policy: record_of(policy) for policy in ("slack", "max", "none")}
    path = write_report(records, made, title="A <few> runs", label="generated")
    assert path == made / "index.html"
    return made


def test_the_page_holds_its_figure_and_refers_to_nothing_outside(folder: Path) -> None:
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert not _OUTSIDE.search(page)
    figures = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
    (figure,) = (base64.b64decode(figure) for figure in figures)
    assert figure == (folder / "figures" / "over-time.svg").read_bytes()
    words = "".join(ElementTree.fromstring(figure).itertext())
    for word in ("slack (ours)", "Max-K-slack", "No-K-slack", "K (s)", "recall", "time (min)"):
        assert word in words
    assert (folder / "figures" / "over-time.png").read_bytes()[:4] == b"\x89PNG"


def test_text_in_a_page_is_text(folder: Path) -> None:
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert "<h1>A &lt;few&gt; runs</h1>" in page
    assert '<p class="label">generated</p>' in page


def test_the_table_of_a_page_shows_the_numbers_of_the_records(folder: Path) -> None:
    page = (folder / "index.html").read_text(encoding="utf-8")
    for policy, name in (("slack", "slack (ours)"), ("none", "No-K-slack")):
        record = record_of(policy)
        row = f"<tr><td>{name}</td><td>{record.mean_k / 1000:.3f}</td>"
        assert row in page
        assert f"<td>{record.mean_recall:.4f}</td>" in page
        assert f"<td>{record.n_produced:,}</td>" in page


def test_records_are_the_same_as_json_and_as_parquet(folder: Path) -> None:
    rows = json.loads((folder / "records.json").read_text(encoding="utf-8"))
    table = pq.read_table(folder / "records.parquet").to_pylist()
    assert [row["name"] for row in rows] == ["slack", "max", "none"]
    for row, flat in zip(rows, table, strict=True):
        assert row["k_ms"] == flat["k_ms"]
        assert row["recall"] == flat["recall"]
        assert row["adaptation_ms"]["mean"] == flat["adaptation_ms.mean"]
        assert len(row["clock_ms"]) == len(row["k_ms"])


def test_without_matplotlib_the_way_to_install_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "recalljoin.experiments.charts")
    with pytest.raises(InvalidSetting, match=r"call `pip install 'recalljoin\[plot\]'`"):
        importlib.import_module("recalljoin.experiments.charts")


def test_a_figure_names_no_address_and_no_day(folder: Path) -> None:
    svg = (folder / "figures" / "over-time.svg").read_text(encoding="utf-8")
    addresses = set(re.findall(r"https?://[^\s\"'<]+", svg))
    assert addresses == {"http://www.w3.org/1999/xlink", "http://www.w3.org/2000/svg"}
    assert "date" not in svg


def test_the_same_records_make_the_same_figure(folder: Path, tmp_path: Path) -> None:
    records = {policy: record_of(policy) for policy in ("slack", "max", "none")}
    write_report(records, tmp_path)
    one, two = (where / "figures" / "over-time.svg" for where in (folder, tmp_path))
    assert one.read_bytes() == two.read_bytes()


def test_recall_is_shown_from_the_end_of_the_first_period_on() -> None:
    run = Run.of(record_of("none"))
    minutes, recall = run.recall_over_time()
    assert len(minutes) == len(recall) == run.numbers["measurements"]
    assert minutes[0] * 60 == pytest.approx(5, abs=1.1)
    assert run.k_over_time()[0][0] * 60 == pytest.approx(1, abs=0.1)


def test_a_run_can_be_scored_against_any_target() -> None:
    run = Run.of(record_of("none", 0.9))
    assert run.phi() == record_of("none", 0.9).phi()
    assert run.phi(0.0) == 1
    assert run.phi(share=0.99) >= run.phi()
    lowest = min(run.numbers["recall"])
    assert run.phi(lowest) == 1
    assert run.phi(lowest + 1e-9) < 1


def test_of_a_run_the_beginning_can_be_left_out() -> None:
    record = record_of("max")
    late = Run.of(record).after(10 / 60)
    counts = record.clock >= 10_000
    assert 5 < len(late.numbers["k_ms"]) < len(record.k)
    assert late.numbers["k_ms"] == record.k[counts].tolist()
    assert late.numbers["recall"] == record.recall[counts].tolist()
    assert late.mean_k == pytest.approx(record.k[counts].mean() / 1000)
    assert late.mean_recall == pytest.approx(record.recall[counts].mean())
    assert len(late.recall_over_time()[0]) == len(late.numbers["recall"])
    early = Run.of(record).after(3 / 60)
    assert early.numbers["recall"] == Run.of(record).numbers["recall"]
    assert len(early.numbers["k_ms"]) == int((record.clock >= 3_000).sum())
    assert Run.of(record).after(60).numbers["recall"] == []


def test_sections_inside_a_section_have_their_own_heading_and_figure(tmp_path: Path) -> None:
    inner = Section("inner", "Inside", ("More.",), b"<svg/>", b"png")
    page = Page("Title", "", (), (Section("outer", "Outside", parts=(inner,)),))
    html = write_page(page, tmp_path, [{"n": 1}]).read_text(encoding="utf-8")
    assert '<h2 id="outer">Outside</h2>\n<h3 id="inner">Inside</h3>\n<p>More.</p>' in html
    assert (tmp_path / "figures" / "inner.svg").read_bytes() == b"<svg/>"
    assert (tmp_path / "figures" / "inner.png").read_bytes() == b"png"
    text = as_markdown(page, figures="f")
    assert text == "# Title\n\n## Outside\n\n### Inside\n\nMore.\n\n![Inside](f/inner.svg)\n"


def test_a_page_is_written_as_markdown_with_figures_beside_it() -> None:
    table = Table(("a|b", "n"), (("x", "1"),))
    section = Section("fig", "A figure", ("Words.",), b"<svg/>", None, table, ("One.", "Two."))
    text = as_markdown(Page("Title", "Label", ("Intro.",), (section,)), figures="figures")
    assert text == (
        "# Title\n\n> Label\n\nIntro.\n\n## A figure\n\nWords.\n\n"
        "![A figure](figures/fig.svg)\n\n"
        "| a\\|b | n |\n| --- | ---: |\n| x | 1 |\n\n"
        "- One.\n- Two.\n"
    )


def test_every_section_can_be_reached_from_the_top_of_a_page() -> None:
    sections = (Section("one", "First"), Section("two", "Second"))
    page = as_html(Page("Title", "", (), sections))
    for name in ("one", "two"):
        assert f'<a href="#{name}">' in page
        assert f'<h2 id="{name}">' in page


def test_a_line_that_swings_is_drawn_as_a_median_in_a_band() -> None:
    swings, rises = (
        Run(dict(Run.of(record_of("slack")).numbers, clock_ms=clock, k_ms=k, recall=[1.0] * 600))
        for clock, k in (
            (list(range(0, 600_000, 1000)), [0, 5000, 9000] * 200),
            (list(range(0, 600_000, 1000)), list(range(600))),
        )
    )
    figure = over_time({"": {"noneqsel": swings, "slack": rises}}, target=None)
    axes = figure.axes[0]
    assert len(axes.collections) == 1
    heights = np.asarray(axes.collections[0].get_paths()[0].vertices)[:, 1]
    assert (heights.min(), heights.max()) == (0, 9)
    median, line = (np.asarray(line.get_ydata()) for line in axes.get_lines())
    assert set(median.tolist()) == {5.0}
    assert len(line) == 600


def test_a_figure_has_its_title_and_the_page_has_a_dark_side(folder: Path) -> None:
    svg = (folder / "figures" / "over-time.svg").read_text(encoding="utf-8")
    assert "Wait and recall over time" in svg
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in page
    assert "Γ is the recall asked for" in page
