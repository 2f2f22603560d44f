"""A control log that is damaged, shared or cannot be written: repaired, or named with a way out."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.fs as pafs
import pytest

from recalljoin.errors import ControlLogError, InvalidSetting
from recalljoin.spark.batch_planner import versions_in
from recalljoin.spark.control_log import ControlLog
from recalljoin.spark.packing import Control
from recalljoin.spark.progress import progress_table
from tests.spark.live import MINUTE, SECOND, Live, both
from tests.spark.local_cells import LocalJoin
from tests.spark.test_control import BOUND, NO_LIMIT, control_of, put_away, reader, ticks

if TYPE_CHECKING:
    from collections.abc import Callable

QUERY = "6f0c9a1e-58ad-4a0f-9d5c-3a7b1c2d3e4f"


def report_file(folder: Path, batch: int, cell: int = 1) -> Path:
    return folder / "reports" / f"{batch:012d}" / f"{cell:05d}.json"


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:100])


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def garbled(file: Path) -> None:
    file.write_bytes(b"\xff\xfe" + os.urandom(50))


def another_form(file: Path) -> None:
    file.write_text('{"layout": 3, "batch": []}')


DAMAGES = (Path.unlink, cut_short, emptied, garbled, another_form)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("damaged", [2, 5])
def test_a_query_goes_on_and_ends_without_a_report(
    tmp_path: Path, damage: Callable[[Path], None], damaged: int
) -> None:
    source = reader(tmp_path)
    source.prepareForTriggerAvailableNow()
    join = LocalJoin(BOUND, 2, tmp_path)
    offset = source.initialOffset()
    n_batches = 0
    for tables in [*ticks(6), *[[]] * 20]:
        after = source.latestOffset(offset, NO_LIMIT)
        if after == offset:
            break
        join.batch(tables, control=control_of(source, offset, after))
        offset = after
        if n_batches == damaged:
            damage(report_file(tmp_path, damaged))
        n_batches += 1
    # One batch without data is enough to know the end; one more if its report was lost.
    assert n_batches in (7, 8)
    left = [n for n in range(n_batches) if n != damaged]
    assert progress_table(ControlLog(str(tmp_path)))["batch"].to_pylist() == left
    # A restart reads the log from its beginning.
    again = reader(tmp_path).latestOffset(offset, NO_LIMIT)
    assert again["k"] > 0
    assert again["k"] == source.latestOffset({**offset, "clock": 0}, NO_LIMIT)["k"]


def test_a_damaged_report_is_named_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    join = LocalJoin(BOUND, 2, tmp_path)
    join.batch(ticks(1)[0], control=Control(k=0, clock=1))
    cut_short(report_file(tmp_path, 0))
    assert list(ControlLog(str(tmp_path)).reports_after(-1)) == []
    (said,) = [record.message for record in caplog.records]
    assert said.startswith(f"{tmp_path}/reports/000000000000/00001.json is damaged (")
    assert said.endswith("nothing is learned from its batch, which changes no result of that batch")


def test_reports_are_put_together_around_one_that_is_lost(tmp_path: Path) -> None:
    join = LocalJoin(BOUND, 2, tmp_path)
    log = ControlLog(str(tmp_path))
    for tables in ticks(5):
        join.batch(tables, control=Control(k=0, clock=1))
    cut_short(report_file(tmp_path, 1))
    put_away(log, 0, 3)
    assert [report.batch for report in log.reports_after(-1)] == [0, 2, 3, 4]
    assert len(list((tmp_path / "reports").iterdir())) == 1
    (history,) = (tmp_path / "history").iterdir()
    history.write_text(history.read_text()[:-100])
    assert [report.batch for report in log.reports_after(-1)] == [0, 2, 4]
    last = log.last_report()
    assert last is not None
    assert last.batch == 4


def test_files_of_others_in_the_folder_do_no_harm(tmp_path: Path) -> None:
    join = LocalJoin(BOUND, 2, tmp_path)
    join.batch(ticks(1)[0], control=Control(k=0, clock=1))
    for folder in ("reports", "history", "moves", "rolled"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / ".DS_Store").write_text("x")
        (tmp_path / folder / "old.jsonl").write_text("x")
        (tmp_path / folder / "old.jsonl.gz").write_text("x")
    log = ControlLog(str(tmp_path))
    assert not log.files()
    log.forget_history(10)
    log.forget_moves(10)
    assert [report.batch for report in log.reports_after(-1)] == [0]


def test_with_a_new_log_a_join_goes_on_though_its_first_batch_is_empty(tmp_path: Path) -> None:
    live = Live(tmp_path / "log", list(both(6, 2 * MINUTE)))
    live.run(MINUTE, batch=10 * SECOND)
    live.log = str(tmp_path / "new")
    live.start()
    live.run_empty()
    live.run(2 * MINUTE, batch=10 * SECOND)
    assert len(progress_table(ControlLog(live.log))) == 7
    assert live.recall(0) > 0.9


@pytest.mark.parametrize("left", [0, 18, 35])
def test_an_id_that_was_cut_short_is_written_anew(tmp_path: Path, left: int) -> None:
    log = ControlLog(str(tmp_path))
    for take, name in ((log.own, "query"), (log.claim, "owner")):
        take(QUERY)
        (tmp_path / name).write_text(QUERY[:left])
        take(QUERY)
        assert (tmp_path / name).read_text() == QUERY


def test_of_two_joins_with_one_log_the_later_is_refused_before_it_writes(tmp_path: Path) -> None:
    first = reader(tmp_path)
    join = LocalJoin(BOUND, 2, tmp_path)
    offset = first.initialOffset()
    after = first.latestOffset(offset, NO_LIMIT)
    join.batch(ticks(1)[0], control=control_of(first, offset, after))
    (tmp_path / "hot").write_text("what the first has written")
    later = reader(tmp_path)
    with pytest.raises(InvalidSetting) as caught:
        later.latestOffset(later.initialOffset(), NO_LIMIT)
    assert str(caught.value) == (
        f"`control_log` '{tmp_path}' belongs to another join; give every join a folder of its own, "
        "a new one if its checkpoint is gone, and a query that starts again from its checkpoint "
        "the folder it had"
    )
    assert (tmp_path / "hot").read_text() == "what the first has written"
    # The first one goes on, also after a restart from its checkpoint.
    assert first.latestOffset(after, NO_LIMIT)["n"] == 2
    assert reader(tmp_path).latestOffset(after, NO_LIMIT)["n"] == 2


def test_of_two_joins_that_begin_at_once_one_is_refused(tmp_path: Path) -> None:
    one, other = reader(tmp_path), reader(tmp_path)
    begun = [(source, source.initialOffset()) for source in (one, other)]
    planned = [(source, at, source.latestOffset(at, NO_LIMIT)) for source, at in begun]
    source, start, end = planned[0]
    source.partitions(start, end)
    source, start, end = planned[1]
    with pytest.raises(InvalidSetting, match=r"belongs to another join"):
        source.partitions(start, end)


def test_a_crash_before_the_first_offset_is_written_leaves_no_owner(tmp_path: Path) -> None:
    source = reader(tmp_path)
    source.latestOffset(source.initialOffset(), NO_LIMIT)
    again = reader(tmp_path)
    offset = again.initialOffset()
    assert again.partitions(offset, again.latestOffset(offset, NO_LIMIT))


def test_an_offset_of_an_older_release_has_no_owner_and_is_given_one(tmp_path: Path) -> None:
    source = reader(tmp_path)
    old = {name: value for name, value in source.initialOffset().items() if name != "owner"}
    after = source.latestOffset(old, NO_LIMIT)
    assert source.partitions(old, after)
    assert reader(tmp_path).latestOffset(after, NO_LIMIT)["owner"] == after["owner"]


def test_damaged_hot_keys_are_named_and_written_anew_by_a_restart(tmp_path: Path) -> None:
    source = reader(tmp_path)
    offset = source.initialOffset()
    after = source.latestOffset(offset, NO_LIMIT)
    source.partitions(offset, after)
    (tmp_path / "hot").write_text('[{"since"')
    log = ControlLog(str(tmp_path))
    with pytest.raises(ControlLogError, match=r"/hot, which says .* is damaged; start the query"):
        log.read_versions()
    reader(tmp_path).partitions(offset, after)
    assert log.read_versions() == versions_in(offset)


def full(*_: Any, **__: Any) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_stops_the_batch_with_a_word_and_leaves_no_half_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = LocalJoin(BOUND, 2, tmp_path)
    first, second = ticks(2)
    join.batch(first, control=Control(k=0, clock=1))
    stores = [store.copy() for store in join.stores]
    with monkeypatch.context() as patched:
        patched.setattr("pathlib.Path.write_bytes", full)
        with pytest.raises(ControlLogError) as caught:
            join.batch(second, control=Control(k=0, clock=2))
    assert str(caught.value) == (
        f"`control_log` '{tmp_path}': late/s1/000000000001-00000.parquet cannot be written: No "
        "space left on device. Nothing is lost: once the folder can be used again, start the "
        "query again from its checkpoint"
    )
    assert not list(tmp_path.rglob("*.draft"))
    # Spark runs the batch again, from the state before it.
    join.stores = stores
    _, report = join.batch(second, control=Control(k=0, clock=2), forget=True)
    assert [each.batch for each in ControlLog(str(tmp_path)).reports_after(-1)] == [0, 1]
    assert report.n_restored == 2


def test_a_folder_that_becomes_read_only_stops_the_batch_and_can_be_used_again(
    tmp_path: Path,
) -> None:
    def mount(*options: str) -> bool:
        told = ["mount", "-t", "tmpfs", "-o", ",".join(options), "none", str(tmp_path)]
        return (
            shutil.which("mount") is not None and not subprocess.run(told, check=False).returncode
        )

    if not mount("size=4m"):
        pytest.skip("no disk can be mounted here")
    try:
        join = LocalJoin(BOUND, 2, tmp_path)
        first, second = ticks(2)
        join.batch(first, control=Control(k=0, clock=1))
        stores = [store.copy() for store in join.stores]
        assert mount("remount", "ro")
        with pytest.raises(ControlLogError, match=r"cannot be written: .*Read-only file system"):
            join.batch(second, control=Control(k=0, clock=2))
        assert mount("remount", "rw")
        join.stores = stores
        join.batch(second, control=Control(k=0, clock=2), forget=True)
        assert [each.batch for each in ControlLog(str(tmp_path)).reports_after(-1)] == [0, 1]
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    source = reader(tmp_path / "file")
    with pytest.raises(ControlLogError, match=r"`control_log` '.*/file': .* cannot be "):
        source.latestOffset(source.initialOffset(), NO_LIMIT)


class ObjectStore(pafs.FileSystemHandler):  # type: ignore[misc]
    """Objects without folders and without renaming; new objects are listed one look too late."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.listed: set[str] = set()

    def get_type_name(self) -> str:
        return "objects"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> pafs.FileInfo:
        if path in self.objects:
            return pafs.FileInfo(path, pafs.FileType.File, size=len(self.objects[path]))
        return pafs.FileInfo(path, pafs.FileType.NotFound)

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        inside = f"{selector.base_dir}/"
        found = {}
        for path in sorted(self.listed & set(self.objects)):
            if path.startswith(inside):
                child = inside + path.removeprefix(inside).partition("/")[0]
                kind = pafs.FileType.File if child == path else pafs.FileType.Directory
                found[child] = pafs.FileInfo(child, kind)
        self.listed = set(self.objects)
        return list(found.values())

    def create_dir(self, path: str, recursive: bool) -> None:
        """Folders are only names here."""

    def delete_dir(self, path: str) -> None:
        for name in [name for name in self.objects if name.startswith(f"{path}/")]:
            del self.objects[name]

    def delete_file(self, path: str) -> None:
        del self.objects[path]

    def open_input_stream(self, path: str) -> Any:
        if path not in self.objects:
            raise FileNotFoundError(path)
        import pyarrow as pa

        return pa.BufferReader(self.objects[path])

    def open_output_stream(self, path: str, metadata: Any) -> Any:  # noqa: ARG002
        import pyarrow as pa

        store = self

        class Object:
            """An object that is there once it is closed."""

            closed = False

            def __init__(self) -> None:
                self.parts: list[bytes] = []

            def write(self, part: Any) -> int:
                self.parts.append(bytes(part))
                return len(part)

            def flush(self) -> None:
                pass

            def close(self) -> None:
                if not self.closed:
                    store.objects[path] = b"".join(self.parts)
                self.closed = True

            def writable(self) -> bool:
                return True

            def readable(self) -> bool:
                return False

            def seekable(self) -> bool:
                return False

        return pa.PythonFile(Object(), mode="w")

    def _not_there(self, *_: Any) -> Any:
        raise NotImplementedError

    delete_dir_contents = move = copy_file = _not_there
    delete_root_dir_contents = open_input_file = open_append_stream = _not_there


def test_a_log_on_an_object_store_with_late_listing_ends_with_the_same_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def produced(folder: Path) -> tuple[int, int]:
        source = reader(folder, flush=True)
        source.prepareForTriggerAvailableNow()
        join = LocalJoin(BOUND, 2, folder)
        offset = source.initialOffset()
        n_results = n_batches = 0
        for tables in [*ticks(6), *[[]] * 30]:
            after = source.latestOffset(offset, NO_LIMIT)
            if after == offset:
                break
            results, _ = join.batch(tables, control=control_of(source, offset, after))
            n_results += sum(each.num_rows for each in results)
            n_batches += 1
            offset = after
        return n_results, n_batches

    # K is fixed: it may be chosen later where reports are listed later.
    from recalljoin.quality.adaptation import PolicyPlan
    from tests.spark.test_control import SETTINGS

    fixed = PolicyPlan(SETTINGS, "fixed", {"k": 20})
    monkeypatch.setattr("tests.spark.test_control.PolicyPlan", lambda *_: fixed)
    local, _ = produced(tmp_path)
    store = pafs.PyFileSystem(ObjectStore())
    monkeypatch.setattr(ControlLog, "place", property(lambda self: (store, self.folder)))
    there, n_batches = produced(tmp_path / "there")
    assert there == local > 0
    assert n_batches < 15
    assert [report.batch for report in ControlLog(str(tmp_path / "there")).reports_after(-1)] == (
        list(range(n_batches))
    )
