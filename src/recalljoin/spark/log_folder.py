"""The folder of a control log: objects that are written as a whole, and the hot keys among them.

Tasks that route tuples read the hot keys, and nothing else of the log. So this module loads nothing
of the engine or the policies.
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse

import pyarrow.fs as pafs

from recalljoin.spark.hot_keys import Version

if TYPE_CHECKING:
    from collections.abc import Iterable


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
    def place(self) -> tuple[pafs.FileSystem, str]:
        """The file system, and the folder's path in it."""
        if urlparse(self.folder).scheme:
            return pafs.FileSystem.from_uri(self.folder)  # type: ignore[no-any-return]
        return pafs.LocalFileSystem(), str(Path(self.folder).absolute())

    def names(self, folder: str) -> list[str]:
        """What there is in a folder of the log, sorted."""
        system, root = self.place
        chosen = pafs.FileSelector(f"{root}/{folder}", allow_not_found=True)
        return sorted(info.base_name for info in system.get_file_info(chosen))

    def write_hot(self, versions: Iterable[Version]) -> None:
        """Say which keys are hot, for the tasks of later batches. Called by the driver alone."""
        self.write("hot", json.dumps([each.to_json() for each in versions]).encode())

    def read_hot(self) -> tuple[Version, ...]:
        """What :meth:`write_hot` wrote last."""
        content = self.read("hot")
        if content is None:
            return ()
        return tuple(Version.from_json(each) for each in json.loads(content))

    def must_read(self, name: str) -> str:
        """The content of an object that is there."""
        content = self.read(name)
        assert content is not None
        return content.decode()

    def read(self, name: str) -> bytes | None:
        """The content of an object; None if there is no such object."""
        system, root = self.place
        try:
            with system.open_input_stream(f"{root}/{name}") as stream:
                return stream.read()  # type: ignore[no-any-return]
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Write an object as a whole."""
        system, root = self.place
        path = f"{root}/{name}"
        system.create_dir(path.rpartition("/")[0], recursive=True)
        if not isinstance(system, pafs.LocalFileSystem):
            with system.open_output_stream(path) as stream:
                stream.write(content)
            return
        # A file appears as a whole or not at all: a reader must never see half of it.
        draft = f"{path}.{uuid.uuid4().hex}.draft"
        Path(draft).write_bytes(content)
        os.replace(draft, path)  # noqa: PTH105 - a string all along
