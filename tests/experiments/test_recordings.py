"""Public recordings as an experiment: which are found, what is run, and what is shown."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="experiments have charts")
pytest.importorskip("pyspark", reason="experiments run on Spark")

from recalljoin.datasets import PUBLIC
from recalljoin.engine.arrivals import arrivals_of
from recalljoin.experiments import scale as scales
from recalljoin.experiments.catalogue import EXPERIMENTS, page_of, rows_of, specs_of
from recalljoin.experiments.recorded import RecordedSpec, find_recordings, usual_folder
from recalljoin.experiments.run import Run
from recalljoin.experiments.spec import run_spec
from recalljoin.quality.adaptive import run_adaptive, true_results
from recalljoin.quality.settings import PolicySettings
from recalljoin.query.durations import in_unit, nanoseconds
from recalljoin.query.text import parse_query
from tests.public_files import write_phones, write_recordings

if TYPE_CHECKING:
    from pathlib import Path

    from recalljoin.experiments.page import Section
    from recalljoin.experiments.scale import Scale
    from recalljoin.experiments.spec import RunSpec
    from recalljoin.quality.record import RunRecord

SLACKS = (0, 40, 280, 320, 400)


@cache
def record_of(spec: RunSpec) -> RunRecord:
    """The run itself, without Spark."""
    dataset, setup = spec.data.dataset(), spec.setup
    tables = {stream: dataset.table(stream) for stream in dataset.streams}
    stated = parse_query(dataset.query, arrival="arrival")
    query = replace(stated, quality=setup.target(stated)).bind(
        {stream: table.schema for stream, table in tables.items()}
    )
    arrivals = arrivals_of(query, tables)
    return run_adaptive(
        query,
        arrivals,
        setup.make_policy(query),
        PolicySettings.of(query),
        arrival=setup.arrival_mode,
        tick=in_unit(nanoseconds(setup.tick, name="tick"), query.unit),
        truth=true_results(query, arrivals),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five minutes of one session, and nothing else."""
    made = tmp_path_factory.mktemp("data")
    path = made / "jr-ooo-dataset-umts" / "d-1.csv.gz"
    write_phones(path, np.random.default_rng(1), seconds=300)
    return made


@pytest.fixture(scope="module")
def scale(folder: Path) -> Scale:
    found, left_out = find_recordings(folder)
    return replace(
        scales.full(), recordings=found, recordings_left_out=left_out,
        recording_targets=(0.9, 0.95), recording_slacks=SLACKS,
    )  # fmt: skip


@pytest.fixture(scope="module")
def section(scale: Scale) -> Section:
    runs = {spec: Run.of(record_of(spec)) for spec in specs_of(("recordings",), scale)}
    return EXPERIMENTS["recordings"].section(scale, runs)


def test_recordings_are_found_by_their_files(tmp_path: Path, folder: Path) -> None:
    found, left_out = find_recordings(folder)
    assert found == (RecordedSpec("umts-1", folder),)
    assert left_out == (
        "Files of recordings that are not there: jr-ooo-dataset-umts/d-2.csv.gz, "
        "binance/spot_btcusdt_20240808.gz, binance/usdm_btcusdt_20240808.gz."
    )
    found, left_out = find_recordings(write_recordings(tmp_path))
    assert [spec.kind for spec in found] == list(PUBLIC)
    assert left_out == ""


def test_a_missing_folder_is_told_with_the_way_to_name_it(tmp_path: Path) -> None:
    for nowhere, why in ((None, "no folder was named"), (tmp_path / "no", "is not there")):
        found, left_out = find_recordings(nowhere)
        assert found == ()
        assert why in left_out
        assert "`--recordings`" in left_out
        assert "`RECALLJOIN_SHARED`" in left_out


def test_the_usual_folder_is_named_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECALLJOIN_SHARED", str(tmp_path))
    assert usual_folder() == tmp_path / "data"
    monkeypatch.delenv("RECALLJOIN_SHARED")
    assert usual_folder() is None


def test_a_run_is_known_by_what_the_files_hold_and_not_by_where_they_are(tmp_path: Path) -> None:
    one, same = write_recordings(tmp_path / "one"), write_recordings(tmp_path / "same")
    other = write_recordings(tmp_path / "other", seed=6)
    keys = [run_spec(RecordedSpec("trades", at), "slack").key("a") for at in (one, same, other)]
    assert keys[0] == keys[1] != keys[2]
    assert str(one) not in str(run_spec(RecordedSpec("trades", one), "slack").to_json())


def test_recordings_run_one_by_one_and_in_ticks_with_steps_of_k_as_they_are_by_default(
    scale: Scale,
) -> None:
    specs = specs_of(("recordings",), scale)
    ticks = {(spec.setup.arrival_mode, str(spec.setup.tick)) for spec in specs}
    assert ticks == {("tuple", "10 ms"), ("tick", "100 ms")}
    assert {spec.setup.granularity for spec in specs} == {None}
    assert not any(spec.alone for spec in specs)
    # A fixed K and the largest delay know no target: one run serves all.
    assert len(specs) == 2 * (3 * 2 + 1 + len(SLACKS))


def test_no_fixed_slack_is_tried_that_is_longer_than_every_delay(tmp_path: Path) -> None:
    scale = replace(scales.full(), recordings=(RecordedSpec("trades", tmp_path),))
    tried = {spec.setup.k for spec in specs_of(("recordings",), scale)} - {None}
    assert max(int(str(k)) for k in tried) == PUBLIC["trades"].largest_delay < SLACKS[-1]


def _after_three_minutes(spec: RunSpec) -> tuple[np.ndarray, np.ndarray]:
    record = record_of(spec)
    # The first message has the time 1 000.
    counts = record.clock >= 1_000 + 180_000
    return record.k[counts], record.recall[counts]


def test_the_table_shows_what_came_after_the_first_three_periods(
    scale: Scale, section: Section
) -> None:
    (part,) = section.parts
    assert part.title == "Phones over UMTS, D-1"
    assert part.table is not None
    assert part.table.header == (
        "mean K (ms); Φ(Γ)", "best fixed K", "NonEqSel (paper)", "percentile of delays",
        "Max-K-slack", "slack (ours)",
    )  # fmt: skip
    specs = specs_of(("recordings",), scale)
    for row in part.table.rows:
        target = float(row[0].rpartition("= ")[2])
        mode = "tuple" if row[0].startswith("one by one, P = 60 s") else "tick"
        for column, policy in ((2, "noneqsel"), (3, "percentile"), (5, "slack")):
            (spec,) = (
                s for s in specs
                if (s.setup.policy, s.setup.recall, s.setup.arrival_mode) == (policy, target, mode)
            )  # fmt: skip
            k, recall = _after_three_minutes(spec)
            shown_k, shown_phi = row[column].rstrip(" %").split("; ")
            assert float(shown_k) == pytest.approx(k.mean(), abs=0.5)
            assert float(shown_phi) == pytest.approx(100 * (recall >= target).mean(), abs=0.05)


def test_the_best_fixed_slack_is_the_smallest_that_is_enough(
    scale: Scale, section: Section
) -> None:
    assert section.parts[0].table is not None
    specs = [s for s in specs_of(("recordings",), scale) if s.setup.arrival_mode == "tuple"]
    enough = [
        spec.setup.k
        for spec in specs
        if spec.setup.policy == "fixed" and (_after_three_minutes(spec)[1] >= 0.95).mean() >= 0.95
    ]
    shown = {row[0]: row[1] for row in section.parts[0].table.rows}
    best = shown["one by one, P = 60 s, Γ = 0.95"]
    assert 0 < float(best.split(";")[0]) == min(float(str(k)) for k in enough)


def test_the_section_tells_what_the_recording_is_and_how_late(section: Section) -> None:
    (part,) = section.parts
    (text,) = part.text
    assert text.startswith("8 phones and computers send a message every 500 ms")
    assert "2,400 messages, " in text
    assert "99 % of the messages come at most 250 ms late, and the latest 250 ms" in text
    assert part.svg is not None
    assert b"fixed K" in part.svg
    assert b"0.001" in part.svg
    assert any("left out" in text or "not there" in text for text in section.text)


def test_a_fixed_slack_that_is_nowhere_enough_is_not_shown(scale: Scale) -> None:
    none_enough = replace(scale, recording_slacks=(0,), recording_targets=(0.95,))
    runs = {spec: Run.of(record_of(spec)) for spec in specs_of(("recordings",), none_enough)}
    (part,) = EXPERIMENTS["recordings"].section(none_enough, runs).parts
    assert part.table is not None
    assert part.table.rows[0][1] == "-"
    assert part.table.rows[0][2] != "-"


def test_a_recording_of_less_than_three_periods_has_no_numbers(tmp_path: Path) -> None:
    write_recordings(tmp_path)
    short = replace(scales.quick(), recordings=(RecordedSpec("umts-2", tmp_path),))
    runs = {spec: Run.of(record_of(spec)) for spec in specs_of(("recordings",), short)}
    (part,) = EXPERIMENTS["recordings"].section(short, runs).parts
    assert part.table is not None
    assert {cell for row in part.table.rows for cell in row[2:]} == {"-"}


def test_without_recordings_the_page_says_so_and_nothing_is_run() -> None:
    _, left_out = find_recordings(None)
    scale = replace(scales.quick(), recordings_left_out=left_out)
    assert specs_of(("recordings",), scale) == []
    assert rows_of(("recordings",), scale, {}) == []
    (section,) = page_of(("recordings",), scale, {}, code="").sections
    assert left_out in section.text
    assert section.parts == ()
