"""Finished runs on disk: a file for each, named after its spec and the version of the code."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from recalljoin.experiments.run import Run

if TYPE_CHECKING:
    from recalljoin.experiments.spec import RunSpec


class RunStore:
    """A folder of runs.

    A run is stored as a whole or not at all, so work can be interrupted at any moment and taken up
    again. Runs of other versions of the code stay in the folder, but are not found.

    Parameters
    ----------
    folder
        The folder; it is made when the first run is saved.
    code
        Version of the code, see :func:`~recalljoin.experiments.spec.code_version`.
    """

    def __init__(self, folder: str | Path, code: str) -> None:
        self.folder = Path(folder)
        self.code = code

    def load(self, spec: RunSpec) -> Run | None:
        """The run of a spec, if it is stored."""
        try:
            content = self._path(spec).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        return Run(json.loads(content)["numbers"])

    def save(self, spec: RunSpec, run: Run) -> None:
        """Keep a run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._path(spec)
        content = {"code": self.code} | spec.to_json() | {"numbers": run.numbers}
        unfinished = path.with_suffix(f".{os.getpid()}.part")
        unfinished.write_text(json.dumps(content), encoding="utf-8")
        unfinished.replace(path)

    def _path(self, spec: RunSpec) -> Path:
        return self.folder / f"{spec.key(self.code)}.json"
