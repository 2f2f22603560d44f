"""Every experiment makes its figure from runs, and tells what the paper says of it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="experiments have charts")
pytest.importorskip("pyspark", reason="experiments run on Spark")

from recalljoin.cli.experiment import NAMES, announced, estimate
from recalljoin.datasets import PUBLIC, make_syn_x4
from recalljoin.experiments import scale as scales
from recalljoin.experiments.baselines import OWN_DRAW
from recalljoin.experiments.catalogue import EXPERIMENTS, claims_of, page_of, rows_of, specs_of
from recalljoin.experiments.page import as_html
from recalljoin.experiments.recorded import RecordedSpec
from recalljoin.experiments.report import write_docs, write_page
from recalljoin.experiments.run import Run
from tests.experiments.runs import record_of
from tests.public_files import write_recordings

if TYPE_CHECKING:
    from recalljoin.experiments.experiment import Runs
    from recalljoin.experiments.page import Page
    from recalljoin.experiments.scale import Scale

QUICK = replace(scales.quick(), jump=1 / 3)
"""The jumps as long as the recording that is run instead."""
EVERY_RECORDING = tuple(RecordedSpec(name, Path("not read")) for name in PUBLIC)


def _runs(scale: Scale) -> Runs:
    """For each spec a real run of its policy, over a small recording instead of its own."""
    runs = {}
    for spec in specs_of(NAMES, scale):
        policy = "max" if spec.setup.policy == "fixed" else spec.setup.policy
        runs[spec] = Run.of(record_of(policy, spec.setup.recall or 0.95))
    return runs


@pytest.fixture(scope="module")
def scale(tmp_path_factory: pytest.TempPathFactory) -> Scale:
    folder = write_recordings(tmp_path_factory.mktemp("data"), seconds=5)
    return replace(QUICK, recordings=tuple(RecordedSpec(name, folder) for name in PUBLIC))


@pytest.fixture(scope="module")
def page(scale: Scale) -> Page:
    return page_of(NAMES, scale, _runs(scale), code="abc123")


def test_the_command_knows_every_experiment() -> None:
    assert tuple(EXPERIMENTS) == NAMES


def test_every_experiment_has_its_figure_or_table(page: Page) -> None:
    assert [section.name for section in page.sections] == ["beside-the-paper", *NAMES]
    for section in page.whole():
        assert section.svg is not None or section.table is not None or section.parts
        if section.svg is not None:
            assert section.png is not None
            assert section.png.startswith(b"\x89PNG")
    without = {section.name for section in page.whole() if section.svg is None}
    assert without == {"beside-the-paper", "table2", "recordings"}
    recordings = page.sections[-1]
    assert [part.name for part in recordings.parts] == [f"recording-{name}" for name in PUBLIC]


def test_values_in_a_figure_keep_all_their_digits(page: Page) -> None:
    (figure,) = (section.svg for section in page.sections if section.name == "fig7")
    assert figure is not None
    words = list(ElementTree.fromstring(figure).itertext())
    for target in QUICK.targets:
        assert f"{target:g}" in words


def test_the_page_says_what_it_is_made_from(page: Page) -> None:
    assert page.label.startswith("Quick version: 3 minutes of the simulated match (of 23)")
    text = " ".join(page.text)
    assert "Seed 0; code abc123" in text
    assert "The soccer match is simulated" in text
    assert page_of(("table2",), scales.full(7), _runs(scales.full(7)), code="").label == ""


def test_the_match_is_called_simulated_wherever_it_is_shown(page: Page) -> None:
    for section in page.whole():
        drawn = "" if section.svg is None else section.svg.decode()
        for match in re.finditer(r"soccer[^<,]*,?[^<]{0,12}", drawn):
            assert "simulated" in match[0]


def test_the_paper_s_numbers_stand_beside_ours(page: Page) -> None:
    table = page.sections[0].table
    assert table is not None
    said = {row[0]: row[1] for row in table.rows}
    soccer = "soccer ×2, simulated"
    assert said[f"mean K and recall of Max-K-slack, {soccer}"] == "19.96 s, 1"
    assert said["mean K and recall of Max-K-slack, D_syn ×3"] == "19.72 s, 0.999"
    assert said["mean K and recall of Max-K-slack, D_syn ×4"] == "13.88 s, 0.999"
    assert said[f"K saved against Max-K-slack at Γ = 0.99, {soccer}"] == "more than 95 %"
    assert said[f"K saved against Max-K-slack at Γ = 0.999, {soccer}"] == "35 %"
    assert said["Φ(.99 Γ) of NonEqSel, all data sets and Γ"] == "at least 97 %"
    assert "below 5 ms" in said.values()


def test_what_differs_from_the_paper_is_marked_and_explained() -> None:
    runs = _runs(QUICK)
    claims = claims_of(("table2",), QUICK, runs)
    largest = record_of("max", 0.95).mean_k / 1000
    for claim in claims:
        assert claim.here.startswith(f"{largest:.2f} s")
        assert not claim.holds
    (section, _) = page_of(("table2",), QUICK, runs, code="").sections
    assert section.table is not None
    assert {row[3] for row in section.table.rows} == {"no"}
    soccer, synthetic = section.notes
    assert "the match is simulated" in soccer
    assert "D_syn ×3; mean K and recall of Max-K-slack, D_syn ×4: only the first" in synthetic


@pytest.mark.parametrize(("seed", "mean"), [(0, "18.8 s"), (9, "13.6 s")])
def test_the_mean_slack_of_the_largest_delay_depends_on_the_draw_as_is_said(
    seed: int, mean: str
) -> None:
    dataset = make_syn_x4(seed)
    largest = np.zeros(dataset.rows, dtype=np.int64)
    for stream in dataset.streams:
        ts = dataset.table(stream)["ts"].to_numpy()
        np.maximum(largest, np.maximum.accumulate(ts) - ts, out=largest)
    k = np.maximum.accumulate(largest)[99::100]
    assert f"{k.mean() / 1000:.1f} s" == mean
    assert mean in OWN_DRAW


def test_runs_are_shared_between_experiments() -> None:
    full = replace(scales.full(), recordings=EVERY_RECORDING)
    whole = specs_of(NAMES, full)
    assert len(whole) == len(set(whole)) < sum(len(e.specs(full)) for e in EXPERIMENTS.values())
    assert estimate(whole) < 90 * 60
    assert estimate(specs_of(NAMES, replace(QUICK, recordings=EVERY_RECORDING))) < 5 * 60


def test_the_page_and_its_markdown_are_written_with_all_figures(
    page: Page, scale: Scale, tmp_path: Path
) -> None:
    path = write_page(page, tmp_path / "out", rows_of(NAMES, scale, _runs(scale)))
    write_docs(page, tmp_path / "results.md")
    drawn = {section.name for section in page.whole() if section.svg is not None}
    out = tmp_path / "out" / "figures"
    assert {file.stem for file in out.glob("*.svg")} == drawn
    assert {file.stem for file in out.glob("*.png")} == drawn
    assert {file.name for file in (tmp_path / "figures").iterdir()} == {f"{n}.svg" for n in drawn}
    text = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\(figures/(\S+)\.svg\)", text)) == drawn
    assert path.read_text(encoding="utf-8") == as_html(page)
    assert path.read_text(encoding="utf-8").count("data:image/svg+xml;base64,") == len(drawn)


def test_what_there_is_to_do_is_told_before_it_begins() -> None:
    specs = specs_of(("table2",), QUICK)
    assert announced(specs, []) == "9 runs, all done before"
    assert announced(specs, specs) == "9 runs; about a minute on a quiet machine"
    assert announced(specs, specs[:2]).startswith("9 runs, 7 of them done before; about a minute")
    whole = specs_of(NAMES, scales.full())
    assert re.fullmatch(r"\d+ runs; about \d+ minutes on a quiet machine", announced(whole, whole))
