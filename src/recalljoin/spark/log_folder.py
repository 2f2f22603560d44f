"""The folder of a control log: objects that are written as a whole, among them where tuples go.

Tasks that route tuples read where tuples go, and nothing else of the log. So this module loads
nothing of the engine or the policies.
"""

from __future__ import annotations

import json
import os
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.fs as pafs

from recalljoin.errors import ControlLogError
from recalljoin.spark.hot_keys import Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True)
class LogFolder:
    """A folder, or a place in an object store.

    Parameters
    ----------
    folder
        A path, or an address that Arrow knows (``s3://``, ``hdfs://``, ``file://``).
    """

    folder: str

    @property
    def address(self) -> str | None:
        """The folder's address, which anybody may read; None if it holds a password."""
        parts = urlparse(self.folder)
        if not parts.scheme:
            return str(Path(self.folder).absolute())
        return self.folder if parts.password is None else None

    @property
    def shown(self) -> str:
        """The folder as messages name it: without a password."""
        if not urlparse(self.folder).scheme:
            return self.folder
        return self.address or self.folder.partition("://")[0] + "://..."

    @property
    def place(self) -> tuple[pafs.FileSystem, str]:
        """The file system, and the folder's path in it."""
        if urlparse(self.folder).scheme:
            try:
                return pafs.FileSystem.from_uri(self.folder)  # type: ignore[no-any-return]
            except (pa.ArrowException, OSError):
                message = (
                    f"`control_log` {self.shown!r} is no place that Arrow knows and can reach; "
                    "write a path, or an address such as 's3://bucket/joins/orders'"
                )
                # Arrow's own message has the whole address in it.
                raise ControlLogError(message) from None
        return pafs.LocalFileSystem(), str(Path(self.folder).absolute())

    def names(self, folder: str) -> list[str]:
        """What there is in a folder of the log, sorted."""
        system, root = self.place
        chosen = pafs.FileSelector(f"{root}/{folder}", allow_not_found=True)
        with self.named(folder, "listed"):
            return sorted(info.base_name for info in system.get_file_info(chosen))

    def write_versions(self, versions: Iterable[Version]) -> None:
        """Say where tuples go, to the tasks of later batches. Called by the driver alone."""
        self.write("hot", json.dumps([each.to_json() for each in versions]).encode())

    def read_versions(self) -> tuple[Version, ...]:
        """What :meth:`write_versions` wrote last."""
        content = self.read("hot")
        if content is None:
            return ()
        try:
            return tuple(Version.from_json(each) for each in json.loads(content))
        except (ValueError, TypeError, KeyError) as error:
            message = (
                f"{self.shown}/hot, which says to which cells tuples go, is damaged; "
                "start the query again from its checkpoint, where the driver writes it anew"
            )
            raise ControlLogError(message) from error

    def read(self, name: str) -> bytes | None:
        """The content of an object; None if there is no such object."""
        system, root = self.place
        try:
            # Arrow would unpack what is called `.gz`.
            with (
                self.named(name, "read"),
                system.open_input_stream(f"{root}/{name}", compression=None) as stream,
            ):
                return stream.read()  # type: ignore[no-any-return]
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes, *, new: bool = False) -> None:
        """Write an object; with ``new``, leave an object that is there already as it is."""
        system, root = self.place
        path = f"{root}/{name}"
        with self.named(name, "written"):
            system.create_dir(path.rpartition("/")[0], recursive=True)
            if not isinstance(system, pafs.LocalFileSystem):
                with system.open_output_stream(path, compression=None) as stream:
                    stream.write(content)
                return
            # A file appears as a whole or not at all: a reader must never see half of it.
            draft = Path(f"{path}.{uuid.uuid4().hex}.draft")
            try:
                draft.write_bytes(content)
                if new:
                    with suppress(FileExistsError):
                        os.link(draft, path)
                else:
                    os.replace(draft, path)  # noqa: PTH105 - a string all along
            finally:
                draft.unlink(missing_ok=True)

    def remove(self, name: str, *, folder: bool = False) -> None:
        """Remove an object, or a folder; it may be gone already, if a listing was old."""
        system, root = self.place
        with suppress(FileNotFoundError), self.named(name, "removed"):
            (system.delete_dir if folder else system.delete_file)(f"{root}/{name}")

    @contextmanager
    def named(self, name: str, done: str) -> Iterator[None]:
        """Say which object of which folder could not be read or written, and what to do."""
        try:
            yield
        except (FileNotFoundError, ControlLogError):
            raise
        except OSError as error:
            reason = error.strerror or str(error).partition("\n")[0]
            message = (
                f"`control_log` {self.shown!r}: {name} cannot be {done}: {reason}. Nothing is "
                "lost: once the folder can be used again, start the query again from its checkpoint"
            )
            raise ControlLogError(message) from error
