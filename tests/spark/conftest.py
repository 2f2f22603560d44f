"""What tests of Spark share beside the session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.broker import Broker, require_kafka

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One Kafka broker for all tests that need one."""
    require_kafka()
    started = Broker(tmp_path_factory.mktemp("kafka"))
    started.start()
    yield started
    started.stop()
