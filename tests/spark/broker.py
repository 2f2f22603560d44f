"""A Kafka broker for tests: a process of its own, on ports and in a folder of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
CONNECTOR = ROOT / ".cache" / "kafka" / "connector"


def connector_jars() -> str:
    """Spark's connector to Kafka as a list for Spark; empty where it was never fetched."""
    return ",".join(sorted(str(path) for path in CONNECTOR.glob("*.jar")))


def require_kafka() -> None:
    """Skip a test where Kafka could not be fetched; in continuous integration, fail."""
    if not connector_jars():
        reason = "Kafka is not in .cache/kafka; `scripts/kafka jars` fetches it with mvn"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


class Broker:
    """One node on loopback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = _free_port()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, or start it again."""
        self._call("start")

    def stop(self) -> None:
        """End it in order."""
        self._call("stop")

    def kill(self) -> None:
        """End it at once and without warning."""
        pid = int((self.folder / "pid").read_text())
        os.kill(pid, signal.SIGKILL)
        while Path(f"/proc/{pid}").exists() and _is_alive(pid):
            time.sleep(0.02)

    def _call(self, command: str) -> None:
        environment = {
            **os.environ,
            "KAFKA_PORT": str(self.port),
            "KAFKA_DATA": str(self.folder),
        }
        subprocess.run([str(ROOT / "scripts" / "kafka"), command], env=environment, check=True,
                       stderr=subprocess.DEVNULL, timeout=120)  # fmt: skip


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def _free_port() -> int:
    """A port that is free, as is the one after it."""
    while True:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            port = int(one.getsockname()[1])
            try:
                two.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port
