"""Public recordings as data for experiments, and the folder that holds them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recalljoin.datasets import PUBLIC

if TYPE_CHECKING:
    from recalljoin.datasets import PublicRecording, Recording

SHARED = "RECALLJOIN_SHARED"
"""Environment variable that names a folder; the recordings are in its subfolder ``data``."""
_MICROSECONDS = 7.0
"""Rough processor time for one tuple."""


@dataclass(frozen=True)
class RecordedSpec:
    """A public recording that is read when it is run.

    Parameters
    ----------
    kind
        Its name in :data:`~recalljoin.datasets.PUBLIC`.
    folder
        Where its files are.
    """

    kind: str
    folder: Path

    @property
    def recording(self) -> PublicRecording:
        """The recording and how it is joined."""
        return PUBLIC[self.kind]

    def dataset(self) -> Recording:
        """The streams themselves."""
        return _read(self.kind, self.folder)

    @property
    def title(self) -> str:
        """Name of the recording in figures."""
        return self.recording.title

    @property
    def minutes(self) -> float:
        """Rough length of the recording."""
        return self.recording.minutes

    @property
    def seconds(self) -> float:
        """Rough processor time of a join of the recording."""
        return self.recording.tuples * _MICROSECONDS * 1e-6

    def to_json(self) -> dict[str, Any]:
        """As text and numbers, with the content of the files but without their place."""
        digest = _digest(self.kind, self.folder)
        return {"kind": self.kind, "minutes": self.minutes, "seed": None, "files": digest}


@lru_cache(maxsize=2)
def _read(kind: str, folder: Path) -> Recording:
    return PUBLIC[kind].read(folder)


@cache
def _digest(kind: str, folder: Path) -> str:
    # Computed once for all runs of a command: the name of each run depends on the content.
    return PUBLIC[kind].digest(folder)


def usual_folder() -> Path | None:
    """The folder of recordings named by the environment, whether it exists or not."""
    shared = os.environ.get(SHARED)
    return Path(shared) / "data" if shared else None


def find_recordings(folder: Path | None) -> tuple[tuple[RecordedSpec, ...], str]:
    """Return the recordings whose files exist, and a sentence about the other recordings.

    Parameters
    ----------
    folder
        Where to look; None if nobody named a folder.
    """
    way_out = f"name their folder with `--recordings`, or set `{SHARED}` to the folder above `data`"
    if folder is None:
        return (), f"The recordings are left out, because no folder was named; {way_out}."
    if not folder.is_dir():
        return (), f"The recordings are left out, because their folder is not there; {way_out}."
    found = tuple(RecordedSpec(k, folder) for k, r in PUBLIC.items() if not r.missing(folder))
    absent = {
        p.relative_to(folder).as_posix(): 0 for r in PUBLIC.values() for p in r.missing(folder)
    }
    return found, f"Files of recordings that are not there: {', '.join(absent)}." if absent else ""
