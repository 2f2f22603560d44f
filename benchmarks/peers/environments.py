"""A virtual environment for each peer, in ``.cache/peers``, with the packages that are pinned here.

They are no part of the project's locks: nothing but this benchmark needs them.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MADE = ROOT / ".cache" / "peers"
PINNED = Path(__file__).parent / "requirements"
PYTHONS = (sys.executable, "python3.11", "python3.12", "python3.13", "python3.10")
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
"""Pinned, as mvn would take the newest."""
PATIENCE = 1800
"""Seconds that fetching and building packages may take."""


_refused: dict[str, str] = {}
"""Peers that were tried in vain, and why: each is tried once in a process."""


class Unavailable(Exception):
    """A peer cannot be had on this machine; the message says why."""


def python_of(name: str) -> str:
    """The Python of a peer's environment, which is made if it is not there.

    Raises
    ------
    Unavailable
        If no Python of this machine can have the packages.
    """
    if name in _refused:
        raise Unavailable(_refused[name])
    folder = MADE / name
    files = [PINNED / f"{name}.txt", PINNED / f"{name}.xml"]
    content = b"".join(file.read_bytes() for file in files if file.exists())
    made_from, mark = hashlib.sha256(content).hexdigest(), folder / "made-from"
    python = folder / "bin" / "python"
    if mark.exists() and mark.read_text() == made_from and python.exists():
        return str(python)
    reasons = []
    for candidate in dict.fromkeys(filter(None, map(shutil.which, PYTHONS))):
        print(f"making {folder.relative_to(ROOT)} with {candidate}", flush=True)
        try:
            _called(candidate, "-m", "venv", "--clear", str(folder))
            _called(str(python), "-m", "pip", "install", "--quiet", "-r", str(files[0]))
            if files[1].exists():
                _called(
                    "mvn", "--batch-mode", "--quiet", "--file", str(files[1]), COPY,
                    "-DincludeScope=runtime", f"-DoutputDirectory={folder / 'jars'}",
                )  # fmt: skip
        except Unavailable as reason:
            reasons.append(f"{Path(candidate).name}: {reason}")
            continue
        mark.write_text(made_from)
        return str(python)
    _refused[name] = "; ".join(reasons) or "no Python was found"
    raise Unavailable(_refused[name])


def _called(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(str(error)) from error
    except subprocess.CalledProcessError as error:
        lines = [line for line in (error.stdout + error.stderr).splitlines() if "ERROR" in line]
        raise Unavailable(lines[-1] if lines else error.stderr[-200:]) from error
