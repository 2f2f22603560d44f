"""What ``recalljoin dashboard`` says of folders that no join has written to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from recalljoin.cli import main
from recalljoin.dashboard.server import Dashboard

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def ended_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_self: Dashboard) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Dashboard, "wait", interrupted)


def note(folder: Path) -> str:
    result = CliRunner().invoke(main, ["dashboard", "--port", "0", str(folder)])
    assert result.exit_code == 0
    return result.stderr.strip()


def test_a_join_that_has_not_begun_is_waited_for(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert note(log) == f"note: nothing is in '{log}' yet; a join is waited for"
    log.mkdir()
    assert note(log) == f"note: nothing is in '{log}' yet; a join is waited for"


def test_a_folder_with_other_files_is_told(tmp_path: Path) -> None:
    (tmp_path / "part-0.parquet").touch()
    assert note(tmp_path) == (
        f"note: '{tmp_path}' holds other files, and no control log; a join is waited for"
    )


def test_a_checkpoint_is_told_with_the_place_of_its_control_log(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    start = f"note: '{tmp_path}' is a checkpoint, and no control log; give"
    assert (
        note(tmp_path)
        == f"{start} the folder that is the join's `control_log`; a join is waited for"
    )
    (tmp_path / "control_log").mkdir()
    assert note(tmp_path) == f"{start} '{tmp_path / 'control_log'}'; a join is waited for"


def test_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.touch()
    result = CliRunner().invoke(main, ["dashboard", str(path)])
    assert result.exit_code == 2
    assert f"'{path}' is a file; a control log is a folder" in result.stderr
